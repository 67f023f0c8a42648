"""TLS on one listener: handshakes, the principals of certificates, and renewed certificates."""

import logging
import os
import socket
import ssl
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import trio

from barnabas.config import ConfigError, NodeConfig
from barnabas.config.listener_values import listener_property, listener_value
from barnabas.security.certificates import read_certificate
from barnabas.security.distinguished_names import distinguished_name
from barnabas.security.principal_mapping import NoRuleMatchesError
from barnabas.security.principals import ANONYMOUS, USER, Principal
from barnabas.server.transport.connection import OpeningError
from barnabas.server.transport.tls_settings import RELOADED, TlsSettings, load_tls
from barnabas.server.transport.waiting_clients import (
    FailureLog,
    WaitingClients,
    printable,
)
from barnabas.sockets.file_ranges import ReadAhead
from barnabas.sockets.tls_stream import RECEIVE_BYTES, TlsStream

if TYPE_CHECKING:
    from barnabas.server.transport.connection import Connection
    from barnabas.server.transport.outgoing_tls import OutgoingTls

logger = logging.getLogger(__name__)

_WARN_BEFORE_END: Final = timedelta(days=30)
_DAY_S: Final = 86_400
# The steps of handshakes in one turn of the loop: each may sign, and connected clients would wait
# for all handshakes that begin at once.
_STEPS_OF_A_TURN: Final = 4
# What OpenSSL says when the first bytes are not a TLS record.
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST"})


