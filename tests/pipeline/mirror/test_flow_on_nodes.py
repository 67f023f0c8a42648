"""A flow without Spark between two nodes: topics, starts, trims, groups, promotion."""

from collections.abc import Iterator

import attrs
import pytest
import trio

from barnabas.client import KafkaClient, open_client
from barnabas.client.admin_calls import create_topic
from barnabas.pipeline.delivery.driver.group_offsets import GroupEntry, GroupOffsets
from barnabas.pipeline.delivery.plan.job_plan import OnTrim
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.mirror import cluster_queries
from barnabas.pipeline.mirror.batch_copy import TransactionalCopy
from barnabas.pipeline.mirror.flow_driver import FlowTopics
from barnabas.pipeline.mirror.flow_preview import preview
from barnabas.pipeline.mirror.flow_promotion import mirror_topics, promote
from barnabas.pipeline.mirror.flow_values import FlowRange
from barnabas.pipeline.mirror.range_copies import RangeCopier
from barnabas.pipeline.mirror.source_fetches import SourceFetches
from barnabas.pipeline.mirror.target_produces import TargetProduces
from barnabas.pipeline.mirror.target_transaction import TargetTransaction
from barnabas.pipeline.mirror.topic_following import FlowRefusedError
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.testing import Node
from tests.pipeline.mirror.node_flows import TOPIC, Flow, numbers, pairs, with_flow, write


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    with Node() as source, Node() as target:
        yield source, target


@pytest.mark.parametrize("offsets", ["identical", "assigned"])
def test_a_flow_that_is_started_again_copies_each_record_once(nodes, offsets) -> None:
    async def test(flow: Flow) -> None:
        await create_topic(flow.source, TOPIC)
        await write(flow.source, 0, 20)
        [done] = await flow.turn()
        assert (done.records, done.position) == (20, 20)
        await write(flow.source, 20, 10)
        again = flow.restarted()
        [done] = await again.turn()
        assert (done.records, done.position) == (10, 30)
        # The first process still believes that it is the one.
        [late] = await flow.turn()
        assert (late.records, late.skipped, late.position) == (0, 10, 30)
        assert [number for _, number in await numbers(flow.target)] == list(range(30))
        if offsets == "identical":
            assert await numbers(flow.target) == pairs(0, 30)

    with_flow(nodes, test, offsets)


def test_a_first_transaction_that_was_never_committed_is_copied_again(nodes) -> None:
    """Its records stay in the log of the target, aborted."""

    async def test(flow: Flow) -> None:
        await create_topic(flow.source, TOPIC)
        await write(flow.source, 0, 10)
        await flow.driver.follow()
        name, where = "mirror-flow:numbers-0", (TOPIC, 0)
        transaction = TargetTransaction(flow.target, name, "mirror-flow")
        copy = TransactionalCopy(0, 10, await transaction.begin(60_000))
        await transaction.add([where])
        fetched = await SourceFetches(flow.source, where, read_committed=True).fetch(0)
        produces = TargetProduces(flow.target, where, name)
        for copied in copy.take(fetched.data, fetched.aborted):
            await produces.send(copied)
        await produces.flush()
        [done] = await flow.restarted().turn()
        assert (done.records, done.position) == (10, 10)
        assert [number for _, number in await numbers(flow.target)] == list(range(10))

    with_flow(nodes, test, "assigned")


def test_a_mirror_begins_where_the_log_of_the_source_begins(nodes) -> None:
    """The log begins within a batch, and is trimmed again while the flow runs."""

    async def test(flow: Flow) -> None:
        await create_topic(flow.source, TOPIC)
        await write(flow.source, 0, 40)
        await cluster_queries.delete_records(flow.source, {(TOPIC, 0): 13})
        await flow.turn()
        await flow.driver.follow_log_starts()
        assert await numbers(flow.target) == pairs(13, 40)
        await cluster_queries.delete_records(flow.source, {(TOPIC, 0): 25})
        await flow.turn()
        assert await numbers(flow.target) == pairs(25, 40)

    with_flow(nodes, test, "identical")


