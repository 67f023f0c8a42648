"""TLS of this node's connections to one listener of other nodes.

Where the node has the listener itself, its own two ends must accept each other: all nodes of a
cluster are configured alike, so one that refuses itself would refuse all. Kafka checks the same for
the inter-broker listener.
"""

import logging
import ssl
from typing import TYPE_CHECKING, Final

import attrs

from barnabas.config import ConfigError, NodeConfig
from barnabas.server.transport.tls_settings import load_client_tls

if TYPE_CHECKING:
    from barnabas.server.transport.tls_listener import TlsListener

logger = logging.getLogger(__name__)

_ROUNDS_MAX: Final = 10


@attrs.frozen
class _Contexts:
    """The context of connections, and one without the check of names, for tests of trust."""

    connecting: ssl.SSLContext
    testing: ssl.SSLContext


class OutgoingTls:
    """New connections use the newest settings that could be loaded.

    `own` is the listener of the same name on this node, None where the node has none: then its
    stores are renewed here.
    """

    def __init__(self, config: NodeConfig, listener: str, own: "TlsListener | None") -> None:
        """Load the settings. Raises ConfigError when they cannot be used."""
        self._listener = listener
        self._contexts = _load(config, listener)
        self.has_own_listener = own is not None
        if own is not None:
            check_trust(self._contexts.testing, own.context, listener)
            own.outgoing = self

    def context(self) -> ssl.SSLContext:
        """Return the context of a new connection."""
        return self._contexts.connecting

    def renew(self, config: NodeConfig, old: ssl.SSLContext, new: ssl.SSLContext) -> None:
        """Load the stores again, as the node's listener of the same name does.

        `old` and `new` are the contexts of the listener. Raises ConfigError, and keeps the old
        stores, when renewed nodes and others would not accept each other.
        """
        contexts = _load(config, self._listener)
        for client, server in (
            (contexts.testing, new),
            (contexts.testing, old),
            (self._contexts.testing, new),
        ):
            check_trust(client, server, self._listener)
        self._contexts = contexts

    def reload(self, config: NodeConfig) -> None:
        """Read the stores again, for new connections; the old ones stay when that fails."""
        try:
            self._contexts = _load(config, self._listener)
        except ConfigError as error:
            logger.error(
                "cannot renew the TLS settings, the old ones stay listener=%s reason=%s",
                self._listener,
                error,
            )
        else:
            logger.info("renewed the TLS settings of connections to listener=%s", self._listener)


def _load(config: NodeConfig, listener: str) -> _Contexts:
    return _Contexts(
        load_client_tls(config, listener), load_client_tls(config, listener, checks_name=False)
    )


def check_trust(client: ssl.SSLContext, server: ssl.SSLContext, listener: str) -> None:
    """Raise ConfigError unless a client and a server with these contexts accept each other."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_side=False),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    try:
        for _ in range(_ROUNDS_MAX):
            done = [_is_done(end) for end in ends]
            if all(done):
                return
    except ssl.SSLError as error:
        reason = error.reason or str(error)
        if isinstance(error, ssl.SSLCertVerificationError):
            reason = f"{reason}: {error.verify_message}"
    else:
        reason = "the handshake does not end"
    raise ConfigError(
        f"Invalid configuration ssl.truststore.location of listener {listener}: nodes could not "
        f"connect to each other, as the key store and the trust store of this node do not fit "
        f"({reason}); the trust store needs the authority of the key store's certificate, and "
        "while stores are replaced the authorities of both",
        name="ssl.truststore.location",
    )


def _is_done(end: ssl.SSLObject) -> bool:
    """Advance a handshake; True when this end has completed it."""
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
