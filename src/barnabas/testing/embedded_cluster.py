"""An in-process cluster: `with Cluster(nodes=3) as cluster: ...cluster.bootstrap...`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from barnabas.cluster.metadata.image import PartitionImage
from barnabas.testing.cluster_context import ClusterContext
from barnabas.testing.embedded_node import Node
from barnabas.testing.eventually import wait_until


class Cluster(ClusterContext[Node]):
    """Several nodes of one cluster in this process, each in a thread with its own event loop.

    The first three nodes are voters of the quorum. `config` holds properties of all nodes,
    `node_config` those of one node. With `replicates_topics`, a topic that is created without
    settings survives the loss of a node. With `security` the nodes have TLS, users and ACLs. Ports
    stay over `kill` and `restart`. Without `data` the directories are temporary and removed by
    `close`.
    """

    def _make_node(self, directory: Path, properties: Mapping[str, str]) -> Node:
        return Node(directory, properties)

    @property
    def running(self) -> dict[int, Node]:
        """The nodes that run, by id."""
        return {node_id: node for node_id, node in self.nodes.items() if node.server is not None}

    def start(self) -> Self:
        """Start all nodes; return once all serve clients and know each other.

        Raises the error that prevented it.
        """
        for node in self.nodes.values():
            node.launch()
        try:
            for node in self.nodes.values():
                node.wait_ready()
            wait_until(self._is_known_everywhere)
            self._add_users()
        except BaseException:
            for node in self.nodes.values():
                node.kill()
            raise
        return self

    def _is_known_everywhere(self) -> bool:
        """True when each node has all brokers in its metadata, active.

        Clients drop their connections to a broker that another one does not know yet.
        """
        servers = [self.nodes[node_id].server for node_id in self.broker_ids]
        images = [server.image for server in servers if server is not None]
        return all(image.active_brokers >= self.broker_ids for image in images)

    def stop(self, node_id: int) -> None:
        """Stop one node cleanly: its leaderships move to the others first."""
        self.nodes[node_id].stop()

    def kill(self, node_id: int) -> None:
        """Stop one node abruptly, without a flush and a marker."""
        self.nodes[node_id].kill()

    def restart(self, node_id: int) -> None:
        """Start a node that was stopped or killed, on its data and ports."""
        self.nodes[node_id].start()

    def partition(self, topic: str, partition: int) -> PartitionImage:
        """Return the newest state of a partition that a running node knows.

        Raises KeyError for an unknown partition.
        """
        servers = [node.server for node in self.nodes.values() if node.server is not None]
        image = max((server.image for server in servers), key=lambda image: image.offset)
        return image.topics_by_name[topic].partitions[partition]

    def leader_of(self, topic: str, partition: int) -> int:
        """Return the id of a partition's leader, -1 without one. Raises KeyError."""
        return self.partition(topic, partition).leader

    def wait_in_sync(self, topic: str, partition: int, timeout_s: float = 60) -> None:
        """Wait until all replicas of a partition are in sync. Raises TimeoutError."""

        def is_complete() -> bool:
            state = self.partition(topic, partition)
            return set(state.isr) == set(state.replicas)

        wait_until(is_complete, timeout_s)

    def close(self) -> None:
        """Stop the nodes that run, and remove temporary data."""
        try:
            for node in reversed(self.nodes.values()):
                node.kill()
        finally:
            self._remove_temporary_data()
