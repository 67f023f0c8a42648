"""Properties of the requests between replicas of the quorum, observed at the other end."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from barnabas.config import NodeConfig
from barnabas.server.node.node import Node
from barnabas.server.quorum.raft_shell import RaftShell
from barnabas.testing.free_ports import free_ports
from tests.client.harness import eventually
from tests.config.effects.observed import observes
from tests.server.quorum_nodes import QuorumNodes


def run(directory: Path, config: dict[str, str], body: Callable[[QuorumNodes], Any]) -> None:
    """Run `body` with a controller 1, and the configuration for every node."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(directory, nursery, voter_ids=(1,), config=config)
            with trio.fail_after(60):
                await nodes.start(1)
                await body(nodes)
            nursery.cancel_scope.cancel()

    trio.run(main)


@observes("controller.quorum.fetch.max.bytes")
def test_fetch_asks_for_the_given_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    answer = RaftShell.answer_fetch

    async def observe(self: RaftShell, request: Any, limits: Any) -> Any:
        asked.append(limits.max_bytes)
        return await answer(self, request, limits)

    monkeypatch.setattr(RaftShell, "answer_fetch", observe)
    for size in (5_000, 70_000):
        asked.clear()
        config = {"controller.quorum.fetch.max.bytes": str(size)}
        run(tmp_path / str(size), config, lambda nodes: nodes.start(7, roles="broker"))
        assert set(asked) == {size}


@observes("controller.quorum.fetch.snapshot.max.bytes")
def test_snapshot_is_fetched_in_parts_of_the_given_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[int] = []
    answer = RaftShell.answer_snapshot

    def observe(self: RaftShell, part: Any) -> Any:
        answered = answer(self, part)
        parts.append(len(answered.data))
        return answered

    async def body(nodes: QuorumNodes) -> None:
        leader = nodes.running[1].quorum
        await nodes.start(2)
        await nodes.eventually(lambda: leader.core.log.start_offset > 0)
        await nodes.start(7, roles="broker")

    monkeypatch.setattr(RaftShell, "answer_snapshot", observe)
    for size in (90, 100_000):
        parts.clear()
        config = {
            "metadata.log.max.record.bytes.between.snapshots": "300",
            "metadata.max.retention.bytes": "1",
            "controller.quorum.fetch.snapshot.max.bytes": str(size),
        }
        run(tmp_path / str(size), config, body)
        # A snapshot may be replaced while it is fetched: its parts are then fetched again.
        assert max(parts) <= size
        assert (90 in parts) is (size == 90)


async def attempts(
    directory: Path, config: dict[str, str], *, answers: bool, least: int = 1
) -> int:
    """Count the connections of an observer to a server that closes, or is silent.

    The count ends 1.5 s after the least number has come: a busy machine starts a node late.
    """
    (port,) = free_ports(1)
    count = 0

    async def serve(stream: trio.SocketStream) -> None:
        nonlocal count
        count += 1
        if answers:
            await stream.aclose()
        else:
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nodes = QuorumNodes(directory, nursery, voter_ids=(1,), config=config)
        properties = nodes.properties(7, "broker")
        properties["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{port}"
        await nursery.start(trio.serve_tcp, serve, port)
        start: Callable[[], Awaitable[None]] = Node(NodeConfig.load(None, properties)).run
        nursery.start_soon(start)
        await eventually(lambda: count >= least)
        await trio.sleep(1.5)
        nursery.cancel_scope.cancel()
    return count


@observes("controller.quorum.retry.backoff.ms")
def test_failed_request_is_repeated_after_the_backoff(tmp_path: Path) -> None:
    name = "controller.quorum.retry.backoff.ms"
    often = trio.run(lambda: attempts(tmp_path / "a", {name: "20"}, answers=True, least=3))
    rarely = trio.run(lambda: attempts(tmp_path / "b", {name: "5000"}, answers=True))
    assert rarely <= 2 < often


@observes("controller.quorum.request.timeout.ms")
def test_silent_server_is_given_up_after_the_timeout(tmp_path: Path) -> None:
    name = "controller.quorum.request.timeout.ms"
    often = trio.run(lambda: attempts(tmp_path / "a", {name: "100"}, answers=False, least=2))
    rarely = trio.run(lambda: attempts(tmp_path / "b", {name: "60000"}, answers=False))
    assert rarely <= 1 < often


@observes("controller.quorum.auto.join.enable")
def test_controller_becomes_a_voter_only_with_auto_join(tmp_path: Path) -> None:
    for enabled in ("true", "false"):

        async def body(nodes: QuorumNodes, enabled: str = enabled) -> None:
            voters = nodes.running[1].quorum
            await nodes.start(2, roles="controller")
            with trio.move_on_after(40 if enabled == "true" else 1):
                await nodes.eventually(lambda: len(voters.core.voters) == 2, 30)
            assert (len(voters.core.voters) == 2) is (enabled == "true")

        config = {
            "controller.quorum.auto.join.enable": enabled,
            "controller.quorum.fetch.timeout.ms": "1000",
        }
        run(tmp_path / enabled, config, body)
