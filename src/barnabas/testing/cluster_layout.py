"""The layout of a cluster for tests: formatted directories, properties of each node."""

import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from barnabas.cluster.metadata.scram_credentials import ITERATIONS_MIN, SCRAM_MECHANISMS
from barnabas.protocol.messages_base import Message
from barnabas.server.node_group.group_defaults import replicated_topics
from barnabas.server.node_group.group_directories import format_group
from barnabas.server.node_group.group_plan import (
    GroupListeners,
    GroupPlan,
    PlannedNode,
    internal_topics,
)
from barnabas.testing.free_ports import HOST, free_ports
from barnabas.testing.node_security import ClusterSecurity

_SALT_BYTES: Final = 32


@attrs.frozen(kw_only=True)
class ClusterLayout:
    """The nodes of a cluster, by id, with the properties that each of them starts with."""

    plan: GroupPlan
    properties: Mapping[int, Mapping[str, str]]

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes for clients."""
        return ",".join(node.bootstrap for node in self.plan.nodes)


def lay_out(
    nodes: int,
    data: Path,
    *,
    voters: int | None = None,
    replicates_topics: bool = False,
    config: Mapping[str, str] | None = None,
    node_config: Mapping[int, Mapping[str, str]] | None = None,
    users: Mapping[str, str] | None = None,
    security: ClusterSecurity | None = None,
) -> ClusterLayout:
    """Choose ports and format the directories `data`/node-1, `data`/node-2 and so on.

    The first `voters` nodes (all, up to three) are controllers too. `config` is for all nodes,
    `node_config` for one. With `replicates_topics`, topics get the values of `serve --nodes`.
    `users` are SCRAM users with their passwords. With `security` the nodes have TLS and ACLs.
    """
    controllers = min(nodes, 3) if voters is None else voters
    secured = None if security is None else security.group
    ports = iter(free_ports((2 if secured is None else 3) * nodes))
    planned = [
        PlannedNode(
            node_id=index + 1,
            is_controller=index < controllers,
            host=HOST,
            port=next(ports),
            controller_port=next(ports),
            directory=data / f"node-{index + 1}",
            broker_port=None if secured is None else next(ports),
        )
        for index in range(nodes)
    ]
    topics = replicated_topics(nodes) if replicates_topics else {}
    own_security = {} if secured is None else secured.properties()
    shared = {**internal_topics(min(nodes, 3)), **topics, **own_security, **(config or {})}
    listeners = GroupListeners.of(shared) if secured is None else secured.listeners
    plan = GroupPlan(nodes=planned, shared=shared, listeners=listeners)
    if security is not None:
        security.prepare(plan)
    for _ in format_group(plan, time.time_ns() // 1_000_000, _credentials(users or {})):
        pass
    own = node_config or {}
    return ClusterLayout(
        plan=plan,
        properties={
            node.node_id: {**plan.properties(node), **own.get(node.node_id, {})} for node in planned
        },
    )


def _credentials(users: Mapping[str, str]) -> list[Message]:
    """Return the records of SCRAM users, for each mechanism."""
    return [
        mechanism.credential(salt, salted, ITERATIONS_MIN).record(user, mechanism.code)
        for user, password in users.items()
        for mechanism in SCRAM_MECHANISMS
        for salt in [secrets.token_bytes(_SALT_BYTES)]
        for salted in [mechanism.salted_password(password, salt, ITERATIONS_MIN)]
    ]
