"""A cluster for tests, whose nodes are of any kind."""

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Generic, TypeVar

from barnabas.testing.cluster_layout import lay_out
from barnabas.testing.node_security import (
    ADMIN,
    ClusterSecurity,
    Security,
    client_config,
    java_config,
)
from barnabas.testing.server_context import ServerContext

_ROLES: Final = "process.roles"

NodeT = TypeVar("NodeT")


class ClusterContext(ServerContext, Generic[NodeT]):
    """Several nodes of one cluster, by id.

    The first three nodes are voters of the quorum. `config` holds properties of all nodes,
    `node_config` those of one node. With `replicates_topics` and three or more nodes, a topic that
    is created without settings has three replicas and `min.insync.replicas=2`. `users` are SCRAM
    users of the new cluster, with their passwords. `client` has the properties with which a client
    connects, where the listeners have TLS or SASL. With `security` the nodes have TLS, users and
    ACLs as those of `barnabas serve --secure --nodes`, and neither `users` nor `client` is needed.
    Raises ValueError for less than one node.
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
        security: Security | None = None,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"nodes={nodes}: a cluster has at least one node")
        super().__init__(data)
        self._security = None if security is None else ClusterSecurity(self.data, security)
        self._client = dict(client or {})
        self.layout = lay_out(
            nodes,
            self.data,
            voters=voters,
            replicates_topics=replicates_topics,
            config=config,
            node_config=node_config,
            users=users,
            security=self._security,
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
    def client(self) -> dict[str, str]:
        """The properties with which the cluster's own client connects, none for PLAINTEXT.

        Raises ConfigError before the first start of a cluster with `security`.
        """
        return dict(self._client) if self._security is None else self.client_config()

    def client_config(self, user: str = ADMIN) -> dict[str, str]:
        """Return the settings of a user's client, for librdkafka and clients built on it.

        Raises ConfigError when a cluster with `security` has no such user.
        """
        if self._security is None:
            return {**self._client, "bootstrap.servers": self.bootstrap}
        return client_config(self._security.group.files, user)

    def java_config(self, user: str = ADMIN) -> dict[str, str]:
        """Return the settings of a user's client under Java's names. Raises as `client_config`."""
        if self._security is None:
            return {"bootstrap.servers": self.bootstrap}
        return java_config(self._security.group.files, user)

    def _add_users(self) -> None:
        """Add the users of a cluster with `security`, once its nodes serve clients."""
        if self._security is not None:
            self._security.add_users()

    @property
    def bootstrap(self) -> str:
        """The value of `bootstrap.servers` for clients: the addresses of all nodes."""
        return self.layout.bootstrap
