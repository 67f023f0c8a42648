"""Nodes with the versions of older releases, and messages that pass as bytes."""

from typing import Any

import attrs
import pytest

from barnabas.cluster.quorum.raft_messages import FetchRequest, VoteRequest
from barnabas.cluster.quorum.voters import ReplicaKey
from barnabas.protocol.apis import API
from barnabas.protocol.errors import EncodingError
from barnabas.testing.simulation import RareState, Simulation, prepare, run
from barnabas.testing.simulation.faults import Fault, FaultKind
from barnabas.testing.simulation.network import Carried
from barnabas.testing.simulation.sim_wire import RELEASES, SimWire
from barnabas.testing.simulation.world import World
from tests.simulation.scripted_options import replicated

SECONDS = 10
OLD = 2
KEYS = [ReplicaKey(1), ReplicaKey(OLD)]
LARGEST = (1 << 63) - 1


def cluster(seed: int, **changes: Any) -> Simulation:
    options = replicated(
        SECONDS,
        admins=1,
        admin_pause_ms=100,
        partitions=2,
        copiers=1,
        metadata_version=21,
        transaction_version=0,
        elr_version=0,
        **changes,
    )
    faults = [Fault(1_000 + 2_500 * n, FaultKind.KILL, (n + 1,), 1_000, 0.5) for n in range(3)]
    return prepare(seed, SECONDS, options=options, faults=faults)


def carried(release: str, sender: int, to: int, request: object) -> Carried:
    found = SimWire(World(1), {OLD: RELEASES[release]}, 0.0).carry(sender, to, request)
    assert found is not None
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_cluster_with_an_old_node_keeps_the_invariants(release: str) -> None:
    simulation = run(cluster(5, old_peer=OLD, old_release=release))

    reached = simulation.world.rare.counts[RareState.VOTER_WITHOUT_PRE_VOTES]
    assert bool(reached) == (release == "3.9")


def test_cluster_whose_messages_pass_as_bytes_keeps_the_invariants() -> None:
    run(cluster(5, byte_share=1.0))


def test_nodes_of_this_version_exchange_objects() -> None:
    assert SimWire(World(1), {OLD: RELEASES["4.0"]}, 0.0).carry(1, 3, VOTE) is None


VOTE = VoteRequest(OLD, 4, KEYS[0], 3, 100, pre_vote=True, voter=KEYS[1])


def test_pre_vote_to_a_node_of_3_9_cannot_be_sent() -> None:
    with pytest.raises(EncodingError):
        carried("3.9", 1, OLD, VOTE)

    assert carried("3.9", 1, OLD, attrs.evolve(VOTE, pre_vote=False)).request.epoch == 4
    assert carried("4.0", 1, OLD, VOTE).request == VOTE


def test_fetch_of_an_old_node_states_no_high_watermark() -> None:
    """Its leader answers when there are records, not when the high watermark moves."""
    fetch = FetchRequest(1, 4, KEYS[1], 100, 3)

    request, high_watermark = carried("4.0", OLD, 1, (fetch, 50)).request

    assert (request.offset, high_watermark) == (100, LARGEST)


@pytest.mark.parametrize("release", RELEASES)
def test_versions_of_releases_are_lower_than_ours(release: str) -> None:
    for key, version in RELEASES[release].items():
        assert API[key].min_version <= version < API[key].max_version
