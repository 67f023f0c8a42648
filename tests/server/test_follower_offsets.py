"""Changes are answered when the brokers that fetch have applied them."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from barnabas.server.quorum import follower_offsets
from barnabas.server.quorum.follower_offsets import PATIENCE_S, FollowerOffsets
from tests.server.quorum_nodes import QuorumNodes
from tests.server.test_quorum_of_three import create_topic, delete_topic


def run(body: Callable[[], Awaitable[None]]) -> None:
    trio.run(body, clock=trio.testing.MockClock(autojump_threshold=0))


async def waited_s(offsets: FollowerOffsets, offset: int, node_ids: set[int]) -> float:
    began = trio.current_time()
    await offsets.wait(offset, node_ids)
    return trio.current_time() - began


def test_wait_ends_with_the_fetch_that_states_the_high_watermark() -> None:
    async def main() -> None:
        offsets = FollowerOffsets()

        async def follow() -> None:
            with offsets.fetching(2, 10):
                await trio.sleep(0.1)
            with offsets.fetching(2, 11):
                await trio.sleep(0.1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            await trio.testing.wait_all_tasks_blocked()
            assert await waited_s(offsets, 10, {2}) == 0
            assert await waited_s(offsets, 11, {2}) == pytest.approx(0.1)

    run(main)


def test_wait_for_a_follower_that_falls_silent_is_short_and_happens_once() -> None:
    async def main() -> None:
        offsets = FollowerOffsets()
        with offsets.fetching(2, 10):
            pass
        assert await waited_s(offsets, 11, {2}) == pytest.approx(PATIENCE_S)
        assert await waited_s(offsets, 12, {2}) == 0

    run(main)


def test_wait_ignores_nodes_that_never_fetched_and_other_nodes() -> None:
    async def main() -> None:
        offsets = FollowerOffsets()
        with offsets.fetching(2, 10):
            assert await waited_s(offsets, 11, {3}) == 0

    run(main)


def test_change_is_known_to_all_brokers_when_it_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_offsets, "PATIENCE_S", 60.0)  # on a machine of any speed

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(tmp_path, nursery)
            await nodes.start(1, 2, 3)
            for number in range(9):
                name, node_id = f"topic-{number}", number % 3 + 1
                assert await create_topic(nodes, node_id, name) == 0
                assert partitions(nodes, name) == [1, 1, 1]
                await add_partition(nodes, node_id, name)
                assert partitions(nodes, name) == [2, 2, 2]
                assert await delete_topic(nodes, node_id, name) == 0
                assert partitions(nodes, name) == [0, 0, 0]
            nursery.cancel_scope.cancel()

    trio.run(main)


def partitions(nodes: QuorumNodes, topic: str) -> list[int]:
    """Return the number of the topic's partitions that each node knows."""
    images = (node.image.topics_by_name.get(topic) for node in nodes.running.values())
    return [0 if image is None else len(image.partitions) for image in images]


async def add_partition(nodes: QuorumNodes, node_id: int, topic: str) -> None:
    topics = [CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=2, assignments=None)]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=5000)
    response = await nodes.running[node_id].channel.send(request, CreatePartitionsResponse)
    assert response.results[0].error_code == 0
