"""The addresses of the quorum's replicas, and the text about its leader."""

from types import SimpleNamespace
from typing import Any, cast

from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.protocol.types import Uuid
from barnabas.server.quorum.quorum_addresses import QuorumAddresses


def voter(node_id: int) -> Voter:
    endpoint = Endpoint("CONTROLLER", f"kafka-{node_id}", 9093)
    return Voter(ReplicaKey(node_id, Uuid.random()), (endpoint,))


def addresses(leader_id: int | None, *voters: Voter) -> QuorumAddresses:
    core = SimpleNamespace(
        epoch=1, leader_id=leader_id, local=Voter(ReplicaKey(9)), voters=VoterSet.of(*voters)
    )
    return QuorumAddresses(cast("Any", core), [], "CONTROLLER")


def test_describe_leader_names_the_leader() -> None:
    text = addresses(2, voter(1), voter(2)).describe_leader()
    assert text == "the last known leader is node 2 (kafka-2:9093)"


def test_describe_leader_without_a_leader_names_the_voters() -> None:
    text = addresses(None, voter(2), Voter(ReplicaKey(1))).describe_leader()
    assert "a majority of the voters 1, 2 (kafka-2:9093) runs" in text


def test_describe_leader_without_voters_names_the_property() -> None:
    assert "controller.quorum.bootstrap.servers" in addresses(None).describe_leader()
