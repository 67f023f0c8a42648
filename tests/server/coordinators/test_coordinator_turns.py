"""Long decisions of a coordinator, with other tasks in between: order, time, ends and errors."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.lowlevel import checkpoint
from trio.testing import MockClock, wait_all_tasks_blocked

from barnabas.coordinator.core.coordinator_output import Caller, Output, Record
from barnabas.coordinator.core.steps import Steps
from barnabas.coordinator.groups.offset_and_group_records import offset_commit
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from barnabas.protocol.records.group_records import OffsetCommitValue
from barnabas.server.api.handlers.transactions.txn_offset_commit_handler import txn_offset_commit
from barnabas.server.coordinators import coordinator_turns
from barnabas.server.coordinators.coordinator_turns import Waiter
from barnabas.server.coordinators.group_partition import GroupPartition
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC
from barnabas.server.coordinators.transactions.transaction_verification import Admission
from barnabas.server.coordinators.transactions.verification_guards import Guards
from tests.server.coordinators.coordinator_world import Asked, World, marker, run

PARTITIONS = 3


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose decisions let other tasks run after every step."""
    monkeypatch.setattr(coordinator_turns, "_SLICE_S", 0.0)
    return World(tmp_path)


def replicated(world: World, test: Callable[[GroupPartition], Any]) -> None:
    """Run a test whose partition of groups has no follower that is behind."""

    async def replicate() -> None:
        while True:
            world.replicate(OFFSETS_TOPIC)
            await checkpoint()

    async def whole() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(world.groups.run)
            await wait_all_tasks_blocked()
            index = world.led(OFFSETS_TOPIC).partition
            nursery.start_soon(replicate)
            await test(world.groups.partitions[index])
            nursery.cancel_scope.cancel()

    run(whole)


def group_here(world: World) -> str:
    led = {each.partition for each in world.replicas.partitions() if each.is_leader}
    names = (f"g{number}" for number in range(100))
    return next(name for name in names if world.groups.partition_of(name) in led)


async def settled(count: int = 60) -> None:
    for _ in range(count):
        await checkpoint()


# Transactions


class Verified:
    """A transaction coordinator that says of every partition that it is in the transaction."""

    def __init__(self, guards: Guards) -> None:
        self.guards = guards

    def leader_epoch(self, _topic: str, _partition: int) -> int:
        return 0

    async def verify(self, *arguments: Any, adds: bool) -> dict[tuple[str, int], ErrorCode]:
        return dict.fromkeys(arguments[-1], ErrorCode.NONE)


def offsets_of(group_id: str, offset: int) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=group_id,
        producer_id=7,
        producer_epoch=0,
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[
                    TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset
                    )
                    for index in range(PARTITIONS)
                ],
            )
        ],
    )


async def committed(world: World, group_id: str) -> set[tuple[int, int]]:
    """Offsets with their error codes, as one who wants stable ones sees them."""
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(
        name="t", partition_indexes=list(range(PARTITIONS))
    )
    asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=[topic])
    found = await world.groups.fetch_offsets(asked, require_stable=True)
    return {(each.committed_offset, each.error_code) for each in found.topics[0].partitions}


async def end_transaction(world: World, led: GroupPartition, epoch: int) -> None:
    request = marker(OFFSETS_TOPIC, led.index, producer_epoch=epoch)
    world.markers.write(request, lambda _: None)


