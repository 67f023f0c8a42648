"""The security of a group's nodes that one option decides: TLS, users and ACLs.

Clients connect as to a single secured node (`secured_node`). Brokers and controllers show each
other a certificate that only the nodes have, on listeners of this machine. The files are those of a
single node and this certificate, in the directory of the group.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.config import ConfigError, NodeConfig
from barnabas.log.checkpoints import META_PROPERTIES
from barnabas.server.node.secured_files import NODES_SUBJECT, SecuredFiles
from barnabas.server.node.secured_node import LISTENER, client_names, client_properties
from barnabas.server.node.secured_users import ADMIN, OnPassword, SecuredUser, SecuredUsers
from barnabas.server.node_failures import StartupError
from barnabas.server.node_group.group_plan import GroupListeners, GroupPlan

if TYPE_CHECKING:
    from barnabas.client import ClientConfig

SECURED_LISTENERS: Final = GroupListeners(LISTENER, "CONTROLLER", "NODES")
_NODES_USER: Final = "barnabas-nodes"
_BETWEEN_NODES: Final = ("NODES", "CONTROLLER")


class SecuredGroup:
    """The security of a group whose nodes have their directories in one directory."""

    def __init__(
        self,
        directory: Path,
        users: Sequence[SecuredUser] = (),
        on_password: OnPassword | None = None,
    ) -> None:
        self.files = SecuredFiles(directory)
        self.listeners = SECURED_LISTENERS
        self._users = SecuredUsers(self.files, users, on_password)

    def properties(self) -> dict[str, str]:
        """Return the properties that all nodes share. They name files, and have no secrets."""
        protocols = (f"{LISTENER}:{LISTENER}", *(f"{name}:SSL" for name in _BETWEEN_NODES))
        found = {
            **client_properties(self.files),
            "listener.security.protocol.map": ",".join(protocols),
            "inter.broker.listener.name": "NODES",
            "super.users": f"User:{ADMIN};User:{_NODES_USER}",
        }
        for name in _BETWEEN_NODES:
            own = {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.files.nodes_key),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.files.authority),
                "ssl.client.auth": "required",
                # Without DEFAULT: any other certificate of the authority is refused.
                "ssl.principal.mapping.rules": f"RULE:^CN={NODES_SUBJECT}$/{_NODES_USER}/",
            }
            found.update({f"listener.name.{name.lower()}.{key}": own[key] for key in own})
        return found

    def prepare_certificates(self, configs: Iterable[NodeConfig]) -> None:
        """Make what the nodes need to start. Raises ConfigError and OSError."""
        if (self.files.directory / META_PROPERTIES).exists():
            raise ConfigError(
                f"{self.files.directory} is the directory of a single node: start it without "
                "--nodes, or choose another --data"
            )
        self.files.prepare_group_certificates(client_names(configs))

    async def add_users(self, plan: GroupPlan, configs: Iterable[NodeConfig]) -> None:
        """Add the users that have no file yet, and write the files of all.

        The requests go to the running nodes, with their own certificate. Raises StartupError,
        ConfigError and OSError.
        """
        from barnabas.client import ClientError, open_client

        bootstrap = _client_addresses(configs)
        async with open_client(self._nodes_client(plan)) as client:
            try:
                await client.retry(
                    "adding the users",
                    lambda: self._users.prepare(client.ask_controller, bootstrap),
                )
            except ClientError as error:
                raise StartupError(f"cannot add the users: {error}") from None

    def _nodes_client(self, plan: GroupPlan) -> "ClientConfig":
        """Return the settings of a client that is a node."""
        from barnabas.client import ClientConfig

        return ClientConfig.from_properties(
            {
                "bootstrap.servers": ",".join(node.broker_address for node in plan.nodes),
                "security.protocol": "SSL",
                "ssl.truststore.location": str(self.files.authority),
                "ssl.keystore.location": str(self.files.nodes_key),
            }
        )


def _client_addresses(configs: Iterable[NodeConfig]) -> str:
    """Return the addresses of all nodes for the clients' files: the advertised ones."""
    endpoints = [
        endpoint
        for config in configs
        for endpoint in config.advertised_listeners
        if endpoint.name == LISTENER
    ]
    return ",".join(
        f"[{endpoint.host}]:{endpoint.port}"
        if ":" in endpoint.host
        else f"{endpoint.host}:{endpoint.port}"
        for endpoint in endpoints
    )
