"""Timeouts of the quorum's elections, observed on voters whose peer does not run."""

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


def run_one_of_two(directory: Path, config: dict[str, str]) -> None:
    """Run one of two voters for 2 s."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(directory, nursery, voter_ids=(1, 2), config=config)
            node = Node(NodeConfig.load(None, nodes.properties(1, "controller")))
            nursery.start_soon(node.run)
            await trio.sleep(2)
            nursery.cancel_scope.cancel()

    trio.run(main)


@observes(ELECTION)
def test_candidate_starts_another_election_after_the_timeout(
    elections: list[int], tmp_path: Path
) -> None:
    for timeout_ms, is_repeated in (("20", True), (LONG, False)):
        elections.clear()
        run_one_of_two(tmp_path / timeout_ms, {ELECTION: timeout_ms, BACKOFF: "0"})
        assert elections
        assert (len(elections) > 1) is is_repeated


@observes(BACKOFF)
def test_backoff_between_elections_grows_up_to_the_given_time(
    elections: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.randrange", lambda bound: bound - 1)
    waits: dict[str, int] = {}
    for backoff_ms in ("0", LONG):
        elections.clear()
        run_one_of_two(tmp_path / backoff_ms, {ELECTION: "1", BACKOFF: backoff_ms})
        waits[backoff_ms] = max(later - earlier for earlier, later in pairwise(elections))
    assert waits[LONG] >= 300
    assert waits["0"] < waits[LONG]


@observes(FETCH)
def test_leader_without_a_majority_resigns_after_the_fetch_timeout(tmp_path: Path) -> None:
    async def main(timeout_ms: str, *, resigns: bool) -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(
                tmp_path / timeout_ms, nursery, voter_ids=(1, 2), config={FETCH: timeout_ms}
            )
            with trio.fail_after(20):
                await nodes.start(1, 2, roles="controller")
                leader_id = nodes.leader_id
                core = nodes.running[leader_id].quorum.core
                await nodes.kill(3 - leader_id)
                with trio.move_on_after(10 if resigns else 2):
                    await nodes.eventually(lambda: not core.is_leader, 30)
                assert core.is_leader is not resigns
            nursery.cancel_scope.cancel()

    trio.run(lambda: main("1000", resigns=True))
    trio.run(lambda: main(LONG, resigns=False))
