"""An unclean election on three nodes of the source takes records back that a flow has copied."""

from collections.abc import Iterator

import pytest
import trio

from barnabas.client import open_client
from barnabas.client.admin_calls import create_topic
from barnabas.pipeline.mirror.topic_following import FlowRefusedError
from barnabas.testing import Cluster, Node
from barnabas.testing.eventually import wait_until
from tests.pipeline.mirror.node_flows import TOPIC, Flow, numbers, with_flow, write

UNCLEAN = {
    "unclean.leader.election.enable": "true",
    "min.insync.replicas": "1",
    "broker.session.timeout.ms": "3000",
    "offsets.topic.num.partitions": "1",
}


@pytest.fixture
def source() -> Iterator[Cluster]:
    with Cluster(nodes=3, config=UNCLEAN) as cluster:
        yield cluster


@pytest.fixture
def target() -> Iterator[Node]:
    with Node() as node:
        yield node


@pytest.mark.parametrize("offsets", ["identical", "assigned"])
def test_the_flow_stops_and_names_the_first_offset_that_differs(
    source: Cluster, target: Node, offsets: str
) -> None:
    """The leader fails behind its only follower, which missed ten records and is elected."""

    def wait_for_isr(members: set[int]) -> None:
        wait_until(lambda: set(source.partition(TOPIC, 0).isr) == members, 60)

    async def test(flow: Flow) -> None:
        in_thread = trio.to_thread.run_sync
        async with open_client({"bootstrap.servers": source.bootstrap}) as writer:
            await create_topic(writer, TOPIC, partitions=1, replication_factor=2)
            await write(writer, 0, 10)
            replicas = set(source.partition(TOPIC, 0).replicas)
            await in_thread(wait_for_isr, replicas)
            leader = source.leader_of(TOPIC, 0)
            [follower] = replicas - {leader}
            await in_thread(source.kill, follower)
            await in_thread(wait_for_isr, {leader})
            await write(writer, 10, 10)
            [done] = await flow.turn()
            assert done.position == 20
            await in_thread(source.kill, leader)
            await in_thread(source.restart, follower)
            await in_thread(wait_until, lambda: source.leader_of(TOPIC, 0) == follower)
            await write(writer, 100, 15)
        for process in (flow, flow.restarted()):
            with pytest.raises(
                FlowRefusedError,
                match=r"the source's log of numbers-0 differs from offset 10 on .* up to offset 20",
            ):
                await process.turn()
        assert [number for _, number in await numbers(flow.target)] == list(range(20))

    with_flow((source, target), test, offsets)
