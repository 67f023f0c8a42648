"""The nodes of a group: ids, roles, ports, directories and properties. Pure."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

import attrs

from barnabas.cluster.quorum.voters import VoterSet

CONTROLLER_PORT_DISTANCE: Final = 10_000
"""The distance from a node's port for clients to its port for controllers."""

BROKER_PORT_DISTANCE: Final = 20_000
"""The distance to its port for other brokers, in a group with a listener for them."""

INTERNAL_HOST: Final = "127.0.0.1"
"""The host of the nodes for each other, in a group with that listener."""

_VOTERS_MAX: Final = 3
_PORT_MAX: Final = 65_535
_WILDCARDS: Final = ("", "0.0.0.0", "::")
_PLAINTEXT: Final = "PLAINTEXT"
_CONTROLLER: Final = "CONTROLLER"
_CONTROLLER_NAMES: Final = "controller.listener.names"
_ADVERTISED: Final = "advertised.listeners"


class GroupPlanError(ValueError):
    """The options do not make a group; the message is one line that says what to change."""


@attrs.frozen(kw_only=True)
class PlannedNode:
    """One node of the group.

    With `broker_port` the node has a listener for brokers apart from that for clients, and
    reaches the others by `INTERNAL_HOST`. `advertised` is the address that clients get, where it is
    not the listener's own.
    """

    node_id: int
    is_controller: bool
    host: str
    port: int
    controller_port: int
    directory: Path
    broker_port: int | None = None
    advertised: str | None = None

    @property
    def roles(self) -> str:
        """The value of `process.roles`."""
        return "broker,controller" if self.is_controller else "broker"

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"{_bracketed(self.host)}:{self.port}"

    @property
    def local_bootstrap(self) -> str:
        """The address for clients on this machine."""
        host = INTERNAL_HOST if self.host in _WILDCARDS else self.host
        return f"{_bracketed(host)}:{self.port}"

    @property
    def internal_host(self) -> str:
        """The host that the other nodes connect to."""
        return self.host if self.broker_port is None else INTERNAL_HOST

    @property
    def controller_address(self) -> str:
        """The address for the other nodes."""
        return f"{_bracketed(self.internal_host)}:{self.controller_port}"

    @property
    def broker_address(self) -> str:
        """The address for other brokers."""
        return f"{_bracketed(self.internal_host)}:{self.broker_port or self.port}"


