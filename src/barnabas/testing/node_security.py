"""A node with TLS, users and ACLs for tests: `with Node(security=Security()) as node: ...`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from barnabas.config import NodeConfig, properties_file

if TYPE_CHECKING:
    from barnabas.server.node.node import Preparation
    from barnabas.server.node.secured_node import SecuredNode

ADMIN: Final = "admin"


@attrs.frozen
class Security:
    """TLS, SCRAM and ACLs, as `barnabas serve --secure` has them.

    `admin` may do everything. Each of `users` can log in, and may do what ACLs allow.
    """

    users: Sequence[str] = ()


class NodeSecurity:
    """The security of one node of a test. A node without it has the plain listener only."""

    def __init__(self, data: Path, security: Security | None) -> None:
        self._secured = None if security is None else _secured(data, security)

    @property
    def listener(self) -> str:
        """The name of the listener for clients."""
        return "PLAINTEXT" if self._secured is None else "SASL_SSL"

    def properties(self) -> dict[str, str]:
        """Return the node's properties, on free ports of 127.0.0.1."""
        if self._secured is None:
            return {"listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"}
        return self._secured.properties("127.0.0.1", 0)

    def preparations(self, config: NodeConfig) -> "Sequence[Preparation]":
        """Make what the node needs, and return what it awaits before it accepts clients."""
        if self._secured is None:
            return ()
        self._secured.prepare_certificate(config)
        return (self._secured.prepare,)

    def client_config(self, user: str) -> dict[str, str]:
        """Return the settings of a user's client. Raises ConfigError when there is no such user."""
        if self._secured is None:
            return {}
        return properties_file.read(self._secured.files.librdkafka_file(user))

    def java_config(self, user: str) -> dict[str, str]:
        """Return a user's settings under Java's names. Raises ConfigError as `client_config`."""
        if self._secured is None:
            return {}
        return properties_file.read(self._secured.files.client_file(user))


def _secured(data: Path, security: Security) -> "SecuredNode":
    """Import what only a secured node needs."""
    from barnabas.server.node.secured_node import SecuredNode, SecuredUser

    return SecuredNode(data, [SecuredUser(name) for name in security.users])
