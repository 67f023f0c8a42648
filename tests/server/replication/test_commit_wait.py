"""Waiting for records to be committed: replication, flushes, timeouts and lost leadership."""

from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.cluster.replication import Partition
from barnabas.protocol.errors import ErrorCode
from barnabas.server.replication.commit_wait import Appended, CommitWaits
from barnabas.testing.batches import batch
from tests.server.coordinators.coordinator_world import OTHER, World, run
from tests.server.replication.leaderships import lead, replace_records

NONE = ErrorCode.NONE


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class Outcomes:
    """The outcomes of items in their order, and the number of finished waits."""

    def __init__(self) -> None:
        self.items: list[tuple[Any, ErrorCode]] = []
        self.done = 0

    def settle(self, item: Any, outcome: ErrorCode) -> None:
        self.items.append((item, outcome))

    def finish(self) -> None:
        self.done += 1


def append(partition: Partition) -> int:
    info = partition.append(
        batch(b"v"), required_acks=-1, origin="client", now_ms=1_800_000_000_000
    )
    return info.last_offset


def fetched(partition: Partition, offset: int) -> None:
    partition.follower_fetched(OTHER, offset, 0)


def begin(
    waits: CommitWaits, outcomes: Outcomes, *appended: tuple[Any, Partition, int], **how: Any
) -> None:
    how = {"timeout_ms": 1_000, **how}
    parts = [Appended(*each, each[1].leader_state) for each in appended]
    waits.wait(parts, outcomes.settle, outcomes.finish, **how)


def test_commit_wait_replicated_records_settle_in_the_order_of_offsets(world: World) -> None:
    async def test() -> None:
        partition, outcomes = world.led("t"), Outcomes()
        offsets = [append(partition) for _ in range(3)]
        begin(world.commits, outcomes, ("b", partition, offsets[1]))
        begin(world.commits, outcomes, ("a", partition, offsets[0]))
        begin(world.commits, outcomes, ("c", partition, offsets[2]))
        fetched(partition, offsets[1] + 1)
        assert outcomes.items == [("a", NONE), ("b", NONE)]
        fetched(partition, offsets[2] + 1)
        assert outcomes.items[2:] == [("c", NONE)]
        assert outcomes.done == 3
        assert not partition.listeners

    run(test)


def test_commit_wait_committed_records_settle_at_once(world: World) -> None:
    async def test() -> None:
        partition, outcomes = world.led("t"), Outcomes()
        offset = append(partition)
        fetched(partition, offset + 1)
        begin(world.commits, outcomes, ("a", partition, offset))
        assert (outcomes.items, outcomes.done) == ([("a", NONE)], 1)

    run(test)


def test_commit_wait_timeout_ends_it_once(world: World) -> None:
    async def test() -> None:
        partition, outcomes = world.led("t"), Outcomes()
        offset = append(partition)
        begin(world.commits, outcomes, ("a", partition, offset))
        await trio.sleep(2)
        fetched(partition, offset + 1)
        assert outcomes.items == [("a", ErrorCode.REQUEST_TIMED_OUT)]
        assert outcomes.done == 1
        assert not partition.listeners

    run(test)


def test_commit_wait_lost_leadership_refuses_all(world: World) -> None:
    async def test() -> None:
        partition, outcomes = world.led("t"), Outcomes()
        begin(world.commits, outcomes, *((n, partition, append(partition)) for n in range(3)))
        partition.is_leader = False
        partition.notify()
        assert outcomes.items == [(n, ErrorCode.NOT_LEADER_OR_FOLLOWER) for n in range(3)]
        assert outcomes.done == 1

    run(test)