@pytest.mark.parametrize("offsets", ["identical", "assigned"])
def test_offsets_that_retention_deleted_stop_a_flow_or_are_skipped(nodes, offsets) -> None:
    async def test(flow: Flow) -> None:
        await create_topic(flow.source, TOPIC)
        await write(flow.source, 0, 10)
        await flow.turn()
        await write(flow.source, 10, 20)
        await cluster_queries.delete_records(flow.source, {(TOPIC, 0): 20})
        with pytest.raises(FlowRefusedError, match="deleted offsets 10 to 19 of numbers-0"):
            await flow.restarted().turn()
        with pytest.raises(TaskFailureError, match="deleted offsets 10 to 19 of numbers-0"):
            await flow.turn()
        skipping = flow.restarted(OnTrim.SKIP)
        [done] = await skipping.turn()
        assert (done.records, skipping.driver.trimmed) == (10, 10)
        found = [number for _, number in await numbers(flow.target)]
        kept = [] if offsets == "identical" else list(range(10))
        assert found == kept + list(range(20, 30))
        # The same happens while the flow runs.
        await write(flow.source, 30, 20)
        await cluster_queries.delete_records(flow.source, {(TOPIC, 0): 42})
        [done] = await skipping.turn()
        assert (done.trimmed, done.position) == (12, 50)
        await skipping.turn()
        found = [number for _, number in await numbers(flow.target)]
        kept = [] if offsets == "identical" else [*range(10), *range(20, 30)]
        assert found == kept + list(range(42, 50))

    with_flow(nodes, test, offsets)


async def delete_topic(client: KafkaClient, name: str = TOPIC) -> None:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicsRequest.DeleteTopicState(name=name)], timeout_ms=30_000
    )
    await client.ask_controller(request, DeleteTopicsResponse)


def test_a_recreated_topic_stops_the_flow(nodes) -> None:
    async def test(flow: Flow) -> None:
        await create_topic(flow.source, TOPIC)
        await write(flow.source, 0, 10)
        await flow.turn()
        await delete_topic(flow.source)
        await flow.turn()
        await create_topic(flow.source, TOPIC)
        await write(flow.source, 0, 20)
        for process in (flow, flow.restarted()):
            with pytest.raises(FlowRefusedError, match="topic numbers was recreated"):
                await process.turn()

    with_flow(nodes, test, "identical")


@pytest.mark.parametrize("offsets", ["identical", "assigned"])
def test_a_flow_reports_a_deleted_topic_and_copies_the_others(nodes, offsets) -> None:
    """Also when it notices the deletion only while it copies, and when it starts again."""

    async def test(flow: Flow) -> None:
        wanted = FlowTopics((TOPIC, "others"), None)
        for name in wanted.names:
            await create_topic(flow.source, name)
        await write(flow.source, 0, 10)
        flow = flow.restarted(wanted=wanted)
        await flow.turn()
        await write(flow.source, 10, 10)
        driver = flow.driver
        wanted_ranges = [FlowRange("others", 0, 0, 10), FlowRange(TOPIC, 0, 10, 20)]
        await delete_topic(flow.source, "others")
        assert await driver.ends() == {(TOPIC, 0): 20}
        copier = RangeCopier(
            driver.task_plan(transaction_timeout_ms=60_000), flow.source, flow.target
        )
        done = [await copier.copy(each) for each in wanted_ranges]
        assert [(each.records, each.position) for each in done] == [(0, 0), (10, 20)]
        for process in (flow, flow.restarted(wanted=wanted)):
            await process.turn()
            assert process.driver.deleted == {"others"}
            assert list(process.driver.positions) == [(TOPIC, 0)]
        # Deleted at the target, too, it may be created again.
        await delete_topic(flow.target, "others")
        await flow.restarted(wanted=FlowTopics((), TOPIC)).turn()
        await flow.turn()
        await create_topic(flow.source, "others")
        await flow.turn()
        assert flow.driver.deleted == set()
        assert flow.driver.positions == {(TOPIC, 0): 20, ("others", 0): 0}

    with_flow(nodes, test, offsets)


