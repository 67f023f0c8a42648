"""A node that is secured by one option: TLS, users with SCRAM, and ACLs.

The listener for clients is SASL_SSL, the authorizer is on, and `admin` is the super user. The
certificate is made at the first start, and each user gets a password (`SecuredUsers`) and files
(`SecuredFiles`).
"""

import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.config import ConfigError, NodeConfig
from barnabas.server.node.initial_users import MECHANISM
from barnabas.server.node.secured_files import SecuredFiles
from barnabas.server.node.secured_users import ADMIN, OnPassword, SecuredUser, SecuredUsers

if TYPE_CHECKING:
    from barnabas.server.node.node import Node

LISTENER: Final = "SASL_SSL"
DECIDED: Final = (
    "listeners",
    "listener.security.protocol.map",
    "inter.broker.listener.name",
    "controller.listener.names",
    "process.roles",
    "sasl.enabled.mechanisms",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "authorizer.class.name",
    "super.users",
)
"""The properties that a secured node sets by itself, and a secured group too."""

_WILDCARDS: Final = ("", "0.0.0.0", "::")
_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")


class SecuredNode:
    """The security of a node whose data is in a directory."""

    def __init__(
        self,
        directory: Path,
        users: Sequence[SecuredUser] = (),
        on_password: OnPassword | None = None,
    ) -> None:
        self.files = SecuredFiles(directory)
        self._users = SecuredUsers(self.files, users, on_password)

    def properties(self, host: str, port: int) -> dict[str, str]:
        """Return the node's properties, with its listener for clients at an address."""
        near = port + 1 if 0 < port < 65535 else 0
        shown = f"[{host}]" if ":" in host else host
        return {
            **client_properties(self.files),
            "process.roles": "broker,controller",
            "listeners": f"{LISTENER}://{shown}:{port},CONTROLLER://127.0.0.1:{near}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": LISTENER,
            "super.users": f"User:{ADMIN}",
        }

    def prepare_certificate(self, config: NodeConfig) -> None:
        """Make what the node needs to start. Raises ConfigError and OSError."""
        self.files.prepare_certificate(client_names([config]))

    async def prepare(self, node: "Node") -> None:
        """Add the users that have no file yet, and write the files of all (`SecuredUsers`)."""
        await self._users.prepare(node.channel.send, _bootstrap(node))


def client_properties(files: SecuredFiles) -> dict[str, str]:
    """Return the properties of the listener for clients and of the authorizer."""
    jaas = f"listener.name.{LISTENER.lower()}.{MECHANISM.name.lower()}.sasl.jaas.config"
    return {
        "sasl.enabled.mechanisms": MECHANISM.name,
        jaas: "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.node_key),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    }


def refuse_decided(given: Mapping[str, str], more: Iterable[str] = ()) -> None:
    """Raise ConfigError for a property of `DECIDED` or `more`."""
    for name in (*DECIDED, *more):
        if name in given:
            raise ConfigError(
                f"Invalid --set {name}: --secure sets this property; without --secure all "
                "properties of security can be set (docs/security.md)",
                name=name,
            )


def client_names(configs: Iterable[NodeConfig]) -> list[str]:
    """Return the names and addresses that clients of these nodes may connect to."""
    hosts = [
        each.host
        for config in configs
        for each in (*config.advertised_listeners, *config.broker_listeners)
    ]
    found = [host for host in hosts if host not in _WILDCARDS]
    return list(dict.fromkeys([*found, *_LOOPBACK_NAMES, socket.gethostname()]))


def _bootstrap(node: "Node") -> str:
    """Return the address for the clients' files: the advertised one."""
    endpoints = node.advertised(node.config.advertised_listeners)
    endpoint = next(each for each in endpoints if each.name == LISTENER)
    shown = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{shown}:{endpoint.port}"
