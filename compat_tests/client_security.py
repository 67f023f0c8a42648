"""The security with which clients of these tests connect, by the address of the server.

Steps and loads know a cluster by its addresses, so that the same code runs with and without
security: `protect` states once what the servers at some addresses ask of their clients, and each
client takes its settings from here.
"""

import secrets
import socket
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import attrs

from barnabas.client.core.sasl_exchange import start_exchange
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest

_PROTOCOL: Final = "SASL_SSL"
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


@attrs.frozen
class ClientSecurity:
    """A user of SASL_SSL, and the certificate authority of the servers."""

    username: str
    password: str
    authority: Path
    mechanism: str = "SCRAM-SHA-512"

    def librdkafka(self) -> dict[str, str]:
        """Return the settings of librdkafka, and of clients built on it."""
        return {
            "security.protocol": _PROTOCOL,
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.username,
            "sasl.password": self.password,
            "ssl.ca.location": str(self.authority),
        }

    def java(self) -> dict[str, str]:
        """Return the settings of Java's clients."""
        user = f'username="{self.username}" password="{self.password}"'
        return {
            "security.protocol": _PROTOCOL,
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": f"{_SCRAM_MODULE} required {user};",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
        }

    def kafka_python(self) -> dict[str, Any]:
        """Return the settings of kafka-python."""
        return {**self._python(), "ssl_cafile": str(self.authority)}

    def aiokafka(self) -> dict[str, Any]:
        """Return the settings of aiokafka."""
        return {**self._python(), "ssl_context": self._context()}

    def tls(self, plain: socket.socket, host: str) -> ssl.SSLSocket:
        """Return a connection after its TLS handshake."""
        return self._context().wrap_socket(plain, server_hostname=host)

    def log_in(self, connection: Any) -> None:
        """Authenticate a raw connection (`wire.Connection`)."""
        answer = connection.call(SaslHandshakeRequest(mechanism=self.mechanism), 1)
        assert not answer.error_code, answer
        nonce = secrets.token_urlsafe(18)
        exchange = start_exchange(self.mechanism, self.username, self.password, nonce)
        token: bytes | None = exchange.first()
        while token is not None:
            answer = connection.call(SaslAuthenticateRequest(auth_bytes=token), 2)
            assert not answer.error_code, answer
            token = exchange.respond(bytes(answer.auth_bytes))

    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority))

    def _python(self) -> dict[str, Any]:
        return {
            "security_protocol": _PROTOCOL,
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
        }


_protected: dict[str, ClientSecurity] = {}


def protect(addresses: Iterable[str], security: ClientSecurity) -> None:
    """State what the servers at these addresses ask of their clients."""
    _protected.update(dict.fromkeys(addresses, security))


def security_of(bootstrap: str) -> ClientSecurity | None:
    """Return what the servers at these addresses ask of their clients; None for PLAINTEXT."""
    return _protected.get(bootstrap.partition(",")[0])


def credentials(bootstrap: str) -> dict[str, str]:
    """Return the security of librdkafka's settings; empty for PLAINTEXT."""
    security = security_of(bootstrap)
    return security.librdkafka() if security else {}


def librdkafka(bootstrap: str) -> dict[str, str]:
    """Return the settings with which librdkafka connects."""
    return {"bootstrap.servers": bootstrap, **credentials(bootstrap)}


def kafka_python(bootstrap: str) -> dict[str, Any]:
    """Return the settings with which kafka-python connects."""
    security = security_of(bootstrap)
    own = security.kafka_python() if security else {}
    return {"bootstrap_servers": bootstrap.split(","), **own}


def aiokafka(bootstrap: str) -> dict[str, Any]:
    """Return the settings with which aiokafka connects."""
    security = security_of(bootstrap)
    return {"bootstrap_servers": bootstrap, **(security.aiokafka() if security else {})}


def java(bootstrap: str) -> dict[str, str]:
    """Return the settings with which Java's clients connect."""
    security = security_of(bootstrap)
    return {"bootstrap.servers": bootstrap, **(security.java() if security else {})}
