"""A cluster of separate processes, for tests that kill, suspend and restart nodes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from barnabas.testing.cluster_context import ClusterContext
from barnabas.testing.known_brokers import wait_until_known
from barnabas.testing.node_process_control import NodeProcess
from barnabas.testing.process_group import kill_together, start_together


class ClusterProcess(ClusterContext[NodeProcess]):
    """Several `barnabas serve` processes of one cluster; ports and data stay over restarts.

    The first three nodes are voters of the quorum. `config` holds properties of all nodes,
    `node_config` those of one node. `nodes[1].kill()` kills a node, `nodes[1].start()` starts it
    again, `nodes[1].log` has the lines of all its starts.
    """

    def _make_node(self, directory: Path, properties: Mapping[str, str]) -> NodeProcess:
        return NodeProcess(directory, properties)

    def start(self) -> Self:
        """Start the nodes that do not run; return once all serve clients and name each other.

        Raises RuntimeError with the log of a node that does not start.
        """
        launched = {i: node for i, node in self.nodes.items() if not node.is_running}
        start_together(launched.values())
        self._add_users()
        brokers = {i: launched[i].bootstrap for i in launched.keys() & self.broker_ids}
        wait_until_known(brokers, self.client)
        return self

    def kill_all(self) -> None:
        """End all nodes at once (SIGKILL)."""
        kill_together(self.nodes.values())

    def stop(self) -> dict[int, int]:
        """Stop the nodes that run, the last first; return their exit codes."""
        return {
            node_id: node.stop()
            for node_id, node in reversed(self.nodes.items())
            if node.is_running
        }

    def close(self) -> None:
        """Kill the nodes that run, and remove temporary data."""
        self.kill_all()
        self._remove_temporary_data()
