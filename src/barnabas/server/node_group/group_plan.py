"""The nodes of a group: ids, roles, ports, directories and properties. Pure."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

import attrs

from barnabas.cluster.quorum.voters import VoterSet

CONTROLLER_PORT_DISTANCE: Final = 10_000
"""The distance from a node's port for clients to its port for other nodes."""

_VOTERS_MAX: Final = 3
_PORT_MAX: Final = 65_535
_PLAINTEXT: Final = "PLAINTEXT"
_CONTROLLER: Final = "CONTROLLER"
_CONTROLLER_NAMES: Final = "controller.listener.names"


class GroupPlanError(ValueError):
    """The options do not make a group; the message is one line that says what to change."""


@attrs.frozen(kw_only=True)
class PlannedNode:
    """One node of the group."""

    node_id: int
    is_controller: bool
    host: str
    port: int
    controller_port: int
    directory: Path

    @property
    def roles(self) -> str:
        """The value of `process.roles`."""
        return "broker,controller" if self.is_controller else "broker"

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"{_bracketed(self.host)}:{self.port}"

    @property
    def controller_address(self) -> str:
        """The address for the other nodes."""
        return f"{_bracketed(self.host)}:{self.controller_port}"


class GroupListeners(NamedTuple):
    """The names of the listeners of each node: for clients and brokers, and for controllers."""

    clients: str = _PLAINTEXT
    controllers: str = _CONTROLLER

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Return the names that properties of all nodes choose."""
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
        listeners = [f"{self.listeners.clients}://{node.bootstrap}"]
        if node.is_controller:
            listeners.append(f"{self.listeners.controllers}://{node.controller_address}")
        servers = ",".join(each.controller_address for each in self.controllers)
        return {
            **self.shared,
            "node.id": str(node.node_id),
            "process.roles": node.roles,
            "listeners": ",".join(listeners),
            _CONTROLLER_NAMES: self.listeners.controllers,
            "controller.quorum.bootstrap.servers": servers,
            "log.dirs": str(node.directory),
        }


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
    each of up to three nodes, and other topics the values of `topic_defaults`. Raises
    GroupPlanError.
    """
    _check_ports(count, port)
    voters = voters or VoterSet.of()
    _check_voters(voters, count, port)
    controllers = _VOTERS_MAX if count >= _VOTERS_MAX else 1
    nodes = [
        PlannedNode(
            node_id=index + 1,
            is_controller=index < controllers or index + 1 in voters.voters,
            host=host,
            port=port + index,
            controller_port=port + CONTROLLER_PORT_DISTANCE + index,
            directory=data / f"node-{index + 1}",
        )
        for index in range(count)
    ]
    for name in ("node.id", "process.roles", "listeners", "log.dirs", "advertised.listeners"):
        if name in given:
            raise GroupPlanError(f"--set {name} cannot be used with --nodes: each node has its own")
    topics: Mapping[str, str] = {} if has_file else (topic_defaults or {})
    defaults = {} if has_file else {**internal_topics(min(count, _VOTERS_MAX)), **topics}
    shared = {**defaults, **given}
    return GroupPlan(nodes=nodes, shared=shared, topic_defaults=topics, listeners=listeners)


def _check_ports(count: int, port: int) -> None:
    if count < 1:
        raise GroupPlanError("--nodes must be at least 1")
    if not port:
        raise GroupPlanError("--nodes needs a fixed port in --listen: clients use it and the next")
    last = port + CONTROLLER_PORT_DISTANCE + count - 1
    if last > _PORT_MAX:
        raise GroupPlanError(
            f"--nodes {count} with port {port} needs the port {last} for a controller, above "
            f"{_PORT_MAX}: choose a port up to {port - last + _PORT_MAX}"
        )


def _check_voters(voters: VoterSet, count: int, port: int) -> None:
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
