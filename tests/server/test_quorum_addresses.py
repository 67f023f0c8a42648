"""The addresses of the quorum's replicas: statements, listeners, and the text about the leader."""

from types import SimpleNamespace
from typing import Any, cast

from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum import raft_wire
from barnabas.cluster.quorum.raft_messages import FetchResponse
from barnabas.cluster.quorum.raft_wire import LeaderState
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.types import Uuid
from barnabas.server.quorum.quorum_addresses import QuorumAddresses

CLIENTS = Endpoint("CLIENTS", "one", 9092)
OLD = Endpoint("CONTROLLER", "one", 9093)
NEW = Endpoint("CONTROLLER", "one", 9193)
NODE_ENDPOINT = SimpleNamespace(node_id=1, host=NEW.host, port=NEW.port)


def core_of(leader_id: int | None = 1, *endpoints: Endpoint) -> Any:
    """Return the core of voter 2 in epoch 5; voter 1 has these endpoints."""
    local = Voter(ReplicaKey(2), (Endpoint("CONTROLLER", "two", 9093),))
    voters = VoterSet.of(Voter(ReplicaKey(1), endpoints), local)
    return SimpleNamespace(local=local, voters=voters, epoch=5, leader_id=leader_id)


def addresses_of(core: Any) -> QuorumAddresses:
    return QuorumAddresses(core, [], "CONTROLLER")


def test_endpoint_of_a_voter_is_the_controller_listener() -> None:
    addresses = addresses_of(core_of(1, CLIENTS, OLD))
    assert addresses.endpoint(1) == OLD
    assert [each.port for each in addresses.bootstrap()] == [OLD.port]


def test_endpoint_of_the_leader_is_the_announced_one() -> None:
    addresses = addresses_of(core_of(1, OLD))
    addresses.learn_leader(5, 1, [CLIENTS, NEW])
    assert addresses.endpoint(1) == NEW


def test_endpoint_of_the_leader_is_the_one_in_a_response() -> None:
    addresses = addresses_of(core_of(1, OLD))
    addresses.learn(5, 1, [NODE_ENDPOINT])
    assert addresses.leader_state("CONTROLLER") == LeaderState(5, 1, NEW)


def test_endpoint_of_a_later_leader_is_used_when_its_epoch_is_known() -> None:
    core = core_of(2, OLD)
    addresses = addresses_of(core)
    addresses.learn_leader(6, 1, [NEW])
    assert addresses.endpoint(1) == OLD
    core.epoch, core.leader_id = 6, 1
    assert addresses.endpoint(1) == NEW


def test_endpoint_of_an_earlier_epoch_is_not_used() -> None:
    core = core_of(1, OLD)
    addresses = addresses_of(core)
    addresses.learn_leader(4, 1, [NEW])
    assert addresses.endpoint(1) == OLD
    addresses.learn_leader(5, 1, [NEW])
    core.epoch = 6
    assert addresses.endpoint(1) == OLD


def test_leader_state_has_the_address_of_the_listener_of_the_request() -> None:
    """While a cluster moves to another listener, nodes connect to the old or to the new one."""
    secure = Endpoint("SECURE", "one", 9095)
    addresses = addresses_of(core_of(1, OLD, secure))
    assert addresses.leader_state("CONTROLLER") == LeaderState(5, 1, OLD)
    assert addresses.leader_state("SECURE") == LeaderState(5, 1, secure)
    assert addresses.leader_state("OTHER") == LeaderState(5, None, None)
    core = core_of(2)
    core.local = Voter(core.local.key, (*core.local.endpoints, secure))
    assert addresses_of(core).leader_state("SECURE") == LeaderState(5, 2, secure)


def test_text_about_an_unknown_leader_names_the_refused_credentials() -> None:
    addresses = addresses_of(core_of(None))
    addresses.refusal = "one:9093: Authentication failed: Invalid username or password"
    text = addresses.describe_leader()
    assert "Invalid username or password): compare the properties of listener CONTROLLER" in text


def test_leader_state_without_an_address_states_no_leader() -> None:
    leader = addresses_of(core_of(1)).leader_state("CONTROLLER")
    assert leader == LeaderState(5, None, None)
    response = raft_wire.fetch_response(FetchResponse(5, 1, ErrorCode.NONE), b"", 0, leader)
    assert response.responses[0].partitions[0].current_leader.leader_id == -1


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
