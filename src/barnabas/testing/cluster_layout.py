"""The layout of a cluster for tests: free ports, formatted directories, properties of each node."""

import random
import socket
import time
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Final

import attrs

from barnabas.server.node_group.group_directories import format_group
from barnabas.server.node_group.group_plan import GroupPlan, PlannedNode, internal_topics

HOST: Final = "127.0.0.1"
_PORTS: Final = range(20_000, 32_000)


def free_ports(count: int, excluding: Container[int] = ()) -> list[int]:
    """Return different free ports of 127.0.0.1, none of those in `excluding`.

    They are below the range from which the system takes the ports of outgoing connections.
    """
    found: list[int] = []
    # Its own generator: hypothesis gives the shared one the same seed in every process.
    for port in random.Random().sample(_PORTS, len(_PORTS)):
        if len(found) == count:
            break
        if port in excluding:
            continue
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        found.append(port)
    return found


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
    config: Mapping[str, str] | None = None,
    node_config: Mapping[int, Mapping[str, str]] | None = None,
) -> ClusterLayout:
    """Choose ports and format the directories `data`/node-1, `data`/node-2 and so on.

    The first `voters` nodes (all, up to three) are controllers too. `config` is for all nodes,
    `node_config` for one.
    """
    controllers = min(nodes, 3) if voters is None else voters
    ports = free_ports(2 * nodes)
    planned = [
        PlannedNode(
            node_id=index + 1,
            is_controller=index < controllers,
            host=HOST,
            port=ports[2 * index],
            controller_port=ports[2 * index + 1],
            directory=data / f"node-{index + 1}",
        )
        for index in range(nodes)
    ]
    shared = {**internal_topics(min(nodes, 3)), **(config or {})}
    plan = GroupPlan(nodes=planned, shared=shared)
    for _ in format_group(plan, time.time_ns() // 1_000_000):
        pass
    own = node_config or {}
    return ClusterLayout(
        plan=plan,
        properties={
            node.node_id: {**plan.properties(node), **own.get(node.node_id, {})} for node in planned
        },
    )
