"""Flows that take over from MirrorMaker 2 and give back, by the positions of its source tasks."""

from collections.abc import Iterator

import attrs
import pytest

from barnabas.client import NewRecord, Producer
from barnabas.client.admin_calls import create_topic
from barnabas.pipeline.mirror.flow_connector import PositionsTopic
from barnabas.pipeline.mirror.mirrormaker.source_positions import (
    SourcePositions,
    position_key,
    position_value,
    read_key,
    read_value,
)
from barnabas.testing import Node
from tests.pipeline.mirror.node_flows import TOPIC, Flow, numbers, with_flow, write

POSITIONS = PositionsTopic("mm2-offsets.A.internal", "A", ("MirrorSourceConnector", "flow"))
KEY = b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"numbers"}]'
WHERE = (TOPIC, 0)


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    with Node() as source, Node() as target:
        yield source, target


def taking_over(flow: Flow, topic: PositionsTopic = POSITIONS) -> Flow:
    settings = attrs.evolve(flow.settings, positions_topic=topic)
    return attrs.evolve(flow, settings=settings).restarted()


async def prepare(flow: Flow) -> None:
    """Write what MirrorMaker 2 leaves that has copied ten of twenty records."""
    await create_topic(flow.source, TOPIC)
    await write(flow.source, 0, 20)
    await create_topic(flow.target, TOPIC)
    await write(flow.target, 0, 10)
    await create_topic(flow.target, POSITIONS.name, partitions=3)
    producer = Producer(flow.target)
    for value in (b'{"offset":4}', None, b'{"offset":9}'):
        await producer.send(POSITIONS.name, 2, [NewRecord(KEY, value)])
    other = KEY.replace(b'"A"', b'"C"')
    await producer.send(POSITIONS.name, 2, [NewRecord(other, b'{"offset":19}')])


def test_records_of_connect_are_read_as_they_are_written() -> None:
    assert position_key("MirrorSourceConnector", "A", WHERE) == KEY
    assert read_key(POSITIONS, KEY) == WHERE
    assert read_value(position_value(10)) == 10
    assert read_value(b'{"offset":9}') == 10
    for key in (None, b"", b"[]", b"?", b'["other",{}]', KEY.replace(b"numbers", b"t\xff")):
        assert read_key(POSITIONS, key) is None
    for value in (None, b"", b"[]", b'{"position":1}'):
        assert read_value(value) is None


def test_a_flow_begins_where_mirror_maker_has_ended(nodes: tuple[Node, Node]) -> None:
    async def test(plain: Flow) -> None:
        await prepare(plain)
        flow = taking_over(plain)
        [done] = await flow.turn()
        assert (done.records, done.position) == (10, 20)
        assert [number for _, number in await numbers(flow.target)] == list(range(20))
        await flow.driver.give_back()
        found = await SourcePositions(POSITIONS, flow.target).read()
        assert found == {WHERE: 20}

    with_flow(nodes, test, "assigned")


def test_a_flow_continues_behind_what_mirror_maker_has_copied_since(
    nodes: tuple[Node, Node],
) -> None:
    async def test(plain: Flow) -> None:
        await prepare(plain)
        first = taking_over(plain)
        await first.turn()
        await first.driver.give_back()
        await write(plain.source, 20, 10)
        await write(plain.target, 20, 5)
        producer = Producer(plain.target)
        await producer.send(POSITIONS.name, 2, [NewRecord(KEY, b'{"offset":24}')])
        again = taking_over(plain)
        [done] = await again.turn()
        assert (done.records, done.position) == (5, 30)
        assert [number for _, number in await numbers(plain.target)] == list(range(30))

    with_flow(nodes, test, "assigned")


def test_positions_are_not_written_to_a_runners_topic_that_has_none(
    nodes: tuple[Node, Node],
) -> None:
    topic = PositionsTopic("connect-offsets", "A", ("flow",))

    async def test(plain: Flow) -> None:
        await create_topic(plain.source, TOPIC)
        await write(plain.source, 0, 10)
        await create_topic(plain.target, topic.name)
        flow = taking_over(plain, topic)
        await flow.turn()
        await flow.driver.give_back()
        assert await SourcePositions(topic, plain.target).read() == {}

    with_flow(nodes, test, "assigned")
