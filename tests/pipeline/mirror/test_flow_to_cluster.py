"""A flow to three nodes: the leader of the target's partition is killed inside a copy."""

from collections.abc import Iterator
from typing import Any

import pytest
import trio

from barnabas.client import open_client
from barnabas.client.admin_calls import create_topic
from barnabas.pipeline.mirror.target_produces import TargetProduces
from barnabas.testing import Cluster, Node
from tests.pipeline.mirror.node_flows import TOPIC, Flow, numbers, with_flow, write


@pytest.fixture
def source() -> Iterator[Node]:
    with Node() as node:
        yield node


@pytest.fixture
def target() -> Iterator[Cluster]:
    with Cluster(nodes=3, replicates_topics=True) as cluster:
        yield cluster


@pytest.mark.parametrize("offsets", ["identical", "assigned"])
def test_a_killed_leader_loses_and_repeats_no_record(
    source: Node, target: Cluster, offsets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = TargetProduces.send
    killed: list[int] = []

    async def kill_before(self: TargetProduces, batch: Any) -> None:
        if not killed:
            killed.append(target.leader_of(TOPIC, 0))
            await trio.to_thread.run_sync(target.kill, killed[0])
        await send(self, batch)

    async def test(flow: Flow) -> None:
        async with open_client({"bootstrap.servers": source.bootstrap}) as writer:
            await create_topic(writer, TOPIC)
            await write(writer, 0, 50)
            await flow.turn()
            monkeypatch.setattr(TargetProduces, "send", kill_before)
            await write(writer, 50, 50)
            [done] = await flow.turn()
            assert done.position == 100
            assert done.attempts > 1
            assert target.leader_of(TOPIC, 0) != killed[0]
            await trio.to_thread.run_sync(target.restart, killed[0])
            await trio.to_thread.run_sync(target.wait_in_sync, TOPIC, 0)
            await write(writer, 100, 5)
            await flow.turn()
        assert [number for _, number in await numbers(flow.target)] == list(range(105))

    with_flow((source, target), test, offsets)
