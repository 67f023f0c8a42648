"""An unclean election at the source takes records back, and other records get their offsets."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from barnabas.client.admin_calls import create_topic
from barnabas.pipeline.delivery.driver.group_offsets import GroupEntry, GroupOffsets
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.mirror.flow_values import FlowRange
from barnabas.pipeline.mirror.range_copies import RangeCopier
from barnabas.pipeline.mirror.topic_following import FlowRefusedError
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.testing import Node
from tests.pipeline.mirror.node_flows import TOPIC, Flow, numbers, with_flow, write

WHERE = (TOPIC, 0)
DIFFERS = "the source's log of numbers-0 differs from offset 10 on .* up to offset 20"


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    with Node() as source, Node() as target:
        yield source, target


def save(source: Node, kept: Path) -> None:
    """Keep the log of the partition as it is now: it is the replica that fell behind."""
    source.stop()
    shutil.copytree(Path(source.data) / f"{TOPIC}-0", kept)
    source.start()


def elect(source: Node, kept: Path) -> None:
    """Make the replica that fell behind the leader."""
    source.stop()
    shutil.rmtree(Path(source.data) / f"{TOPIC}-0")
    shutil.copytree(kept, Path(source.data) / f"{TOPIC}-0")
    source.start()


async def diverge(flow: Flow, source: Node, kept: Path) -> None:
    """Have the flow copy 20 records, and the source replace 10 of them by 15 others."""
    await create_topic(flow.source, TOPIC)
    await write(flow.source, 0, 10)
    await trio.to_thread.run_sync(save, source, kept)
    await write(flow.source, 10, 10)
    [done] = await flow.turn()
    assert (done.records, done.position) == (20, 20)
    await trio.to_thread.run_sync(elect, source, kept)
    await write(flow.source, 100, 15)


@pytest.mark.parametrize("offsets", ["identical", "assigned"])
def test_a_flow_stops_where_the_source_has_other_records(nodes, offsets, tmp_path) -> None:
    """The tasks, the driver, and a flow that is started again each name the first offset."""

    async def test(flow: Flow) -> None:
        await diverge(flow, nodes[0], tmp_path / "kept")
        plan = flow.driver.task_plan(transaction_timeout_ms=60_000)
        copier = RangeCopier(plan, flow.source, flow.target)
        wanted = FlowRange(*WHERE, 20, 25, flow.driver.epochs[WHERE])
        with pytest.raises(TaskFailureError, match=DIFFERS):
            await copier.copy(wanted)
        for process in (flow, flow.restarted()):
            with pytest.raises(FlowRefusedError, match=DIFFERS):
                await process.turn()
        assert [number for _, number in await numbers(flow.target)] == list(range(20))

    with_flow(nodes, test, offsets)


@pytest.mark.parametrize("offsets", ["identical", "assigned"])
def test_a_flow_continues_over_elections_that_lose_nothing(nodes, offsets) -> None:
    """The epochs of several leaders are copied in one turn, and by a flow that is killed."""

    async def test(flow: Flow) -> None:
        source = nodes[0]
        await create_topic(flow.source, TOPIC)
        for first in (0, 10, 20):
            await write(flow.source, first, 10)
            await trio.to_thread.run_sync(source.stop)
            await trio.to_thread.run_sync(source.start)
        [done] = await flow.turn()
        assert done.records == 30
        [entry] = (await GroupOffsets(flow.target).entries("mirror-flow")).values()
        assert entry.leader_epoch == done.leader_epoch == flow.driver.epochs[WHERE] > 0
        assert entry.offset == (20 if offsets == "identical" else 30)
        await write(flow.source, 30, 10)
        [done] = await flow.restarted().turn()
        assert (done.records, done.position) == (10, 40)
        assert [number for _, number in await numbers(flow.target)] == list(range(40))

    with_flow(nodes, test, offsets)


def test_the_epoch_is_committed_before_the_first_batch_of_it(nodes) -> None:
    """So a copy that is killed leaves the epoch of the last batch in the target's log."""

    async def test(flow: Flow) -> None:
        await create_topic(flow.source, TOPIC)
        await write(flow.source, 0, 10)
        await flow.turn()
        group = GroupOffsets(flow.target)
        [before] = (await group.entries("mirror-flow")).values()
        await trio.to_thread.run_sync(nodes[0].stop)
        await trio.to_thread.run_sync(nodes[0].start)
        await write(flow.source, 10, 10)
        [done] = await flow.turn()
        [after] = (await group.entries("mirror-flow")).values()
        assert after == GroupEntry(10, after.metadata, done.leader_epoch)
        assert after.leader_epoch > before.leader_epoch

    with_flow(nodes, test, "identical")


def test_a_mirror_that_is_copied_again_does_not_need_the_old_epoch(nodes, tmp_path) -> None:
    """The remedy for a source that has other records: delete the topic at the target."""

    async def test(flow: Flow) -> None:
        await diverge(flow, nodes[0], tmp_path / "kept")
        request = DeleteTopicsRequest(
            topics=[DeleteTopicsRequest.DeleteTopicState(name=TOPIC)], timeout_ms=30_000
        )
        await flow.target.ask_controller(request, DeleteTopicsResponse)
        [done] = await flow.restarted().turn()
        assert (done.records, done.position) == (25, 25)
        found = [number for _, number in await numbers(flow.target)]
        assert found == [*range(10), *range(100, 115)]

    with_flow(nodes, test, "identical")
