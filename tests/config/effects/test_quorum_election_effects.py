"""Timeouts of the quorum's elections, observed on voters whose peer does not run."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio

from barnabas.cluster.quorum.raft import RaftCore
from barnabas.config import NodeConfig
from barnabas.server.node.node import Node
from tests.config.effects.observed import observes
from tests.server.quorum_nodes import QuorumNodes

ELECTION = "controller.quorum.election.timeout.ms"
BACKOFF = "controller.quorum.election.backoff.max.ms"
FETCH = "controller.quorum.fetch.timeout.ms"
LONG = "600000"


@pytest.fixture
def elections(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The times in ms at which a replica requests votes, which are never granted."""
    requested: list[int] = []
    request_votes = RaftCore._request_votes

    def observe(self: RaftCore, now_ms: int, **options: Any) -> None:
        requested.append(now_ms)
        request_votes(self, now_ms, **options)

    monkeypatch.setattr(RaftCore, "_request_votes", observe)
    return requested


def run_one_of_two(
    directory: Path, config: dict[str, str], until: Callable[[], bool], further_s: float = 0.0
) -> None:
    """Run one of two voters until a condition holds, and some time further."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(directory, nursery, voter_ids=(1, 2), config=config)
            node = Node(NodeConfig.load(None, nodes.properties(1, "controller")))
            nursery.start_soon(node.run)
            await nodes.eventually(until)
            await trio.sleep(further_s)
            nursery.cancel_scope.cancel()

    trio.run(main)


@observes(ELECTION)
def test_candidate_starts_another_election_after_the_timeout(
    elections: list[int], tmp_path: Path
) -> None:
    config = {ELECTION: "20", BACKOFF: "0"}
    run_one_of_two(tmp_path / "short", config, lambda: len(elections) > 1)
    elections.clear()
    config = {ELECTION: LONG, BACKOFF: "0"}
    run_one_of_two(tmp_path / "long", config, lambda: bool(elections), further_s=1.5)
    assert len(elections) == 1


@observes(BACKOFF)
def test_backoff_between_elections_grows_up_to_the_given_time(
    elections: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.randrange", lambda bound: bound - 1)

    def waits() -> list[int]:
        return [later - earlier for earlier, later in pairwise(elections)]

    run_one_of_two(
        tmp_path / "long", {ELECTION: "1", BACKOFF: LONG}, lambda: max(waits(), default=0) >= 300
    )
    assert len(elections) < 10
    elections.clear()
    # With backoffs that grow, this number of elections would take more than an hour.
    run_one_of_two(tmp_path / "none", {ELECTION: "1", BACKOFF: "0"}, lambda: len(elections) > 100)


@observes(FETCH)
def test_leader_without_a_majority_resigns_after_the_fetch_timeout(tmp_path: Path) -> None:
    async def main(timeout_ms: str, *, resigns: bool) -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(
                tmp_path / timeout_ms, nursery, voter_ids=(1, 2), config={FETCH: timeout_ms}
            )
            with trio.fail_after(60):
                await nodes.start(1, 2, roles="controller")
                leader_id = nodes.leader_id
                core = nodes.running[leader_id].quorum.core
                await nodes.kill(3 - leader_id)
                with trio.move_on_after(50 if resigns else 2):
                    await nodes.eventually(lambda: not core.is_leader, 60)
                assert core.is_leader is not resigns
            nursery.cancel_scope.cancel()

    trio.run(lambda: main("1000", resigns=True))
    trio.run(lambda: main(LONG, resigns=False))
