"""A cluster of separate processes, for tests that kill, suspend and restart nodes."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from barnabas.testing.cluster_layout import lay_out
from barnabas.testing.node_process_control import NodeProcess


class ClusterProcess:
    """Several `barnabas serve` processes of one cluster; ports and data stay over restarts.

    The first three nodes are voters of the quorum. `config` holds properties of all nodes,
    `node_config` those of one node. `nodes[1].kill()` kills a node, `nodes[1].start()` starts it
    again, `nodes[1].log` has the lines of all its starts.
    """

    def __init__(
        self,
        nodes: int = 3,
        data: str | Path | None = None,
        config: Mapping[str, str] | None = None,
        node_config: Mapping[int, Mapping[str, str]] | None = None,
        *,
        voters: int | None = None,
    ) -> None:
        self._temporary = None if data else Path(tempfile.mkdtemp(prefix="barnabas-"))
        self.data = Path(data) if data else Path(str(self._temporary))
        self.layout = lay_out(
            nodes, self.data, voters=voters, config=config, node_config=node_config
        )
        self.nodes: dict[int, NodeProcess] = {
            node.node_id: NodeProcess(node.directory, self.layout.properties[node.node_id])
            for node in self.layout.plan.nodes
        }

    @property
    def bootstrap(self) -> str:
        """The value of `bootstrap.servers` for clients: the addresses of all nodes."""
        return self.layout.bootstrap

    def __enter__(self) -> "ClusterProcess":
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> "ClusterProcess":
        """Start the nodes that do not run; return once all serve clients.

        Raises RuntimeError with the log of a node that does not start.
        """
        launched = [node for node in self.nodes.values() if not node.is_running]
        for node in launched:
            node.launch()
        for node in launched:
            node.wait_ready()
        return self

    def kill_all(self) -> None:
        """End all nodes at once (SIGKILL)."""
        for node in self.nodes.values():
            if node.is_running:
                node.send_kill()
        for node in self.nodes.values():
            node.kill()

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
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
