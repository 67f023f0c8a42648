"""A node that is secured by one option: TLS, users with SCRAM, and ACLs.

The listener for clients is SASL_SSL, the authorizer is on, and `admin` is the super user. The
certificate is made at the first start, and each user gets a random password and ready files for its
clients (`SecuredFiles`). A user whose file was removed gets a new password at the next start: this
is also the way back for an administrator who cannot log in.
"""

import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from barnabas.config import ConfigError, NodeConfig, properties_file
from barnabas.server.node.initial_users import MECHANISM, Grant, InitialUser, add_user
from barnabas.server.node.secured_files import SecuredFiles

if TYPE_CHECKING:
    from barnabas.server.node.node import Node

ADMIN: Final = "admin"
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
"""The properties that this module sets."""

_WILDCARDS: Final = ("", "0.0.0.0", "::")
_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_PASSWORD_BYTES: Final = 24


@attrs.frozen
class SecuredUser:
    """A user of the node: what it may do, and a file whose properties its file has too."""

    name: str
    grants: Sequence[Grant] = ()
    extra: Path | None = None


class SecuredNode:
    """The security of a node whose data is in a directory.

    `on_password` gets the administrator's password, and True when it is new.
    """

    def __init__(
        self,
        directory: Path,
        users: Sequence[SecuredUser] = (),
        on_password: Callable[[str, bool], None] | None = None,
    ) -> None:
        self.files = SecuredFiles(directory)
        self._users = (SecuredUser(ADMIN), *users)
        self._on_password = on_password

    def properties(self, host: str, port: int) -> dict[str, str]:
        """Return the node's properties, with its listener for clients at an address."""
        near = port + 1 if 0 < port < 65535 else 0
        shown = f"[{host}]" if ":" in host else host
        jaas = f"listener.name.{LISTENER.lower()}.{MECHANISM.name.lower()}.sasl.jaas.config"
        return {
            "process.roles": "broker,controller",
            "listeners": f"{LISTENER}://{shown}:{port},CONTROLLER://127.0.0.1:{near}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": LISTENER,
            "sasl.enabled.mechanisms": MECHANISM.name,
            jaas: "org.apache.kafka.common.security.scram.ScramLoginModule required;",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.files.node_key),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN}",
        }

    def prepare_certificate(self, config: NodeConfig) -> None:
        """Make what the node needs to start. Raises ConfigError and OSError."""
        self.files.prepare_certificate(_names(config))

    async def prepare(self, node: "Node") -> None:
        """Add the users that have no file yet, and write the files of all.

        Raises StartupError, ConfigError and OSError. A file is written after its user is added: a
        node that is killed between the two gives the user another password at the next start.
        """
        bootstrap = _bootstrap(node)
        for user in self._users:
            password = self.files.password(user.name)
            is_new = password is None
            if password is None:
                password = secrets.token_urlsafe(_PASSWORD_BYTES)
                await add_user(node, InitialUser(user.name, password, user.grants))
            extra: Mapping[str, str] = properties_file.read(user.extra) if user.extra else {}
            self.files.write_client_files(user.name, password, bootstrap, extra)
            if user.name == ADMIN and self._on_password is not None:
                self._on_password(password, is_new)


def refuse_decided(given: Mapping[str, str]) -> None:
    """Raise ConfigError for a property that a secured node sets itself."""
    for name in DECIDED:
        if name in given:
            raise ConfigError(
                f"Invalid --set {name}: --secure sets this property; without --secure all "
                "properties of security can be set (docs/security.md)",
                name=name,
            )


def _names(config: NodeConfig) -> list[str]:
    """Return the names and addresses that clients may connect to."""
    hosts = [each.host for each in (*config.advertised_listeners, *config.broker_listeners)]
    found = [host for host in hosts if host not in _WILDCARDS]
    return list(dict.fromkeys([*found, *_LOOPBACK_NAMES, socket.gethostname()]))


def _bootstrap(node: "Node") -> str:
    """Return the address for the clients' files: the advertised one."""
    endpoints = node.advertised(node.config.advertised_listeners)
    endpoint = next(each for each in endpoints if each.name == LISTENER)
    shown = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{shown}:{endpoint.port}"