RETRIED = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize(
    ("is_first", "epoch", "refused"),
    [
        (True, 0, RETRIED),
        (False, 0, ErrorCode.INVALID_TXN_STATE),
        (False, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
    ids=["first", "further", "further, second version"],
)
@pytest.mark.parametrize("steps", range(2, 14))
def test_transactional_commit_during_a_marker_is_before_it_or_refused(
    world: World, steps: int, is_first: bool, epoch: int, refused: ErrorCode
) -> None:
    """Whenever the marker comes: the offsets are before it, or they are refused.

    The marker of the second version has a higher epoch, and the error of an old epoch comes first.
    """
    verifier = Verified(world.transactions.guards)
    group_id = group_here(world)
    services = SimpleNamespace(
        image=lambda: world.image,
        transactions=world.transactions,
        groups=world.groups,
        replicas=world.replicas,
        settings=world.settings,
        admission=partial(Admission, verifier, world.settings),
    )
    context: Any = SimpleNamespace(services=services, version=3)

    async def test(led: GroupPartition) -> None:
        async def commit(offset: int) -> int:
            answer = await txn_offset_commit(context, offsets_of(group_id, offset))
            (code,) = {each.error_code for each in answer.topics[0].partitions}
            return code

        if not is_first:
            assert await commit(1) == ErrorCode.NONE
        async with trio.open_nursery() as nursery:
            led.submit(lambda: wait_steps(5))
            asked = Asked(nursery, lambda: commit(2))
            await settled(steps)
            await end_transaction(world, led, epoch)
            await settled()
        (code,) = asked.answers
        left = (2, 0) if code == ErrorCode.NONE else (-1, 0) if is_first else (1, 0)
        assert code in (ErrorCode.NONE, refused)
        assert await committed(world, group_id) == {left}
        log = world.led(OFFSETS_TOPIC).log
        assert log.last_stable_offset == log.log_end_offset

    replicated(world, test)


def wait_steps(count: int) -> Steps[Output]:
    for _ in range(count):
        yield
    return Output()


# Time


def heartbeat(group_id: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
    joins = epoch == 0
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="m",
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if joins else -1,
        subscribed_topic_names=["t"] if joins else None,
        server_assignor="uniform" if joins else None,
        topic_partitions=[] if joins else None,
    )


async def is_member(world: World, group_id: str) -> bool:
    return bool((await world.groups.describe_consumer_group(group_id)).members)


def pass_time(seconds: float) -> None:
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, MockClock)
    clock.jump(seconds)


def test_timers_run_while_turns_never_end(world: World) -> None:
    group_id, caller = group_here(world), Caller(version=1)

    async def test(led: GroupPartition) -> None:
        def again() -> Steps[Output]:
            led.submit(again)
            return wait_steps(2)

        await world.groups.consumer_heartbeat(heartbeat(group_id, 0), caller)
        again()
        pass_time(46)
        await settled()
        assert not await is_member(world, group_id)

    replicated(world, test)


def test_session_with_a_queued_heartbeat_does_not_expire(world: World) -> None:
    group_id, caller = group_here(world), Caller(version=1)

    async def test(led: GroupPartition) -> None:
        joined = await world.groups.consumer_heartbeat(heartbeat(group_id, 0), caller)
        pass_time(44)
        async with trio.open_nursery() as nursery:
            led.submit(lambda: wait_steps(30))
            stays = heartbeat(group_id, joined.member_epoch)
            asked = Asked(nursery, lambda: world.groups.consumer_heartbeat(stays, caller))
            await settled(10)
            pass_time(2)
            await settled(10)
            assert asked.answers == []
        assert asked.answers[0].error_code == ErrorCode.NONE
        await settled()
        assert await is_member(world, group_id)

    replicated(world, test)


def test_quick_turns_let_other_tasks_run(world: World) -> None:
    async def test(led: GroupPartition) -> None:
        done: list[int] = []

        def quick(number: int) -> Output:
            done.append(number)
            return Output()

        led.submit(lambda: wait_steps(2))
        for number in range(50):
            led.submit(partial(quick, number))
        await settled(20)
        assert 0 < len(done) < 50
        await settled()
        assert done == list(range(50))

    replicated(world, test)


# Ends and errors


def commits(group_id: str, waiter: Waiter) -> Steps[Output]:
    """A decision of some steps with a record and a reply."""
    yield from wait_steps(5)
    out = Output(records=[offset_record(group_id)])
    out.reply(waiter, "done")
    return out


def offset_record(group_id: str) -> Record:
    return offset_commit(group_id, "t", 0, OffsetCommitValue(offset=1, metadata=""))


def test_resigned_partition_refuses_waiters_and_writes_nothing(
    world: World,
) -> None:
    group_id = group_here(world)

    async def test(led: GroupPartition) -> None:
        async with trio.open_nursery() as nursery:
            waiters = [Waiter(), Waiter()]
            for waiter in waiters:
                led.submit(lambda waiter=waiter: commits(group_id, waiter), waiter)
            asked = [Asked(nursery, waiter.wait) for waiter in waiters]
            await settled(2)
            world.groups.partitions.pop(led.index).resign()
            await settled()
            assert [each.answers for each in asked] == [[ErrorCode.NOT_COORDINATOR]] * 2
        assert world.led(OFFSETS_TOPIC).log.log_end_offset == 0

    replicated(world, test)


def test_coordinator_partition_refusal_between_steps_answers_its_request_alone(
    world: World,
) -> None:
    group_id = group_here(world)

    def refuses() -> Steps[Output]:
        yield from wait_steps(3)
        raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH, "no")

    async def test(led: GroupPartition) -> None:
        refused, good = Waiter(), Waiter()
        led.submit(refuses, refused)
        led.submit(lambda: commits(group_id, good), good)
        with pytest.raises(KafkaError, match="STALE_MEMBER_EPOCH"):
            await refused.wait()
        assert await good.wait() == "done"

    replicated(world, test)