def test_the_size_of_the_lag_is_estimated(nodes) -> None:
    async def test(flow: Flow) -> None:
        await create_topic(flow.source, TOPIC)
        await write(flow.source, 0, 10)
        await flow.driver.follow()
        where = (TOPIC, 0)
        before = flow.driver.sizes.estimate(where, 10)
        [done] = await flow.turn()
        assert before == done.bytes > 100
        assert flow.driver.sizes.estimate(where, 5) == done.bytes // 2
        assert flow.driver.sizes.estimate(("unknown", 0), 1) is None

    with_flow(nodes, test, "identical")


def test_group_offsets_follow_and_never_go_backwards(nodes) -> None:
    async def test(flow: Flow) -> None:
        await create_topic(flow.source, TOPIC)
        await write(flow.source, 0, 10)
        await flow.turn()
        source, target = GroupOffsets(flow.source), GroupOffsets(flow.target)
        for committed, expected in ((7, 7), (3, 7), (9, 9)):
            await source.commit("readers", {(TOPIC, 0): GroupEntry(committed, "noted")})
            await flow.driver.follow_groups()
            assert await target.entries("readers") == {(TOPIC, 0): GroupEntry(expected, "noted")}
        positions = await target.committed("mirror-flow")
        await flow.turn()
        assert positions[TOPIC, 0] in (0, 10)
        assert await target.committed("mirror-flow") == {(TOPIC, 0): 10}

    with_flow(nodes, test, "identical")


def test_a_promoted_mirror_takes_producers_and_ends_the_flow(nodes) -> None:
    async def test(flow: Flow) -> None:
        await create_topic(flow.source, TOPIC)
        await write(flow.source, 0, 10)
        [before] = await preview(flow.settings, FlowTopics((), TOPIC), flow.source, flow.target)
        assert (before.topic, before.partitions, before.offsets, before.is_new) == (
            TOPIC,
            1,
            10,
            True,
        )
        assert (before.bytes or 0) > 0
        await flow.turn()
        assert await mirror_topics(flow.target, "flow") == [TOPIC]
        await promote(flow.target, [TOPIC])
        await write(flow.source, 10, 10)
        with pytest.raises(FlowRefusedError, match="numbers was promoted at the target"):
            await flow.turn()
        plan = flow.driver.task_plan(transaction_timeout_ms=60_000)
        with pytest.raises(TaskFailureError, match="POLICY_VIOLATION"):
            await RangeCopier(plan, flow.source, flow.target).copy(FlowRange(TOPIC, 0, 10, 20))
        async with open_client({"bootstrap.servers": nodes[1].bootstrap}) as other:
            await write(other, 10, 5)
        assert await numbers(flow.target) == pairs(0, 15)

    with_flow(nodes, test, "identical")


def test_a_leader_without_the_promotion_is_waited_for(nodes) -> None:
    async def test(flow: Flow) -> None:
        await create_topic(flow.source, TOPIC)
        await flow.turn()
        await promote(flow.target, [TOPIC])
        for known in (0, 1):  # the first is older than that of the promotion
            await cluster_queries.await_leader_epochs(flow.target, {(TOPIC, 0): known})
        with trio.move_on_after(1) as waiting:
            await cluster_queries.await_leader_epochs(flow.target, {(TOPIC, 0): 9})
        assert waiting.cancelled_caught

    with_flow(nodes, test, "identical")


def test_a_cluster_is_not_mirrored_to_itself(nodes) -> None:
    async def test(flow: Flow) -> None:
        await create_topic(flow.source, TOPIC)
        itself = attrs.evolve(flow, target=flow.source).restarted()
        with pytest.raises(FlowRefusedError, match="source and target are one cluster"):
            await itself.turn()

    with_flow(nodes, test, "assigned")


def test_a_topic_with_records_of_others_is_refused(nodes) -> None:
    async def test(flow: Flow) -> None:
        for client in (flow.source, flow.target):
            await create_topic(client, TOPIC)
            await write(client, 0, 10)
        with pytest.raises(FlowRefusedError, match="numbers-0 has records at the target"):
            await flow.turn()

    with_flow(nodes, test, "assigned")
