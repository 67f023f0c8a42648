"""The bytes of one connection: requests out, responses in, matched by correlation id.

Sans-I/O, as h11 is: `request` gives the bytes to send, `receive` takes what arrived and gives the
complete responses. A broker answers the requests of a connection in their order.
"""

from collections import deque
from struct import Struct
from typing import Final, NamedTuple

from barnabas.protocol.apis import API
from barnabas.protocol.codec.runtime import read_varint
from barnabas.protocol.errors import ErrorCode, ProtocolError
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages_base import Message

_LENGTH: Final = Struct(">i")
_ERROR_CODE: Final = Struct(">h")
_TLS_RECORDS: Final = (0x15, 0x16)  # alert, handshake
_TLS_MAJOR: Final = 3
_CORRELATION_MAX: Final = 0x7FFF_FFFF


class _Expected(NamedTuple):
    number: int
    api_key: int
    version: int


class Answer(NamedTuple):
    """A response, and the correlation id of the request that it answers."""

    number: int
    response: Message


class WireExchange:
    """The state of one connection's byte streams."""

    def __init__(self, client_id: str | None, max_response_bytes: int) -> None:
        self._client_id = client_id
        self._max_response_bytes = max_response_bytes
        self._next = 0
        self._expected: deque[_Expected] = deque()
        self._received = bytearray()

    def request(self, message: Message, version: int) -> tuple[int, bytes]:
        """Return a request's correlation id and its bytes.

        Raises EncodingError when the message does not fit the version.
        """
        number = self._next
        data = b"".join(encode_request(number, self._client_id, message, version))
        self._next = number + 1 if number < _CORRELATION_MAX else 0
        self._expected.append(_Expected(number, message.API_KEY, version))
        return number, data

    @property
    def is_within_frame(self) -> bool:
        """True when a part of a response has been received."""
        return bool(self._received)

    def receive(self, data: bytes | memoryview) -> list[Answer]:
        """Return the responses that are complete now.

        Raises ProtocolError when the bytes are not the responses to the requests in their order;
        the connection is of no use then.
        """
        self._received += data
        answers: list[Answer] = []
        while (frame := self._next_frame()) is not None:
            answers.append(self._decode(frame))
        return answers

    def _next_frame(self) -> bytes | None:
        if len(self._received) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._received)
        if not _LENGTH.size <= size <= self._max_response_bytes:
            raise ProtocolError(
                f"the response has {size} bytes, at most {self._max_response_bytes} are accepted"
                + _other_protocol(bytes(self._received[:4]))
            )
        end = _LENGTH.size + size
        if len(self._received) < end:
            return None
        frame = bytes(memoryview(self._received)[_LENGTH.size : end])
        del self._received[:end]
        return frame

    def _decode(self, frame: bytes) -> Answer:
        if not self._expected:
            raise ProtocolError("a response without a request")
        expected = self._expected.popleft()
        (number,) = _LENGTH.unpack_from(frame)
        if number != expected.number:
            raise ProtocolError(f"a response to request {number} instead of {expected.number}")
        api = API[expected.api_key]
        version = expected.version
        body = memoryview(frame)[_LENGTH.size :]
        if api.response_header_version(version):
            body = body[_tagged_fields_size(body) :]
        elif _is_api_versions_refusal(expected.api_key, body):
            version = 0
        return Answer(number, api.response_type.decode(body, version))


def _other_protocol(start: bytes) -> str:
    """Return a hint when the peer's first bytes are those of another protocol."""
    if start[0] in _TLS_RECORDS and start[1] == _TLS_MAJOR:
        return ": the peer speaks TLS (does security.protocol match the listener?)"
    if start == b"HTTP":
        return ": the peer speaks HTTP"
    return ""


def _is_api_versions_refusal(api_key: int, body: memoryview) -> bool:
    """True for an ApiVersions response to an unknown version, which comes in version 0."""
    return (
        api_key == ApiVersionsRequest.API_KEY
        and len(body) >= _ERROR_CODE.size
        and _ERROR_CODE.unpack_from(body)[0] == ErrorCode.UNSUPPORTED_VERSION
    )


def _tagged_fields_size(body: memoryview) -> int:
    """Return the size of a response header's tagged fields, which carry nothing that is used."""
    try:
        count, pos = read_varint(body, 0)
        for _ in range(count):
            _, pos = read_varint(body, pos)
            size, pos = read_varint(body, pos)
            pos += size
    except IndexError:
        raise ProtocolError("a response header ends too early") from None
    return pos
