"""A cluster for tests, whose nodes are of any kind."""

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Generic, TypeVar

from barnabas.testing.cluster_layout import lay_out
from barnabas.testing.server_context import ServerContext

_ROLES: Final = "process.roles"

NodeT = TypeVar("NodeT")


class ClusterContext(ServerContext, Generic[NodeT]):
    """Several nodes of one cluster, by id.

    The first three nodes are voters of the quorum. `config` holds properties of all nodes,
    `node_config` those of one node. With `replicates_topics` and three or more nodes, a topic that
    is created without settings has three replicas and `min.insync.replicas=2`. `users` are SCRAM
    users of the new cluster, with their passwords. `client` has the properties with which a client
    connects, where the listeners have TLS or SASL.
    """

    def __init__(
        self,
        nodes: int = 3,
        data: str | Path | None = None,
        config: Mapping[str, str] | None = None,
        node_config: Mapping[int, Mapping[str, str]] | None = None,
        *,
        voters: int | None = None,
        replicates_topics: bool = False,
        users: Mapping[str, str] | None = None,
        client: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(data)
        self.client = dict(client or {})
        self.layout = lay_out(
            nodes,
            self.data,
            voters=voters,
            replicates_topics=replicates_topics,
            config=config,
            node_config=node_config,
            users=users,
        )
        self.nodes: dict[int, NodeT] = {
            node.node_id: self._make_node(node.directory, self.layout.properties[node.node_id])
            for node in self.layout.plan.nodes
        }

    @abstractmethod
    def _make_node(self, directory: Path, properties: Mapping[str, str]) -> NodeT:
        """Return a node that does not run yet."""

    @property
    def broker_ids(self) -> set[int]:
        """The ids of the nodes with the role broker."""
        properties = self.layout.properties
        return {node_id for node_id in self.nodes if "broker" in properties[node_id][_ROLES]}

    @property
    def bootstrap(self) -> str:
        """The value of `bootstrap.servers` for clients: the addresses of all nodes."""
        return self.layout.bootstrap
