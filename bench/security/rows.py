"""The rows of the table: each measures one thing on a server with TLS, or our decisions alone."""

import base64
import functools
import hashlib
import hmac
import ssl
import time
from collections.abc import Callable

import attrs

from barnabas.cluster.metadata.acls import (
    Acl,
    AclOperation,
    AclPattern,
    AclPermission,
    AclsImage,
    ResourceType,
)
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.protocol.types import Uuid
from barnabas.security.principals import Principal
from barnabas.security.standard_authorizer import StandardAuthorizer
from bench import rows
from bench.rows import Bench, Figure
from bench.security.servers import HOST, PASSWORD, USER, SecuredServer
from bench.servers import cpu_seconds, memory_bytes
from compat_tests import wire

_CONNECTIONS, _IDLE = 400, 500
_WARM_UP_SCALE = 0.1
_ACLS, _DECISIONS = 10_000, 20_000


def warm_up(server: SecuredServer) -> None:
    """Run every kind of row shortly, so that a just-in-time compiler has compiled."""
    for figures in (over_tls, requests):
        figures(server, _WARM_UP_SCALE)
    connections(server)
    logins(server)


def over_tls(server: SecuredServer, scale: float) -> list[Figure]:
    """Measure librdkafka's throughput over TLS."""
    bench = Bench(server.server, scale, server.tls)
    figures = [*rows.produce(bench, 1000, 1_000_000), *rows.consume(bench)]
    return [attrs.evolve(each, row=f"TLS: {each.row}") for each in figures]


def requests(server: SecuredServer, scale: float) -> list[Figure]:
    """Measure one record a request, in plain text and over TLS."""
    found: list[Figure] = []
    for name, client in (("plain", server.plain), ("TLS", server.tls)):
        bench = Bench(server.server, scale, client)
        figures = [*rows.small_requests(bench, 1, 40_000), *rows.ack_latency(bench)]
        found += [attrs.evolve(each, row=f"{name}: {each.row}") for each in figures]
    return found


def connections(server: SecuredServer, _: float = 1) -> list[Figure]:
    """Measure new TLS connections, one after another, each until its first answer."""
    context = server.context
    return _rate(server, "TLS connections", lambda: _connect(server.tls_port, context).close())


def logins(server: SecuredServer, _: float = 1) -> list[Figure]:
    """Measure logins with SCRAM-SHA-256 on new TLS connections, one after another."""
    context = server.context

    def log_in() -> None:
        with _connect(server.login_port, context) as connection:
            _log_in(connection)

    return _rate(server, "SCRAM logins", log_in)


def idle(server: SecuredServer, _: float = 1) -> list[Figure]:
    """Measure the memory of TLS connections that are idle after their first answer."""
    context = server.context
    before = memory_bytes(server.server)
    kept = [_connect(server.tls_port, context) for _ in range(_IDLE)]
    time.sleep(1)
    grown = memory_bytes(server.server) - before
    for connection in kept:
        connection.close()
    return [Figure("idle TLS connection", "kB", "less", grown / _IDLE / 1e3)]


def decisions() -> list[Figure]:
    """Measure decisions of our authorizer with many ACLs, new ones and cached ones."""
    changes: dict[Uuid, Acl | None] = {
        Uuid(number.to_bytes(16, "big")): Acl(
            ResourceType.TOPIC,
            f"topic-{number}",
            AclPattern.PREFIXED if number % 2 else AclPattern.LITERAL,
            f"User:user-{number % 100}",
            "*",
            AclOperation.READ,
            AclPermission.ALLOW,
        )
        for number in range(1, _ACLS + 1)
    }
    authorizer = StandardAuthorizer(())
    authorizer.load(AclsImage().updated(changes))
    client = Principal("User", "user-7")
    names = [f"topic-{number % _ACLS}" for number in range(0, 7 * _DECISIONS, 7)]
    found: list[Figure] = []
    for kind in ("new", "cached"):
        began = time.perf_counter()
        for name in names:
            authorizer.rule(client, HOST, AclOperation.READ, ResourceType.TOPIC, name)
        each = (time.perf_counter() - began) / len(names)
        found.append(Figure(f"{kind} decision, {_ACLS:,} ACLs", "µs", "less", each * 1e6))
        names = names[:1000] * (_DECISIONS // 1000)
    return found


def _rate(server: SecuredServer, row: str, connect: Callable[[], None]) -> list[Figure]:
    cpu, began = cpu_seconds(server.server), time.perf_counter()
    for _ in range(_CONNECTIONS):
        connect()
    took = time.perf_counter() - began
    cpu = cpu_seconds(server.server) - cpu
    return [
        Figure(row, "per s", "more", _CONNECTIONS / took),
        Figure(f"{row}, server CPU", "ms each", "less", cpu / _CONNECTIONS * 1e3),
    ]


def _connect(port: int, context: ssl.SSLContext) -> wire.Connection:
    connection = wire.Connection(f"{HOST}:{port}")
    connection.socket = context.wrap_socket(connection.socket, server_hostname=HOST)
    connection.call(ApiVersionsRequest(), 0)
    return connection


def _log_in(connection: wire.Connection) -> None:
    """Log in as RFC 5802 says. Raises AssertionError when the server refuses."""
    connection.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    first = f"n={USER},r={time.monotonic_ns()}"
    challenge = _exchange(connection, f"n,,{first}")
    fields = dict(part.split("=", 1) for part in challenge.split(","))
    key, stored = _client_keys(fields["s"], int(fields["i"]))
    final = f"c=biws,r={fields['r']}"
    signature = hmac.digest(stored, f"{first},{challenge},{final}".encode(), "sha256")
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    _exchange(connection, f"{final},p={base64.b64encode(proof).decode()}")


def _exchange(connection: wire.Connection, message: str) -> str:
    answer = connection.call(SaslAuthenticateRequest(auth_bytes=message.encode()), 2)
    assert not answer.error_code, answer.error_message
    return bytes(answer.auth_bytes).decode()


@functools.cache
def _client_keys(salt: str, iterations: int) -> tuple[bytes, bytes]:
    """Return ClientKey and StoredKey; the client does not pay for them at each login."""
    salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), base64.b64decode(salt), iterations)
    key = hmac.digest(salted, b"Client Key", "sha256")
    return key, hashlib.sha256(key).digest()
