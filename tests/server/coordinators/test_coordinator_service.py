"""The partitions that a coordinator leads, their leader epochs, and reloading after a failure."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from barnabas.coordinator.core.coordinator_output import Caller, Output, Reply
from barnabas.coordinator.core.steps import Steps
from barnabas.coordinator.groups.group_shard import GroupShard
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.server.coordinators.coordinator_turns import Waiter
from barnabas.server.coordinators.group_partition import GroupPartition
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from barnabas.testing.batches import batch
from tests.server.coordinators.coordinator_world import (
    OTHER,
    Asked,
    World,
    code_of,
    marker,
    run,
    start,
)
from tests.server.replication.leaderships import lead, replace_records

CALLER = Caller(version=1)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def serve(world: World, test: Callable[[GroupPartition], Awaitable[None]]) -> None:
    """Run a test with both coordinators and a follower that replicates all the time."""

    async def replicate() -> None:
        while True:
            world.replicate(OFFSETS_TOPIC)
            await trio.sleep(0.5)

    async def whole() -> None:
        async with trio.open_nursery() as nursery:
            await start(world, nursery)
            nursery.start_soon(replicate)
            await test(here(world))
            nursery.cancel_scope.cancel()

    run(whole)


def here(world: World) -> GroupPartition:
    """The partition of groups that is led here, as it is now."""
    return world.groups.partitions[world.led(OFFSETS_TOPIC).partition]


def group_here(world: World, prefix: str = "g") -> str:
    names = (f"{prefix}{number}" for number in range(100))
    led = world.led(OFFSETS_TOPIC).partition
    return next(name for name in names if world.groups.partition_of(name) == led)


async def commit(world: World, offset: int) -> None:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset
    )
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])
    request = OffsetCommitRequest(
        group_id=group_here(world), generation_id_or_member_epoch=-1, topics=[topic]
    )
    await world.groups.commit_offsets(request, 8)


async def committed(world: World) -> int:
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_here(world), topics=[topic])
    found = await world.groups.fetch_offsets(asked, require_stable=False)
    return found.topics[0].partitions[0].committed_offset


def join(world: World, prefix: str = "g") -> JoinGroupRequest:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    return JoinGroupRequest(
        group_id=group_here(world, prefix),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[protocol],
    )


async def is_reloaded(world: World, failed: GroupPartition) -> None:
    with trio.fail_after(100):
        while here(world) is failed or not here(world).is_loaded:  # noqa: ASYNC110
            await trio.sleep(0.5)


# Failures


def test_coordinator_failing_turn_unloads_its_partition_and_reloads_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_shard: Any, _now_ms: int, _token: Any) -> Steps[Output]:
        yield
        raise ValueError("planted")

    async def test(partition: GroupPartition) -> None:
        await commit(world, 5)
        async with trio.open_nursery() as nursery:
            parked = Asked(nursery, lambda: world.groups.join_group(join(world), CALLER))
            await wait_all_tasks_blocked(0.001)
            failing = Asked(nursery, lambda: partition.request(fails))
        assert failing.answers == parked.answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
            await committed(world)
        assert world.groups.failures == 1
        await is_reloaded(world, partition)
        assert await committed(world) == 5

    serve(world, test)
    (line,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert "coordinator failed" in line.message
    assert line.exc_info
    assert "planted" in str(line.exc_info[1])


def test_coordinator_failing_timer_does_not_end_the_node(world: World) -> None:
    async def test(partition: GroupPartition) -> None:
        await commit(world, 6)

        def fails(_now_ms: int) -> Output:
            raise KeyError("planted")

        due_ms = world.now_ms() + 1_000
        partition.shard._timers.schedule("bug", due_ms, fails)
        partition.submit(Output)
        await trio.sleep(2)
        await is_reloaded(world, partition)
        assert world.groups.failures == 1
        assert await committed(world) == 6

    serve(world, test)


def test_coordinator_failing_replay_after_an_append_keeps_the_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(partition: GroupPartition) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(GroupShard, "replay", lambda *_, **__: 1 // 0)
            async with trio.open_nursery() as nursery:
                asked = Asked(nursery, lambda: commit(world, 7))
        assert asked.answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        await is_reloaded(world, partition)
        assert await committed(world) == 7

    serve(world, test)


def test_coordinator_load_that_keeps_failing_is_tried_again_with_backoff(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(partition: GroupPartition) -> None:
        await commit(world, 8)
        with monkeypatch.context() as patch:
            patch.setattr(GroupShard, "loaded", lambda *_: 1 // 0)
            partition.fail(ValueError())
            await trio.sleep(60)
            assert 10 < world.groups.failures < 30
            async with trio.open_nursery() as nursery:
                asked = Asked(nursery, lambda: committed(world))
            assert asked.answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        await is_reloaded(world, partition)
        assert await committed(world) == 8

    serve(world, test)


def test_coordinator_failing_end_of_a_transaction_is_applied_by_the_reload(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(partition: GroupPartition) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(GroupShard, "end_transaction", lambda *_, **__: 1 // 0)
            responses: list[Any] = []
            world.markers.write(marker(OFFSETS_TOPIC, partition.index), responses.append)
        assert not here(world).is_loaded
        await is_reloaded(world, partition)
        assert [code_of(each) for each in responses] == [ErrorCode.NONE]
        world.markers.write(marker(OFFSETS_TOPIC, partition.index), responses.append)

    serve(world, test)


def test_coordinator_failing_effect_unloads_its_partition(world: World) -> None:
    async def test(partition: GroupPartition) -> None:
        partition.submit(lambda: Output(effects=["no such effect"]))
        await is_reloaded(world, partition)
        assert world.groups.failures == 1

    serve(world, test)


# Leader epochs


def lead_again(
    world: World, name: str = OFFSETS_TOPIC, epochs: int = 1, leader: int | None = None
) -> None:
    """Another leader epoch begins, with the same leader unless another one is given."""
    number = world.led(name).partition
    topic = world.image.topics_by_name[name]
    led = topic.partitions[number]
    again = attrs.evolve(led, leader=leader or led.leader, leader_epoch=led.leader_epoch + epochs)
    topic = attrs.evolve(topic, partitions={**topic.partitions, number: again})
    world.image = attrs.evolve(
        world.image,
        topics_by_name={**world.image.topics_by_name, topic.name: topic},
        topics_by_id={**world.image.topics_by_id, topic.id: topic},
    )
    world.replicas.apply(world.image)
    delta = SimpleNamespace(configs=[], topics={}, deleted_topics={})
    for subscriber in world.subscribers:
        subscriber(world.image, delta)


def test_coordinator_after_other_leaders_epochs_loads_the_partition(world: World) -> None:
    async def test(partition: GroupPartition) -> None:
        await commit(world, 9)
        async with trio.open_nursery() as nursery:
            parked = Asked(nursery, lambda: world.groups.join_group(join(world), CALLER))
            await wait_all_tasks_blocked(0.001)
            lead_again(world, epochs=2)
        (answer,) = parked.answers
        assert answer.error_code is ErrorCode.NOT_COORDINATOR
        await is_reloaded(world, partition)
        assert here(world).leader_epoch == partition.leader_epoch + 2
        assert await committed(world) == 9

    serve(world, test)


def test_coordinator_that_lost_its_partition_answers_nothing_from_memory(world: World) -> None:
    """Mistake 39: it would answer offsets that the next coordinator has overwritten."""

    async def test(partition: GroupPartition) -> None:
        await commit(world, 9)
        group = group_here(world)
        lead_again(world, leader=2)
        with pytest.raises(KafkaError) as refused:
            world.groups.partition_for_key(group)
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
        assert not partition.is_loaded

    serve(world, test)


def test_group_coordinator_that_leads_the_next_epoch_too_keeps_its_groups(world: World) -> None:
    async def test(partition: GroupPartition) -> None:
        await commit(world, 9)
        async with trio.open_nursery() as nursery:
            parked = Asked(nursery, lambda: world.groups.join_group(join(world, "h"), CALLER))
            await wait_all_tasks_blocked(0.001)
            lead_again(world)
            await wait_all_tasks_blocked(0.001)
            assert parked.answers == []
            assert here(world) is partition
            await commit(world, 10)  # written in the new epoch
            nursery.cancel_scope.cancel()
        assert await committed(world) == 10

    serve(world, test)


def test_transaction_coordinator_that_leads_the_next_epoch_too_is_loaded(world: World) -> None:
    """Its markers carry the leader epoch, and those of the old one are fenced."""

    async def test(_: GroupPartition) -> None:
        number = world.led(TRANSACTION_TOPIC).partition
        partition = world.transactions.partitions[number]
        lead_again(world, TRANSACTION_TOPIC)
        again = world.transactions.partitions[number]
        assert again is not partition
        assert again.leader_epoch == partition.leader_epoch + 1
        assert not partition.is_loaded

    serve(world, test)


def test_coordinator_partition_of_an_old_epoch_writes_nothing(world: World) -> None:
    async def test(partition: GroupPartition) -> None:
        world.subscribers.clear()
        await commit(world, 10)
        lead_again(world)  # the coordinator has not taken the image yet
        async with trio.open_nursery() as nursery:
            asked = Asked(nursery, lambda: commit(world, 11))
        assert asked.answers == [ErrorCode.NOT_COORDINATOR]
        assert await committed(world) == 10
        assert partition.is_loaded

    serve(world, test)


def test_partition_reply_after_its_records_were_replaced_is_an_error(world: World) -> None:
    """The high watermark is above the records, but it is of the other leader's records."""

    async def test(partition: GroupPartition) -> None:
        log, waiter = world.led(OFFSETS_TOPIC), Waiter()

        def decide() -> Output:
            partition.append_batch(batch(b"v"))
            lead(log, OTHER)
            replace_records(log)
            lead(log, world.node_id)
            return Output(replies=[Reply(waiter, "committed")])

        partition.submit(decide, waiter)
        with pytest.raises(KafkaError) as refusal:
            await waiter.wait()
        assert refusal.value.code is ErrorCode.NOT_COORDINATOR

    serve(world, test)
