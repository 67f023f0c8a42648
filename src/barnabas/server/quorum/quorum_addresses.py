"""The addresses of the quorum's replicas: from the voters, from responses, from the configuration.

`controller.quorum.bootstrap.servers` only helps to find the quorum. The address of the leader is
the one that the leader itself or a response states for its epoch; before that, the one among the
voters.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

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


class _StatedLeader(NamedTuple):
    """The leader of an epoch, with the endpoint that it or a response stated."""

    epoch: int
    leader_id: int
    endpoint: Endpoint


class QuorumAddresses:
    """Finds the controller listener of a replica; `servers` are configured as host:port."""

    def __init__(self, core: RaftCore, servers: Sequence[str], listener_name: str) -> None:
        self._core = core
        self._servers = servers
        self._listener_name = listener_name
        self._learned: dict[int, Endpoint] = {}
        self._stated_leader: _StatedLeader | None = None
        self.refusal: str | None = None
        """The last error of a replica that does not accept this node's TLS or credentials."""

    def learn(self, epoch: int, leader_id: int | None, endpoints: Iterable[NodeEndpoint]) -> None:
        """Note the addresses that a response states, together with an epoch and its leader."""
        for each in endpoints:
            endpoint = Endpoint(self._listener_name, each.host, each.port)
            self._learned[each.node_id] = endpoint
            if each.node_id == leader_id:
                self._note_leader(_StatedLeader(epoch, each.node_id, endpoint))

    def learn_leader(self, epoch: int, leader_id: int, endpoints: Iterable[Endpoint]) -> None:
        """Note the endpoints with which a leader announces itself."""
        endpoint = self._controller_endpoint(endpoints)
        if endpoint is not None:
            self._learned[leader_id] = endpoint
            self._note_leader(_StatedLeader(epoch, leader_id, endpoint))

    def _note_leader(self, stated: _StatedLeader) -> None:
        """Keep a statement, unless the core knows a later epoch or another leader of this one."""
        core = self._core
        is_other = stated.epoch == core.epoch and core.leader_id not in (None, stated.leader_id)
        if stated.epoch >= core.epoch and not is_other:
            self._stated_leader = stated

    def _controller_endpoint(self, endpoints: Iterable[Endpoint]) -> Endpoint | None:
        """Return the endpoint with the name of the controller listener."""
        return next((each for each in endpoints if each.name == self._listener_name), None)

    def endpoint(self, node_id: int) -> Endpoint | None:
        """Return the controller listener of a replica; None while it is unknown.

        The current leader's own statement is later than the voters in the log.
        """
        core, stated = self._core, self._stated_leader
        if node_id == core.local.key.id and core.local.endpoints:
            return self._controller_endpoint(core.local.endpoints) or core.local.endpoints[0]
        is_leader = node_id == core.leader_id
        if is_leader and stated is not None and stated[:2] == (core.epoch, node_id):
            return stated.endpoint
        voter = core.voters.voters.get(node_id)
        found = None if voter is None else self._controller_endpoint(voter.endpoints)
        return found or self._learned.get(node_id)

    def of_node(self, node_id: int) -> "Address | None":
        """Return the address for a connection to a replica."""
        endpoint = self.endpoint(node_id)
        return None if endpoint is None else _address(endpoint.host, endpoint.port)

    def bootstrap(self) -> "list[Address]":
        """Return the addresses at which other replicas may answer."""
        own_id = self._core.local.key.id
        own = self.of_node(own_id)
        configured = [_parse(server) for server in self._servers]
        others = [voter for voter in self._core.voters if voter.key.id != own_id]
        endpoints = [self._controller_endpoint(voter.endpoints) for voter in others]
        voters = [_address(each.host, each.port) for each in endpoints if each is not None]
        return [address for address in dict.fromkeys([*voters, *configured]) if address != own]

    def leader_state(self, listener_name: str) -> "LeaderState":
        """Return the epoch, for a response; the leader is stated if its address is known.

        The address is that of the listener that got the request: while a cluster moves to another
        controller listener, nodes connect to the one or to the other.
        """
        from barnabas.cluster.quorum.raft_wire import LeaderState

        leader = self.leader_address()
        if leader is not None and listener_name != self._listener_name:
            leader = self._leader_at(leader, listener_name)
        if leader is None:
            return LeaderState(self._core.epoch, None, None)
        return LeaderState(leader.epoch, leader.node_id, leader.endpoint)

    def _leader_at(self, leader: LeaderAddress, listener_name: str) -> LeaderAddress | None:
        """Return the leader's address at another controller listener; None when it is unknown."""
        core, node_id = self._core, leader.node_id
        voter = core.voters.voters.get(node_id)
        endpoints = () if voter is None else voter.endpoints
        if node_id == core.local.key.id:
            endpoints = core.local.endpoints
        found = (each for each in endpoints if each.name == listener_name)
        endpoint = next(found, None)
        return None if endpoint is None else leader._replace(endpoint=endpoint)

    def leader_address(self) -> LeaderAddress | None:
        """Return the address of the leader; None while it is unknown."""
        core = self._core
        endpoint = None if core.leader_id is None else self.endpoint(core.leader_id)
        if core.leader_id is None or endpoint is None:
            return None
        return LeaderAddress(core.leader_id, core.epoch, endpoint)

    def describe_leader(self) -> str:
        """Return the last known leader, or what to check without one, for an error message."""
        leader = self.leader_address()
        if leader is not None:
            return f"the last known leader is node {_named(leader.node_id, leader.endpoint)}"
        voters = [
            _named(voter.key.id, self._controller_endpoint(voter.endpoints))
            for voter in sorted(self._core.voters, key=lambda each: each.key.id)
        ]
        if self.refusal is not None:
            return (
                f"no leader is known, and a controller refused this node ({self.refusal}): compare "
                f"the properties of listener {self._listener_name} with those of the controllers "
                "(sasl.jaas.config, key store and trust store)"
            )
        if not voters:
            return "no controller answered: check controller.quorum.bootstrap.servers"
        return (
            f"no leader is known: check that a majority of the voters {', '.join(voters)} runs "
            "and that their addresses can be reached"
        )


def _named(node_id: int, endpoint: Endpoint | None) -> str:
    """Return a node id, with its address if it is known."""
    return str(node_id) if endpoint is None else f"{node_id} ({endpoint.host}:{endpoint.port})"


def _parse(server: str) -> "Address":
    host, _, port = server.strip().rpartition(":")
    return _address(host.strip("[]"), int(port))


def _address(host: str, port: int) -> "Address":
    from barnabas.client.failures import Address

    return Address(host, port)
