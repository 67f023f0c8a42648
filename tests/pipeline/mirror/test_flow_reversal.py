"""The reverse of a promoted flow continues where both logs agree, or is refused."""

from collections.abc import Iterator

import attrs
import pytest

from barnabas.client import KafkaClient, open_client
from barnabas.client.admin_calls import create_topic
from barnabas.pipeline.mirror.flow_connector import flow_settings
from barnabas.pipeline.mirror.flow_promotion import mirror_topics, promote
from barnabas.pipeline.mirror.flow_reversal import prepare, reversal, reverse_name
from barnabas.pipeline.mirror.topic_following import FlowRefusedError
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.testing import Node
from tests.pipeline.mirror.node_flows import TOPIC, Flow, numbers, pairs, with_flow, write


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    with Node() as source, Node() as target:
        yield source, target


async def promoted(flow: Flow, target: Node) -> None:
    """Copy 20 records, promote, and write 10 others at the target."""
    await create_topic(flow.source, TOPIC)
    await write(flow.source, 0, 20)
    await flow.turn()
    await promote(flow.target, [TOPIC])
    async with open_client({"bootstrap.servers": target.bootstrap}) as other:
        await write(other, 20, 10)


def reversed_flow(flow: Flow, nodes: tuple[Node, Node], offsets: str) -> Flow:
    source, target = nodes
    settings = flow_settings(
        {
            "name": reverse_name(flow.settings.flow),
            "offsets": offsets,
            "source.bootstrap.servers": target.bootstrap,
            "target.bootstrap.servers": source.bootstrap,
        },
        {},
    )
    return Flow(settings, flow.target, flow.source, flow.driver).restarted()


def test_the_reverse_of_a_reverse_is_the_flow() -> None:
    assert reverse_name("flow") == "flow-reverse"
    assert reverse_name("flow-reverse") == "flow"


@pytest.mark.parametrize("offsets", ["identical", "assigned"])
def test_records_of_the_promoted_topic_come_back(nodes, offsets) -> None:
    """And again in the first direction, when the offsets are identical."""

    async def test(flow: Flow) -> None:
        await promoted(flow, nodes[1])
        plan = await reversal("flow", flow.source, flow.target)
        [partition] = plan.partitions
        assert (partition.where, partition.offset) == ((TOPIC, 0), 20)
        back = reversed_flow(flow, nodes, offsets)
        async with open_client(back.settings.target) as old:
            is_identical = offsets == "identical"
            await prepare(plan, "flow-reverse", old, flow.target, is_identical=is_identical)
            mirrors = await mirror_topics(old, "flow-reverse")
            assert mirrors == ([TOPIC] if is_identical else [])
            back = attrs.evolve(back, target=old).restarted()
            [done] = await back.turn()
            assert (done.records, done.skipped) == (10, 0)
            assert await numbers(old) == pairs(0, 30)
            if not is_identical:
                return
            await promote(old, [TOPIC])
            async with open_client({"bootstrap.servers": nodes[0].bootstrap}) as other:
                await write(other, 30, 5)
            plan = await reversal("flow-reverse", flow.target, old)
            await prepare(plan, "flow", flow.target, old, is_identical=True)
        [done] = await flow.restarted().turn()
        assert done.records == 5
        assert await numbers(flow.target) == pairs(0, 35)

    with_flow(nodes, test, "identical")


def test_records_that_were_not_copied_are_named_and_nothing_is_changed(nodes) -> None:
    async def test(flow: Flow) -> None:
        await promoted(flow, nodes[1])
        plan = await reversal("flow", flow.source, flow.target)
        await write(flow.source, 20, 5)
        left = "the old source has offsets 20 to 24 of numbers-0, which were not copied"
        with pytest.raises(FlowRefusedError, match=left):
            await reversal("flow", flow.source, flow.target)
        # A producer wrote them after the look at the ends.
        with pytest.raises(FlowRefusedError, match=left):
            await prepare(plan, "flow-reverse", flow.source, flow.target, is_identical=True)
        assert await mirror_topics(flow.source, "flow-reverse") == []
        await write(flow.source, 25, 5)

    with_flow(nodes, test, "identical")


def test_a_source_with_other_records_before_its_end_is_refused(nodes) -> None:
    """The source was recreated: its last batch is not that of the promoted topic."""

    async def test(flow: Flow) -> None:
        await promoted(flow, nodes[1])
        await delete_topic(flow.source)
        await create_topic(flow.source, TOPIC)
        await write(flow.source, 100, 15)
        with pytest.raises(FlowRefusedError, match="before offset 15 of numbers-0 is not the same"):
            await reversal("flow", flow.source, flow.target)
        await delete_topic(flow.source)
        plan = await reversal("flow", flow.source, flow.target)
        assert plan.partitions == []
        await prepare(plan, "flow-reverse", flow.source, flow.target, is_identical=True)
        back = reversed_flow(flow, nodes, "identical")
        async with open_client(back.settings.target) as old:
            await attrs.evolve(back, target=old).restarted().turn()
            assert await numbers(old) == pairs(0, 30)

    with_flow(nodes, test, "identical")


async def delete_topic(client: KafkaClient) -> None:
    """Delete the topic."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicsRequest.DeleteTopicState(name=TOPIC)], timeout_ms=30_000
    )
    await client.ask_controller(request, DeleteTopicsResponse)
    client.metadata.forget_leader(TOPIC, 0)


@pytest.mark.parametrize("promoting", [False, True])
def test_a_flow_that_was_not_promoted_is_not_reversed(nodes, promoting) -> None:
    async def test(flow: Flow) -> None:
        await create_topic(flow.source, TOPIC)
        await flow.turn()
        name, message = (
            "flow",
            "topic numbers is a mirror of flow flow: run barnabas mirror promote",
        )
        if promoting:
            await promote(flow.target, [TOPIC])
            name, message = "other", "no topic was promoted from flow other"
        with pytest.raises(FlowRefusedError, match=message):
            await reversal(name, flow.source, flow.target)

    with_flow(nodes, test, "identical")
