"""Raw requests over a socket: any version of any api, and malformed bytes."""

import itertools
import socket
import struct
import time
from typing import Any

from barnabas.protocol.apis import API
from compat_tests.client_security import ClientSecurity, security_of

CLIENT_ID = "wire"
ANSWER_TIMEOUT_S = 60.0


def header(api_key: int, version: int, correlation_id: int, *, header_version: int = 1) -> bytes:
    """Encode a request header; version 2 ends with an empty tagged section."""
    name = CLIENT_ID.encode()
    fixed = struct.pack(">hhih", api_key, version, correlation_id, len(name))
    return fixed + name + (b"\x00" if header_version >= 2 else b"")


def request_frame(message: Any, version: int, correlation_id: int) -> bytes:
    """Encode a whole request, without the length before it."""
    api = API[message.API_KEY]
    flexible = api.request_header_version(version)
    return header(api.key, version, correlation_id, header_version=flexible) + bytes(
        message.encode(version)
    )


class Connection:
    """A blocking connection to a server; each request increments the correlation id.

    `source` is the address that the connection comes from. It logs in where the server at this
    address asks for it (`client_security`).
    """

    def __init__(self, bootstrap: str, *, source: str | None = None) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection(
            (host, int(port)), ANSWER_TIMEOUT_S, (source, 0) if source else None
        )
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_ids = itertools.count(1)
        security = security_of(bootstrap)
        if security is not None:
            self._log_in(security, host)

    def _log_in(self, security: ClientSecurity, host: str) -> None:
        try:
            self.socket = security.tls(self.socket, host)
            security.log_in(self)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def send_frame(self, payload: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(payload)) + payload)

    def receive_frame(self) -> bytes:
        """Return the next complete frame; raise EOFError when the server closes the connection."""
        (length,) = struct.unpack(">i", self._receive(4))
        return self._receive(length)

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            try:
                piece = self.socket.recv(size - len(received))
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise EOFError(f"closed after {len(received)} of {size} bytes")
            received += piece
        return bytes(received)

    def closes_silently(self, timeout_s: float = 60.0) -> bool:
        """True when the server closes the connection without sending another byte."""
        self.socket.settimeout(timeout_s)
        try:
            return self.socket.recv(1) == b""
        except (ConnectionResetError, BrokenPipeError):
            return True
        except TimeoutError:
            return False

    def send(self, message: Any, version: int) -> int:
        """Send a request and return its correlation id."""
        correlation_id = next(self.correlation_ids)
        self.send_frame(request_frame(message, version, correlation_id))
        return correlation_id

    def receive(self, api_key: int, version: int, correlation_id: int) -> Any:
        """Decode the next response, which must belong to this request and have no extra bytes."""
        frame = self.receive_frame()
        api = API[api_key]
        (answered,) = struct.unpack_from(">i", frame)
        assert answered == correlation_id, f"answer {answered}, not {correlation_id}"
        start = 4 + (api.response_header_version(version) >= 1)
        response, end = api.response_type.decode_from(frame, start, version)
        assert end == len(frame), f"{len(frame) - end} bytes after the answer"
        return response

    def call(self, message: Any, version: int) -> Any:
        """Send a request and return its response."""
        return self.receive(message.API_KEY, version, self.send(message, version))


def call(bootstrap: str, message: Any, version: int) -> Any:
    """Send one request over a new connection."""
    with Connection(bootstrap) as connection:
        return connection.call(message, version)


def retry(bootstrap: str, message: Any, version: int, ready: Any, timeout_s: float = 60) -> Any:
    """Repeat a request until its response is `ready`, as clients do on retriable errors."""
    deadline = time.monotonic() + timeout_s
    while not ready(answer := call(bootstrap, message, version)):
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)
    return answer
