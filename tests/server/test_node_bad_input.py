"""Bytes that no client should send: the outcome of each, without effect on other clients."""

import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.testing.node_process_control import NodeProcess

PRODUCE, METADATA, API_VERSIONS, LEADER_AND_ISR = 0, 3, 18, 4
MIB = 1024 * 1024


def header(
    key: int, version: int, correlation_id: int = 7, client_id: bytes | None = b"t"
) -> bytes:
    size = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", key, version, correlation_id, size) + (client_id or b"")


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


API_VERSIONS_V0 = framed(header(API_VERSIONS, 0))


def software(name: bytes, version: bytes = b"1") -> bytes:
    def compact(text: bytes) -> bytes:
        return bytes([len(text) + 1]) + text

    return framed(header(API_VERSIONS, 3) + b"\x00" + compact(name) + compact(version) + b"\x00")


@pytest.fixture(scope="module")
def node() -> Iterator[NodeProcess]:
    with NodeProcess() as process:
        yield process


@pytest.fixture
def connect(node: NodeProcess) -> Iterator["Connect"]:
    with Connect(node.port) as connections:
        yield connections


class Connect:
    """Opens connections and closes them all."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.opened: list[socket.socket] = []

    def __call__(self) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        self.opened.append(sock)
        return sock

    def __enter__(self) -> "Connect":
        return self

    def __exit__(self, *_: object) -> None:
        for sock in self.opened:
            sock.close()


def receive(sock: socket.socket) -> bytes | None:
    """Return one response without its length; None when the server closed the connection."""
    try:
        head = sock.recv(4, socket.MSG_WAITALL)
        if not head:
            return None
        return sock.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
    except ConnectionResetError:
        return None


def error_code(response: bytes | None) -> int:
    assert response is not None
    return struct.unpack_from(">h", response, 4)[0]


CLOSED_ON = {
    "a negative length": struct.pack(">i", -1) + bytes(20),
    "the lowest length": struct.pack(">i", -(2**31)) + bytes(20),
    "a length above socket.request.max.bytes": struct.pack(">i", 100 * MIB + 1) + bytes(20),
    "an empty frame": struct.pack(">i", 0),
    "a frame shorter than a header": framed(b"\x00\x12\x00"),
    "a header whose client id is longer than the frame": framed(
        struct.pack(">hhih", API_VERSIONS, 0, 1, 500)
    ),
    "a client id that is not UTF-8": framed(header(API_VERSIONS, 0, client_id=b"\xff\xfe\xff")),
    "an unknown api key": framed(header(9999, 0)),
    "a negative api key": framed(header(-1, 0)),
    "an api that Kafka has removed": framed(header(LEADER_AND_ISR, 0)),
    "a controller's api": framed(header(52, 0) + b"\x00"),
    "a version that Kafka has removed": framed(header(PRODUCE, 2) + bytes(40)),
    "a version that Kafka does not have yet": framed(header(METADATA, 99) + bytes(40)),
    "a negative version": framed(header(METADATA, -1) + bytes(40)),
    "an array longer than what follows": framed(header(METADATA, 1) + struct.pack(">i", 1_000_000)),
    "an array of the largest length": framed(header(METADATA, 1) + struct.pack(">i", 2**31 - 1)),
    "an array of a length below -1": framed(header(METADATA, 1) + struct.pack(">i", -2)),
    "a varint that does not end": framed(header(METADATA, 12) + b"\x00" + b"\xff" * 20),
    "more tagged fields than what follows": framed(
        header(METADATA, 12) + b"\xff\xff\xff\xff\x07" + bytes(20)
    ),
    "null where the field has none": framed(header(METADATA, 1) + struct.pack(">ih", 1, -1)),
    "a topic name that is not UTF-8": framed(
        header(METADATA, 1) + struct.pack(">ih", 1, 3) + b"\xc3\x28\xff"
    ),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
}


@pytest.mark.parametrize("what", CLOSED_ON)
def test_bad_bytes_close_the_connection_without_a_response(what: str, connect: Connect) -> None:
    bystander, sock = connect(), connect()
    sock.sendall(API_VERSIONS_V0 + CLOSED_ON[what])
    assert error_code(receive(sock)) == 0
    assert receive(sock) is None
    bystander.sendall(API_VERSIONS_V0)
    assert error_code(receive(bystander)) == 0


def test_frame_torn_by_the_end_of_the_connection_has_no_effect(connect: Connect) -> None:
    sock = connect()
    sock.sendall(API_VERSIONS_V0 + framed(header(METADATA, 1) + bytes(4))[:-2])
    sock.shutdown(socket.SHUT_WR)
    assert error_code(receive(sock)) == 0
    assert receive(sock) is None


def test_bytes_after_a_body_are_ignored_as_by_kafka(connect: Connect) -> None:
    sock = connect()
    sock.sendall(framed(header(API_VERSIONS, 0) + b"more"))
    assert error_code(receive(sock)) == 0


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_api_versions_of_an_unknown_version_is_answered_in_v0(
    connect: Connect, version: int
) -> None:
    sock = connect()
    sock.sendall(framed(header(API_VERSIONS, version) + b"\x00garbage") + API_VERSIONS_V0)
    response = receive(sock)
    assert error_code(response) == 35
    # Correlation id, error, one key: ApiVersions 0 to 4.
    assert response == struct.pack(">ihihhh", 7, 35, 1, API_VERSIONS, 0, 4)
    assert error_code(receive(sock)) == 0


@pytest.mark.parametrize("name", [b"", b"-starts", b"ends-", b"with space", b"caf\xc3\xa9"])
def test_api_versions_with_a_bad_client_name_is_refused_and_the_connection_stays(
    connect: Connect, name: bytes
) -> None:
    sock = connect()
    sock.sendall(software(name) + software(b"librdkafka", b"2.1.0-rc1"))
    assert error_code(receive(sock)) == 42
    assert error_code(receive(sock)) == 0


def test_declared_sizes_allocate_no_memory(node: NodeProcess, connect: Connect) -> None:
    before = resident_bytes(node.pid)
    for _ in range(50):
        connect().sendall(struct.pack(">i", 100 * MIB) + bytes(100))
    deadline = time.monotonic() + 0.3
    while time.monotonic() < deadline:
        bystander = connect()
        bystander.sendall(API_VERSIONS_V0)
        assert error_code(receive(bystander)) == 0
    assert resident_bytes(node.pid) - before < 20 * MIB


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the system does not report resident memory")
