"""The addresses of the quorum's replicas: from the voters, from responses, from the configuration.

`controller.quorum.bootstrap.servers` only helps to find the quorum. The address of the leader comes
from the voters, or from the responses of other replicas where the voters are not known yet.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.voters import LeaderAddress

if TYPE_CHECKING:
    from barnabas.client.failures import Address
    from barnabas.cluster.quorum.raft_wire import LeaderState


class NodeEndpoint(Protocol):
    """A replica's address in a response."""

    node_id: int
    host: str
    port: int


class QuorumAddresses:
    """Finds the controller listener of a replica; `servers` are configured as host:port."""

    def __init__(self, core: RaftCore, servers: Sequence[str], listener_name: str) -> None:
        self._core = core
        self._servers = servers
        self._listener_name = listener_name
        self._learned: dict[int, Endpoint] = {}

    def learn(self, endpoints: Iterable[NodeEndpoint]) -> None:
        """Note the addresses that a response states."""
        for each in endpoints:
            self._learned[each.node_id] = Endpoint(self._listener_name, each.host, each.port)

    def learn_leader(self, leader_id: int, endpoints: Sequence[Endpoint]) -> None:
        """Note the endpoints with which a leader announces itself."""
        for endpoint in endpoints[:1]:
            self._learned[leader_id] = endpoint

    def endpoint(self, node_id: int) -> Endpoint | None:
        """Return the controller listener of a replica; None while it is unknown."""
        core = self._core
        if node_id == core.local.key.id and core.local.endpoints:
            return core.local.endpoints[0]
        voter = core.voters.voters.get(node_id)
        if voter is not None and voter.endpoints:
            return voter.endpoints[0]
        return self._learned.get(node_id)

    def of_node(self, node_id: int) -> "Address | None":
        """Return the address for a connection to a replica."""
        endpoint = self.endpoint(node_id)
        return None if endpoint is None else _address(endpoint.host, endpoint.port)

    def bootstrap(self) -> "list[Address]":
        """Return the addresses at which other replicas may answer."""
        own_id = self._core.local.key.id
        own = self.of_node(own_id)
        configured = [_parse(server) for server in self._servers]
        voters = [
            _address(voter.endpoints[0].host, voter.endpoints[0].port)
            for voter in self._core.voters
            if voter.key.id != own_id and voter.endpoints
        ]
        return [address for address in dict.fromkeys([*voters, *configured]) if address != own]

    def leader_state(self) -> "LeaderState":
        """Return the epoch, the leader and its address, for a response."""
        from barnabas.cluster.quorum.raft_wire import LeaderState

        core = self._core
        endpoint = None if core.leader_id is None else self.endpoint(core.leader_id)
        return LeaderState(core.epoch, core.leader_id, endpoint)

    def leader_address(self) -> LeaderAddress | None:
        """Return the address of the leader; None while it is unknown."""
        state = self.leader_state()
        if state.leader_id is None or state.endpoint is None:
            return None
        return LeaderAddress(state.leader_id, state.epoch, state.endpoint)

    def describe_leader(self) -> str:
        """Return the last known leader, or what to check without one, for an error message."""
        leader = self.leader_address()
        if leader is not None:
            return f"the last known leader is node {_named(leader.node_id, leader.endpoint)}"
        voters = [
            _named(voter.key.id, *voter.endpoints[:1])
            for voter in sorted(self._core.voters, key=lambda each: each.key.id)
        ]
        if not voters:
            return "no controller answered: check controller.quorum.bootstrap.servers"
        return (
            f"no leader is known: check that a majority of the voters {', '.join(voters)} runs "
            "and that their addresses can be reached"
        )


def _named(node_id: int, *endpoints: Endpoint) -> str:
    """Return a node id, with its address if there is one."""
    return " ".join([str(node_id), *(f"({each.host}:{each.port})" for each in endpoints)])


def _parse(server: str) -> "Address":
    host, _, port = server.strip().rpartition(":")
    return _address(host.strip("[]"), int(port))


def _address(host: str, port: int) -> "Address":
    from barnabas.client.failures import Address

    return Address(host, port)
