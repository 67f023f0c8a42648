"""Frames: the header of a request, and requests and responses ready to send.

A frame is four bytes of length and so many bytes of content. Cutting a stream of bytes into frames
is the transport's work; here are their contents.
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
    """What stands before every request; `client_id` is None when the client sent none."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def parse_request_header(frame: "Buffer") -> tuple[RequestHeader, int]:
    """Read the header of a frame without its length; returns it and where the body begins.

    Raises ProtocolError for an unknown api, a torn header or a client id that is not UTF-8. The
    version is not judged: ApiVersions is answered in any. Tagged fields are skipped.
    """
    size = len(frame)
    if size < _REQUEST_HEADER.size:
        raise ProtocolError(f"a frame of {size} bytes holds no request header")
    key, version, correlation_id, length = _REQUEST_HEADER.unpack_from(frame)
    api = API.get(key)
    if api is None:
        raise ProtocolError(f"there is no api {key}")
    pos = 10
    client_id = None
    if length >= 0:
        pos += length
        if pos > size:
            raise ProtocolError(f"a client id of {length} bytes runs over the end of the frame")
        try:
            client_id = str(frame[10:pos], "utf-8")
        except UnicodeDecodeError as error:
            raise ProtocolError(f"the client id is not UTF-8: {error}") from error
    elif length != -1:
        raise ProtocolError(f"a client id has length {length}")
    flexible = api.flexible_version
    if flexible is not None and version >= flexible:
        pos = _skip_tagged(frame, pos, size)
    return RequestHeader(key, version, correlation_id, client_id), pos


def _skip_tagged(frame: "Buffer", pos: int, size: int) -> int:
    try:
        count, pos = read_varint(frame, pos)
        if count * 2 > size - pos:
            raise ProtocolError(f"a header announces {count} tagged fields")
        for _ in range(count):
            _, pos = read_varint(frame, pos)
            length, pos = read_varint(frame, pos)
            pos += length
    except IndexError:
        raise ProtocolError("a request header ends too early") from None
    if pos > size:
        raise ProtocolError("a request header ends too early")
    return pos


def encode_response(
    correlation_id: int, header_version: int, message: "Message", version: int
) -> list[Part]:
    """A response with its length and header, as few parts as copying little allows.

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
    """A request with its length and header, as parts; EncodingError when it does not fit."""
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
