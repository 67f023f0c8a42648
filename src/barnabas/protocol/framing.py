"""Frames: request headers, and requests and responses ready to send.

A frame is a length of four bytes and its content. The transport cuts a stream of bytes into frames.
"""

from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.protocol.apis import API
from barnabas.protocol.codec.runtime import Part, gathered, read_varint, varint
from barnabas.protocol.errors import EncodingError, ProtocolError

if TYPE_CHECKING:
    from barnabas.protocol.messages_base import Buffer, Message

_REQUEST_HEADER: Final = Struct(">hhih")
_RESPONSE_HEADER: Final = Struct(">ii")
_REQUEST_FRAME: Final = Struct(">ihhih")
_CLIENT_ID_MAX: Final = 0x7FFF


class RequestHeader(NamedTuple):
    """The header of every request; `client_id` is None when the client sent null."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def parse_request_header(frame: "Buffer") -> tuple[RequestHeader, int]:
    """Read the header of a frame without its length; return it and the position of the body.

    The version is not checked, since ApiVersions is answered in any version. Tagged fields are
    skipped.
    Raises ProtocolError for an unknown api, a truncated header, or a client id that is not UTF-8.
    """
    size = len(frame)
    if size < _REQUEST_HEADER.size:
        raise ProtocolError(f"a frame of {size} bytes is too short for a request header")
    key, version, correlation_id, length = _REQUEST_HEADER.unpack_from(frame)
    api = API.get(key)
    if api is None:
        raise ProtocolError(f"unknown api key {key}")
    pos = 10
    client_id = None
    if length >= 0:
        pos += length
        if pos > size:
            raise ProtocolError(f"a client id of {length} bytes exceeds the frame")
        try:
            client_id = str(frame[10:pos], "utf-8")
        except UnicodeDecodeError as error:
            raise ProtocolError(f"the client id is not UTF-8: {error}") from error
    elif length != -1:
        raise ProtocolError(f"the client id has length {length}")
    flexible = api.flexible_version
    if flexible is not None and version >= flexible:
        pos = _skip_tagged(frame, pos, size)
    return RequestHeader(key, version, correlation_id, client_id), pos


def _skip_tagged(frame: "Buffer", pos: int, size: int) -> int:
    try:
        count, pos = read_varint(frame, pos)
        if count * 2 > size - pos:
            raise ProtocolError(
                f"the header declares {count} tagged fields, more than fit into the frame"
            )
        for _ in range(count):
            _, pos = read_varint(frame, pos)
            length, pos = read_varint(frame, pos)
            pos += length
    except IndexError:
        raise ProtocolError("a truncated request header") from None
    if pos > size:
        raise ProtocolError("a truncated request header")
    return pos


def encode_response(
    correlation_id: int, header_version: int, message: "Message", version: int
) -> list[Part]:
    """Return a response with its length and header as a few parts, with little copying.

    Raises EncodingError when the message does not fit the version.
    """
    out: list[Any] = [b""]
    message.write(out, version)
    size = sum(map(len, out)) + 4 + header_version
    out[0] = _RESPONSE_HEADER.pack(size, correlation_id) + bytes(header_version)
    return gathered(out)


def encode_request(
    correlation_id: int, client_id: str | None, message: "Message", version: int
) -> list[Part]:
    """Return a request with its length and header as parts.

    Raises EncodingError when the message does not fit the version.
    """
    api = API[message.API_KEY]
    name = b"" if client_id is None else client_id.encode()
    if len(name) > _CLIENT_ID_MAX:
        raise EncodingError(f"a client id takes {len(name)} bytes")
    tagged = varint(0) if api.is_flexible(version) else b""
    out: list[Any] = [b""]
    message.write(out, version)
    size = sum(map(len, out)) + 10 + len(name) + len(tagged)
    length = -1 if client_id is None else len(name)
    header = _REQUEST_FRAME.pack(size, api.key, version, correlation_id, length)
    out[0] = header + name + tagged
    return gathered(out)
