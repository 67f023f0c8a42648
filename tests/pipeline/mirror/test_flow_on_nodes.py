"""A flow without Spark between two nodes: topics, starts, trims, groups, promotion."""

from collections.abc import Awaitable, Callable, Iterator

import attrs
import pytest
import trio

from barnabas.client import KafkaClient, NewRecord, Producer, RecordReader, open_client
from barnabas.client.admin_calls import EARLIEST, LATEST, create_topic, list_offset
from barnabas.pipeline.delivery.driver.group_offsets import GroupOffsets
from barnabas.pipeline.delivery.plan.job_plan import OnTrim
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.mirror import cluster_queries
from barnabas.pipeline.mirror.flow_connector import FlowSettings, flow_settings
from barnabas.pipeline.mirror.flow_driver import FlowDriver, FlowTopics
from barnabas.pipeline.mirror.flow_preview import mirror_topics, preview, promote
from barnabas.pipeline.mirror.flow_values import CopyFigures, FlowRange
from barnabas.pipeline.mirror.range_copies import RangeCopier
from barnabas.pipeline.mirror.range_planning import ranges_to_copy
from barnabas.pipeline.mirror.topic_following import FlowRefusedError
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.testing import Node

TOPIC = "numbers"


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    with Node() as source, Node() as target:
        yield source, target


@attrs.frozen
class Flow:
    """A driver, and the copies of its ranges in this process."""

    settings: FlowSettings
    source: KafkaClient
    target: KafkaClient
    driver: FlowDriver

    async def turn(self) -> list[CopyFigures]:
        """Follow, and copy what is new."""
        driver = self.driver
        await driver.follow()
        await driver.follow_log_starts()
        await driver.follow_groups()
        await driver.commit_positions(again=False)
        copier = RangeCopier(
            driver.task_plan(transaction_timeout_ms=60_000), self.source, self.target
        )
        ranges = ranges_to_copy(driver.positions, await driver.ends())
        done = [await copier.copy(each) for each in ranges]
        driver.positions |= {each.where: each.position for each in done}
        return done

    def restarted(self, on_trim: OnTrim = OnTrim.FAIL) -> "Flow":
        """Return the flow as another process starts it."""
        driver = FlowDriver(self.settings, FlowTopics((), TOPIC), on_trim, self.source, self.target)
        return attrs.evolve(self, driver=driver)


def with_flow(
    nodes: tuple[Node, Node], test: Callable[[Flow], Awaitable[None]], offsets: str
) -> None:
    source, target = nodes
    settings = flow_settings(
        {
            "name": "flow",
            "offsets": offsets,
            "source.bootstrap.servers": source.bootstrap,
            "target.bootstrap.servers": target.bootstrap,
        },
        {},
    )

    async def main() -> None:
        with trio.fail_after(60):
            async with (
                open_client(settings.source) as source_client,
                open_client(settings.target) as target_client,
            ):
                flow = Flow(settings, source_client, target_client, None)  # pyright: ignore[reportArgumentType]
                await test(flow.restarted())

    trio.run(main)


async def write(client: KafkaClient, first: int, count: int) -> None:
    """Write numbers, five in a batch."""
    producer = Producer(client)
    for number in range(first, first + count, 5):
        batch = [NewRecord(None, b"%d" % each) for each in range(number, number + 5)]
        await producer.send(TOPIC, 0, batch)


async def numbers(client: KafkaClient) -> list[tuple[int, int]]:
    """Return offset and number of all records."""
    start = await list_offset(client, TOPIC, 0, EARLIEST)
    reader = RecordReader(client, TOPIC, 0, start, read_committed=True)
    end = await list_offset(client, TOPIC, 0, LATEST)
    return [(each.offset, int(each.value or b"")) async for each in reader.until(end)]


def pairs(first: int, end: int) -> list[tuple[int, int]]:
    return [(number, number) for number in range(first, end)]


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

    with_flow(nodes, test, offsets)


def test_a_recreated_topic_stops_the_flow(nodes) -> None:
    async def test(flow: Flow) -> None:
        await create_topic(flow.source, TOPIC)
        await write(flow.source, 0, 10)
        await flow.turn()
        request = DeleteTopicsRequest(
            topics=[DeleteTopicsRequest.DeleteTopicState(name=TOPIC)], timeout_ms=30_000
        )
        await flow.source.ask_controller(request, DeleteTopicsResponse)
        with pytest.raises(FlowRefusedError, match="topic numbers was deleted at the source"):
            await flow.turn()
        await create_topic(flow.source, TOPIC)
        await write(flow.source, 0, 20)
        for process in (flow, flow.restarted()):
            with pytest.raises(FlowRefusedError, match="topic numbers was recreated"):
                await process.turn()

    with_flow(nodes, test, "identical")


def test_group_offsets_follow_and_never_go_backwards(nodes) -> None:
    async def test(flow: Flow) -> None:
        await create_topic(flow.source, TOPIC)
        await write(flow.source, 0, 10)
        await flow.turn()
        source, target = GroupOffsets(flow.source), GroupOffsets(flow.target)
        for committed, expected in ((7, 7), (3, 7), (9, 9)):
            await source.commit("readers", {(TOPIC, 0): (committed, "noted")})
            await flow.driver.follow_groups()
            assert await target.entries("readers") == {(TOPIC, 0): (expected, "noted")}
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
        await promote(flow.target, TOPIC)
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
