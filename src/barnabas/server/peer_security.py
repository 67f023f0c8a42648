"""TLS and credentials, which connections to other nodes get in addition to their own settings."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from barnabas.client.client_config import ClientConfig

Secured: TypeAlias = "Callable[[ClientConfig], ClientConfig]"
"""Adds TLS and credentials to the settings of a connection.

Raises AuthenticationError (a ClientError) when the node's configuration has none.
"""


def plain(config: "ClientConfig") -> "ClientConfig":
    """Return the settings as they are, for a listener with the protocol PLAINTEXT."""
    return config