class GroupListeners(NamedTuple):
    """The names of the listeners of each node: for clients, for controllers, and for brokers.

    Without `brokers`, they use the listener of the clients.
    """

    clients: str = _PLAINTEXT
    controllers: str = _CONTROLLER
    brokers: str | None = None

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Return the names that properties of all nodes choose: one for clients and brokers."""
        clients = properties.get("inter.broker.listener.name", _PLAINTEXT)
        controllers = properties.get(_CONTROLLER_NAMES, _CONTROLLER).partition(",")[0]
        return cls(clients.strip().upper(), controllers.strip().upper())


@attrs.frozen(kw_only=True)
class GroupPlan:
    """The nodes, and the properties that they share.

    `topic_defaults` are those of new topics; a new group keeps them with its directories.
    """

    nodes: Sequence[PlannedNode]
    shared: Mapping[str, str]
    topic_defaults: Mapping[str, str] = {}
    listeners: GroupListeners = attrs.field(factory=GroupListeners)

    @property
    def controllers(self) -> list[PlannedNode]:
        """The nodes that lead or may lead the quorum."""
        return [node for node in self.nodes if node.is_controller]

    def properties(self, node: PlannedNode) -> dict[str, str]:
        """Return the properties of a node that its command line sets."""
        listeners = self._broker_listeners(node, node.bootstrap)
        own = {}
        if node.advertised is not None:
            own[_ADVERTISED] = ",".join(self._broker_listeners(node, node.advertised))
        if node.is_controller:
            listeners.append(f"{self.listeners.controllers}://{node.controller_address}")
        servers = ",".join(each.controller_address for each in self.controllers)
        return {
            **self.shared,
            **own,
            "node.id": str(node.node_id),
            "process.roles": node.roles,
            "listeners": ",".join(listeners),
            _CONTROLLER_NAMES: self.listeners.controllers,
            "controller.quorum.bootstrap.servers": servers,
            "log.dirs": str(node.directory),
        }

    def _broker_listeners(self, node: PlannedNode, clients: str) -> list[str]:
        """Return the listeners of a node as a broker, with an address for clients."""
        listeners = [f"{self.listeners.clients}://{clients}"]
        if self.listeners.brokers is not None:
            listeners.append(f"{self.listeners.brokers}://{node.broker_address}")
        return listeners


def plan_group(
    count: int,
    *,
    host: str,
    port: int,
    data: Path,
    given: Mapping[str, str],
    has_file: bool,
    listeners: GroupListeners = GroupListeners(),  # noqa: B008 - a frozen value
    topic_defaults: Mapping[str, str] | None = None,
    voters: VoterSet | None = None,
) -> GroupPlan:
    """Return the plan of `count` nodes; the first one, or the first three, are controllers.

    The nodes of `voters`, which existing directories state, are controllers too. `given` are the
    properties of the command line. Without a configuration file, internal topics get a replica on
    each of up to three nodes, and other topics the values of `topic_defaults`.
    `advertised.listeners` is that of the first node: its port is counted up. Raises
    GroupPlanError.
    """
    is_apart = listeners.brokers is not None
    _check_ports(count, port, is_apart=is_apart)
    voters = voters or VoterSet.of()
    _check_voters(voters, count, port, is_apart=is_apart)
    controllers = _VOTERS_MAX if count >= _VOTERS_MAX else 1
    advertised = _advertised(given, listeners.clients, count)
    nodes = [
        PlannedNode(
            node_id=index + 1,
            is_controller=index < controllers or index + 1 in voters.voters,
            host=host,
            port=port + index,
            controller_port=port + CONTROLLER_PORT_DISTANCE + index,
            directory=data / f"node-{index + 1}",
            broker_port=port + BROKER_PORT_DISTANCE + index if is_apart else None,
            advertised=advertised[index] if advertised else None,
        )
        for index in range(count)
    ]
    for name in ("node.id", "process.roles", "listeners", "log.dirs"):
        if name in given:
            raise GroupPlanError(f"--set {name} cannot be used with --nodes: each node has its own")
    topics: Mapping[str, str] = {} if has_file else (topic_defaults or {})
    defaults = {} if has_file else {**internal_topics(min(count, _VOTERS_MAX)), **topics}
    shared = {name: value for name, value in {**defaults, **given}.items() if name != _ADVERTISED}
    return GroupPlan(nodes=nodes, shared=shared, topic_defaults=topics, listeners=listeners)


def _advertised(given: Mapping[str, str], listener: str, count: int) -> list[str]:
    """Return the addresses that clients get, none when they are those of the listeners."""
    text = given.get(_ADVERTISED, "").strip()
    if not text:
        return []
    name, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    if name.upper() != listener or not host or "," in host or not port.isdecimal():
        raise GroupPlanError(
            f"--set {_ADVERTISED} with --nodes states the first node's address for clients, and "
            f"the others get the ports after it: it must be as {listener}://kafka.example.org:9092"
        )
    if not 0 < int(port) <= _PORT_MAX + 1 - count:
        raise GroupPlanError(f"--set {_ADVERTISED}: there are not {count} ports from {port} on")
    return [f"{host}:{int(port) + index}" for index in range(count)]


def _check_ports(count: int, port: int, *, is_apart: bool) -> None:
    if count < 1:
        raise GroupPlanError("--nodes must be at least 1")
    if not port:
        raise GroupPlanError("--nodes needs a fixed port in --listen: clients use it and the next")
    distance, user = CONTROLLER_PORT_DISTANCE, "controller"
    if is_apart:
        distance, user = BROKER_PORT_DISTANCE, "broker"
    last = port + distance + count - 1
    if last > _PORT_MAX:
        raise GroupPlanError(
            f"--nodes {count} with port {port} needs the port {last} for a {user}, above "
            f"{_PORT_MAX}: choose a port up to {port - last + _PORT_MAX}"
        )


def _check_voters(voters: VoterSet, count: int, port: int, *, is_apart: bool) -> None:
    """Raise GroupPlanError when the voters cannot find each other in the plan.

    A single voter needs no other to lead, and then records its new address.
    """
    left_out = [voter_id for voter_id in sorted(voters.voters) if voter_id > count]
    if left_out:
        raise GroupPlanError(
            f"--nodes {count} leaves out the voters {', '.join(map(str, left_out))}: start with "
            f"--nodes {left_out[-1]}, then remove them with 'barnabas cluster voters remove'"
        )
    for voter in voters if len(voters) > 1 else ():
        planned = port + CONTROLLER_PORT_DISTANCE + voter.key.id - 1
        known = [endpoint.port for endpoint in voter.endpoints]
        if known and planned not in known:
            raise GroupPlanError(
                f"the voters know node {voter.key.id} by the port {known[0]}, not {planned}: "
                f"choose the port {port + known[0] - planned} in --listen"
            )
        hosts = [endpoint.host for endpoint in voter.endpoints]
        if is_apart and hosts and not {INTERNAL_HOST, "localhost"}.intersection(hosts):
            raise GroupPlanError(
                f"the voters know node {voter.key.id} by the address {hosts[0]}, and nodes with "
                f"--secure reach each other by {INTERNAL_HOST}: docs/node-security.md says how "
                "such a cluster goes to TLS"
            )


def internal_topics(replicas: int) -> dict[str, str]:
    """Return the properties that give internal topics this number of replicas."""
    in_sync = 2 if replicas >= _VOTERS_MAX else 1
    return {
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
    }


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