@pytest.mark.parametrize("is_back", [False, True])
def test_commit_wait_leadership_lost_before_it_refuses_a_replaced_record(
    world: World, *, is_back: bool
) -> None:
    async def test() -> None:
        partition, outcomes = world.led("t"), Outcomes()
        appended = Appended("a", partition, append(partition), partition.leader_state)
        lead(partition, OTHER)
        replace_records(partition)
        if is_back:
            lead(partition, 1)
        assert partition.high_watermark > appended.last_offset
        world.commits.wait([appended], outcomes.settle, outcomes.finish, timeout_ms=1_000)
        assert outcomes.items == [("a", ErrorCode.NOT_LEADER_OR_FOLLOWER)]
        assert outcomes.done == 1
        assert not partition.listeners

    run(test)


def test_commit_wait_next_epoch_of_the_same_leader_continues_it(world: World) -> None:
    async def test() -> None:
        partition, outcomes = world.led("t"), Outcomes()
        offset = append(partition)
        begin(world.commits, outcomes, ("a", partition, offset))
        lead(partition, 1)
        assert outcomes.items == []
        fetched(partition, offset + 1)
        assert outcomes.items == [("a", NONE)]

    run(test)


@pytest.mark.parametrize(
    ("is_flushed", "outcome"), [(True, NONE), (False, ErrorCode.KAFKA_STORAGE_ERROR)]
)
def test_commit_wait_flush_decides_the_outcome(
    world: World, *, is_flushed: bool, outcome: ErrorCode
) -> None:
    async def flush(_partition: Partition) -> bool:
        await trio.sleep(0.1)
        return is_flushed

    async def test() -> None:
        waits, outcomes = CommitWaits(flush), Outcomes()
        partition = world.led("t")
        partition.flush_messages = 1
        async with trio.open_nursery() as nursery:
            await nursery.start(waits.run)
            begin(waits, outcomes, ("a", partition, append(partition)), replicated=False)
            assert outcomes.items == []
            await trio.sleep(0.2)
            assert outcomes.items == [("a", outcome)]
            nursery.cancel_scope.cancel()

    run(test)


def test_commit_wait_without_its_task_acknowledges_no_unflushed_record(world: World) -> None:
    async def test() -> None:
        partition, outcomes = world.led("t"), Outcomes()
        partition.flush_messages = 1
        begin(world.commits, outcomes, ("a", partition, append(partition)), replicated=False)
        await trio.sleep(2)
        assert (outcomes.items, outcomes.done) == ([], 0)

    run(test)


@attrs.define
class Model:
    """A plain reference: each wait is settled by the first thing that settles it."""

    waiting: dict[int, int] = attrs.Factory(dict)
    settled: dict[int, ErrorCode] = attrs.Factory(dict)

    def fetched(self, offset: int) -> None:
        for item in [item for item, last in self.waiting.items() if last < offset]:
            del self.waiting[item]
            self.settled[item] = NONE

    def timed_out(self) -> None:
        self.settled |= dict.fromkeys(self.waiting, ErrorCode.REQUEST_TIMED_OUT)
        self.waiting.clear()


STEPS = st.lists(st.sampled_from(["append", "repeat", "fetch one", "fetch all", "time"]))


@settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(STEPS)
def test_commit_waits_equal_a_plain_table(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    world = World(tmp_path_factory.mktemp("waits"))

    async def test() -> None:
        partition, outcomes, model = world.led("t"), Outcomes(), Model()
        offset, high_watermark = -1, 0
        for item, step in enumerate(steps):
            if step == "append" or (step == "repeat" and offset >= 0):
                if step == "append":
                    offset = append(partition)
                last = offset if step == "append" else offset // 2
                begin(world.commits, outcomes, (item, partition, last))
                model.waiting[item] = last
                model.fetched(high_watermark)
            elif step.startswith("fetch"):
                high_watermark = min(high_watermark + 1, offset + 1)
                if step == "fetch all":
                    high_watermark = offset + 1
                fetched(partition, high_watermark)
                model.fetched(high_watermark)
            elif step == "time":
                await trio.sleep(1.5)
                model.timed_out()
            assert dict(outcomes.items) == model.settled
            assert len(outcomes.items) == outcomes.done == len(model.settled)
        assert bool(partition.listeners) == bool(model.waiting)

    run(test)
