"""Authentication on a connection: order of answers, log lines, limits."""

import logging
import struct
import time

import pytest

from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.protocol.messages_base import Message
from barnabas.server.transport import waiting_clients
from barnabas.server.transport.waiting_clients import FailureLog
from barnabas.testing import Node
from barnabas.testing.free_ports import free_ports
from tests.config.effects.wire import Wire

LISTENER = "listener.name.sasl_plaintext"
HANDSHAKE, TOKEN, METADATA = (
    SaslHandshakeRequest(mechanism="PLAIN"),
    SaslAuthenticateRequest(auth_bytes=b"\0a\0secret"),
    MetadataRequest(topics=[]),
)


def frame(number: int, request: Message, version: int) -> bytes:
    return b"".join(map(bytes, encode_request(number, "test", request, version)))


def answered(wire: Wire, count: int) -> list[int]:
    """Return the correlation ids of the next answers."""
    numbers: list[int] = []
    for _ in range(count):
        (size,) = struct.unpack(">i", wire._exactly(4))
        numbers.append(*struct.unpack(">i", wire._exactly(size)[:4]))
    return numbers


def with_sessions(port: int, lifetime_ms: int) -> dict[str, str]:
    """Return the properties of a node whose clients must authenticate again after a time."""
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:{port},"
        "CONTROLLER://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        f"{LISTENER}.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
        'PlainLoginModule required user_a="secret";',
        "connections.max.reauth.ms": str(lifetime_ms),
    }


def test_connection_is_closed_at_the_first_request_after_the_end_of_its_session() -> None:
    (port,) = free_ports(1)
    with Node(config=with_sessions(port, 1_500)):
        wire = Wire(port)
        wire.socket.sendall(frame(1, HANDSHAKE, 1) + frame(2, TOKEN, 2) + frame(3, METADATA, 12))
        assert answered(wire, 3) == [1, 2, 3]
        time.sleep(1.6)
        wire.socket.sendall(frame(4, METADATA, 12))
        assert wire.socket.recv(1) == b""


def test_requests_around_a_renewal_are_answered_in_order() -> None:
    (port,) = free_ports(1)
    with Node(config=with_sessions(port, 60_000)):
        wire = Wire(port)
        wire.socket.sendall(frame(1, HANDSHAKE, 1) + frame(2, TOKEN, 2) + frame(3, METADATA, 12))
        assert answered(wire, 3) == [1, 2, 3]
        requests = [(METADATA, 12), (HANDSHAKE, 1), (TOKEN, 2), (METADATA, 12), (METADATA, 12)]
        wire.socket.sendall(b"".join(frame(4 + i, *request) for i, request in enumerate(requests)))
        assert answered(wire, 5) == [4, 5, 6, 7, 8]


def test_failures_are_counted_and_logged_once_a_second_for_each_host(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    times_s = iter([*[1.0] * 50, 1.5, 2.0])
    monkeypatch.setattr(waiting_clients, "monotonic", lambda: next(times_s))
    log = FailureLog()
    with caplog.at_level(logging.INFO):
        for _ in range(50):
            log.failed("10.0.0.1", "SASL", "wrong")
        log.refused("10.0.0.2", "SSL", "wrong")
        log.refused("10.0.0.1", "SSL", "wrong")
    assert log.count == 52
    hosts = [record.getMessage() for record in caplog.records]
    assert ["10.0.0.2" in line for line in hosts] == [False, True, False]


def test_texts_of_a_client_cannot_forge_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        FailureLog().failed("10.0.0.1", "SASL", "x\nauthentication ok host=1\x1b[2J" + "y" * 999)
    (record,) = caplog.records
    line = record.getMessage()
    assert line.isprintable()
    assert len(line) < 400


def test_log_of_failures_remembers_a_bounded_number_of_hosts() -> None:
    log = FailureLog()
    for number in range(5000):
        log.failed(f"10.0.{number // 256}.{number % 256}", "SASL", "wrong")
    assert len(log._logged_at_s) <= 1024