class TlsListener:
    """The TLS of a listener. New connections use the newest settings that could be loaded."""

    def __init__(self, config: NodeConfig, listener: str) -> None:
        """Load the settings. Raises ConfigError when they cannot be used."""
        self._listener = listener
        self._files = _file_states(config, listener)
        self._settings = load_tls(config, listener)
        self._scratch = memoryview(bytearray(RECEIVE_BYTES))
        self._waiting = WaitingClients(config.get_int("barnabas.unauthenticated.connections.max"))
        self._turns = trio.CapacityLimiter(_STEPS_OF_A_TURN)
        self.failures = FailureLog()
        self.failed_reloads = 0
        self.outgoing: OutgoingTls | None = None
        """TLS of this node's connections to the same listener of other nodes."""
        self.reloaded_by = tuple(listener_property(listener, name) for name in RELOADED)
        if self.certificate_left < timedelta(0):
            raise ConfigError(
                f"Invalid configuration ssl.keystore.location of listener {listener}: its "
                f"certificate ended on {self._settings.certificate.not_after:%Y-%m-%d}",
                name="ssl.keystore.location",
            )
        self._warn_of_end()

    @property
    def certificate_left(self) -> timedelta:
        """The time until the end of the certificate; it is negative after it."""
        return self._settings.certificate.not_after - datetime.now(UTC)

    async def warn_daily(self) -> None:
        """Warn each day of a certificate that ends soon."""
        while True:
            await trio.sleep(_DAY_S)
            self._warn_of_end()

    @property
    def context(self) -> ssl.SSLContext:
        """The context of new connections."""
        return self._settings.context

    def stream(self, sock: socket.socket, read_ahead: ReadAhead) -> TlsStream:
        """Return the stream of an accepted socket."""
        return TlsStream(sock, self._settings.context, read_ahead, self._scratch)

    def begin(self, connection: "Connection") -> None:
        """Count an accepted connection until `open` ends; close the oldest of too many.

        It is called as connections are accepted, because their tasks start in any order. A login
        counts its own connections.
        """
        self._waiting.add(connection)

    async def open(self, connection: "Connection") -> None:
        """Shake hands, and take the client's principal from its certificate.

        Raises OpeningError when that fails, and OSError when the connection ends.
        """
        try:
            der = await self._shake_hands(connection)
            if connection.login is None:  # otherwise SASL decides who the client is
                connection.principal = ANONYMOUS if der is None else self._principal(der)
        finally:
            self._waiting.remove(connection)

    async def _shake_hands(self, connection: "Connection") -> bytes | None:
        """Return the certificate that the client shows, in DER. Raises as `open`."""
        stream = connection.stream
        if not isinstance(stream, TlsStream):
            raise TypeError("a connection of a listener with TLS has a plain stream")
        try:
            await stream.handshake(self._turns)
        except ssl.SSLError as error:
            raise OpeningError(f"TLS handshake failed: {_reason(error)}", self.failures) from None
        return stream.peer_certificate

    def _principal(self, der: bytes) -> Principal:
        """Return the principal of a client's certificate. Raises OpeningError."""
        try:
            subject = distinguished_name(read_certificate(der).subject)
            return Principal(USER, self._settings.mapping.name(subject))
        except NoRuleMatchesError as error:
            raise OpeningError(printable(str(error)), self.failures) from None
        except ValueError as error:
            raise OpeningError(
                f"the client's certificate cannot be read: {error}", self.failures
            ) from None

    def reload(self, config: NodeConfig) -> None:
        """Read the stores again, for new connections; the old settings stay when that fails."""
        self._files = _file_states(config, self._listener)
        try:
            renewed = load_tls(config, self._listener)
            self._check_renewed(config, renewed)
            if self.outgoing is not None:
                self.outgoing.renew(config, self.context, renewed.context)
        except ConfigError as error:
            self.failed_reloads += 1
            logger.error(
                "cannot renew the TLS settings, the old ones stay listener=%s reason=%s",
                self._listener,
                error,
            )
            return
        self._settings = renewed
        logger.info(
            "renewed the TLS settings listener=%s certificate_ends=%s",
            self._listener,
            renewed.certificate.not_after.date(),
        )
        self._warn_of_end()

    def reload_changed_files(self, config: NodeConfig) -> None:
        """Read the stores again when a file was replaced since they were read."""
        if _file_states(config, self._listener) != self._files:
            self.reload(config)

    def _check_renewed(self, config: NodeConfig, renewed: TlsSettings) -> None:
        """Raise ConfigError when the new certificate names something else, as Kafka does."""
        old, new = self._settings.certificate, renewed.certificate
        if new.not_after < datetime.now(UTC):
            raise _refused(f"the new certificate ended on {new.not_after:%Y-%m-%d}")
        if old.subject != new.subject and not config.get_bool("ssl.allow.dn.changes"):
            raise _refused(
                f"Keystore DistinguishedName does not match: "
                f"existing={distinguished_name(old.subject)}, "
                f"new={distinguished_name(new.subject)} (ssl.allow.dn.changes allows it)"
            )
        if not old.alternative_names <= new.alternative_names and not config.get_bool(
            "ssl.allow.san.changes"
        ):
            raise _refused(
                "Keystore SubjectAltNames do not match: the new certificate lacks names of the "
                "old one (ssl.allow.san.changes allows it)"
            )

    def _warn_of_end(self) -> None:
        left = self.certificate_left
        if left < timedelta(0):
            logger.error("the certificate has ended listener=%s", self._listener)
        elif left < _WARN_BEFORE_END:
            logger.warning(
                "the certificate ends soon listener=%s days=%d", self._listener, left.days
            )


def _file_states(config: NodeConfig, listener: str) -> tuple[object, ...]:
    """Return what changes when a store of the listener is replaced."""
    states: list[object] = []
    for name in ("ssl.keystore.location", "ssl.truststore.location"):
        path = listener_value(config, listener, name)
        try:
            found = None if path is None else os.stat(str(path))
        except OSError:
            found = None
        states.append(found and (found.st_mtime_ns, found.st_size, found.st_ino))
    return tuple(states)


def _refused(reason: str) -> ConfigError:
    return ConfigError(reason, name="ssl.keystore.location")


def _reason(error: ssl.SSLError) -> str:
    """Return why a handshake failed, with a hint where the client does not speak TLS."""
    reason = error.reason or str(error)
    if reason in _NOT_TLS:
        return (
            f"{reason}: the client does not speak TLS (does its security.protocol match the "
            "listener?)"
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{reason}: {error.verify_message}"
    return reason
