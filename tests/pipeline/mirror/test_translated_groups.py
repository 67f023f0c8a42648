"""Offsets of groups at a target that assigns other offsets than the source has."""

from collections.abc import Iterator

import attrs
import pytest

from barnabas.client.admin_calls import create_topic
from barnabas.pipeline.delivery.driver.group_offsets import GroupEntry, GroupOffsets
from barnabas.pipeline.mirror.mirrormaker.internal_records import OffsetSync
from barnabas.pipeline.mirror.mirrormaker.maker_topics import InternalTopic
from barnabas.pipeline.mirror.mirrormaker.replication_policies import ReplicationPolicy
from barnabas.testing import Node
from tests.pipeline.mirror.node_flows import TOPIC, Flow, numbers, with_flow, write

SYNCS = "mm2-offset-syncs.flow.internal"
WHERE = (TOPIC, 0)
REMOTE = ("A.numbers", 0)


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    with Node() as source, Node() as target:
        yield source, target


async def commit(flow: Flow, group: str, offset: int) -> None:
    await GroupOffsets(flow.source).commit(group, {WHERE: GroupEntry(offset, "note")})


async def committed(flow: Flow, group: str, where: tuple[str, int] = WHERE) -> GroupEntry | None:
    return (await GroupOffsets(flow.target).entries(group)).get(where)


async def next_number(flow: Flow, group: str) -> int:
    """Return the number that a consumer of the group reads first at the target."""
    entry = await committed(flow, group)
    assert entry is not None
    return min(number for offset, number in await numbers(flow.target) if offset >= entry.offset)


async def write_in_copies(flow: Flow, first: int, count: int) -> None:
    """Write records; each five of them are copied in a transaction of the flow."""
    for number in range(first, first + count, 5):
        await write(flow.source, number, 5)
        await flow.turn()


def test_offsets_of_groups_are_translated_also_by_another_process(
    nodes: tuple[Node, Node],
) -> None:
    """Each transaction of the flow takes an offset at the target, so offsets differ by copies."""

    async def test(flow: Flow) -> None:
        await create_topic(flow.source, TOPIC)
        await write_in_copies(flow, 0, 40)
        await commit(flow, "at-a-batch", 35)
        await commit(flow, "within-a-batch", 37)
        await commit(flow, "at-the-end", 40)
        await flow.turn()
        assert await next_number(flow, "at-a-batch") == 35
        assert await next_number(flow, "within-a-batch") in (36, 37)
        entry = await committed(flow, "at-the-end")
        assert entry == GroupEntry(max(at for at, _ in await numbers(flow.target)) + 1, "note")
        await commit(flow, "later", 39)
        await flow.restarted().turn()
        assert await next_number(flow, "later") == 39

    with_flow(nodes, test, "assigned")


def test_no_group_skips_a_record(nodes: tuple[Node, Node]) -> None:
    async def test(flow: Flow) -> None:
        await create_topic(flow.source, TOPIC)
        await write_in_copies(flow, 0, 60)
        for offset in range(0, 61, 3):
            await commit(flow, f"group-{offset}", offset)
        await flow.turn()
        for offset in range(0, 60, 3):
            assert await next_number(flow, f"group-{offset}") <= offset

    with_flow(nodes, test, "assigned")


def test_an_offset_of_a_group_never_goes_backwards(nodes: tuple[Node, Node]) -> None:
    async def test(flow: Flow) -> None:
        await create_topic(flow.source, TOPIC)
        await write_in_copies(flow, 0, 20)
        await commit(flow, "group", 20)
        await flow.turn()
        before = await committed(flow, "group")
        await commit(flow, "group", 5)
        await flow.turn()
        assert before is not None
        assert await committed(flow, "group") == before

    with_flow(nodes, test, "assigned")


def test_topics_are_renamed_by_a_policy(nodes: tuple[Node, Node]) -> None:
    async def test(plain: Flow) -> None:
        settings = attrs.evolve(plain.settings, policy=ReplicationPolicy("A"))
        flow = attrs.evolve(plain, settings=settings).restarted()
        await create_topic(flow.source, TOPIC, configs={"retention.ms": "123456789"})
        await write_in_copies(flow, 0, 20)
        await commit(flow, "group", 15)
        assert await flow.turn() == []
        entry = await committed(flow, "group", REMOTE)
        assert entry is not None
        position = await committed(flow, "mirror-flow", REMOTE)
        assert position is not None
        assert position.offset == 20
        again = flow.restarted()
        await write(again.source, 20, 5)
        [copied] = await again.turn()
        assert (copied.records, copied.position) == (5, 25)
        await again.driver.commit_positions(again=True)
        syncs = await InternalTopic(flow.target, SYNCS).new_records()
        points = [OffsetSync.of(each.key, each.value) for each in syncs]
        assert {(each.topic, each.partition) for each in points} == {WHERE}
        assert [each.upstream for each in points][-1] == 19

    with_flow(nodes, test, "assigned")


def test_without_groups_there_is_no_topic_of_offset_syncs(nodes: tuple[Node, Node]) -> None:
    async def test(flow: Flow) -> None:
        await create_topic(flow.source, TOPIC)
        await write(flow.source, 0, 10)
        [done] = await flow.turn()
        assert not done.syncs
        await flow.turn()
        await flow.target.refresh_metadata()
        assert flow.target.metadata.topic(SYNCS) is None

    with_flow(nodes, test, "assigned", {"sync.group.offsets.enabled": "false"})
