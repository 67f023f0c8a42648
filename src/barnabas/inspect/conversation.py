"""A connection's bytes in both directions, cut into frames, with each response matched to its
request.

Sans-I/O: the proxy and captured files feed it. Bytes that are not Kafka's protocol (TLS, another
protocol, a connection captured without its start) end the decoding, not the connection.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from barnabas.inspect.field_tree import Node
from barnabas.inspect.frame_view import (
    API_VERSIONS,
    DecodedFrame,
    decode_request_frame,
    decode_response_frame,
)
from barnabas.protocol.apis import API, ApiKey

FRAME_MAX: Final = 100 << 20
"""The default maximum size, in bytes, of a frame that a server accepts
(`socket.request.max.bytes`).
"""

_PENDING_MAX: Final = 10_000
_SASL_HANDSHAKE: Final = 17
_TLS_RECORD: Final = b"\x16\x03"
_HEAD: Final = struct.Struct(">hhi")


class Frame(NamedTuple):
    """A frame with its length; a response has the `api` and `version` of its request."""

    is_request: bool
    data: bytes
    api: ApiKey | None
    version: int
    is_token: bool = False
    """True for a SASL token without a header, as after SaslHandshake v0."""

    def decode(self) -> DecodedFrame:
        """Return the frame as fields. Never raises."""
        if self.is_token:
            hidden = f"{len(self.data) - 4} bytes, hidden"
            token = Node("sasl_token", "bytes", 4, len(self.data), hidden, hidden=True)
            return DecodedFrame(self.is_request, None, 0, -1, None, len(self.data), (token,), "")
        if self.is_request:
            return decode_request_frame(self.data)
        if self.api is None:
            problem = "no request with this correlation id was captured"
            return DecodedFrame(False, None, 0, -1, None, len(self.data), (), problem)
        return decode_response_frame(self.data, self.api, self.version)


class Conversation:
    """One connection; each side's bytes must be fed in order."""

    def __init__(self) -> None:
        self.lost = ""
        """Why the bytes are not Kafka's protocol; empty while they are."""
        self._buffers = {True: bytearray(), False: bytearray()}
        self._pending: dict[int, tuple[ApiKey, int]] = {}
        self._raw_sasl = False
        self._begun = False

    def receive(self, data: bytes, *, from_client: bool) -> list[Frame]:
        """Feed bytes of one side; yield the frames that they complete, none after decoding has
        ended.
        """
        buffer = self._buffers[from_client]
        buffer += data
        if not self._begun and from_client and data:
            self._begun = True
            if data.startswith(_TLS_RECORD):
                self.lost = "it is encrypted (TLS)"
        frames: list[Frame] = []
        while not self.lost and len(buffer) >= 4:
            size = int.from_bytes(buffer[:4], signed=True)
            if not 0 <= size <= FRAME_MAX:
                self.lost = f"a frame cannot have a length of {size}: this is not Kafka's protocol"
            elif len(buffer) < 4 + size:
                break
            else:
                frame = bytes(buffer[: 4 + size])
                del buffer[: 4 + size]
                frames.append(self._request(frame) if from_client else self._response(frame))
        return frames

    def take_rest(self, *, from_client: bool) -> bytes:
        """Return and remove the bytes of a side that do not form a complete frame."""
        rest = bytes(self._buffers[from_client])
        self._buffers[from_client].clear()
        return rest

    def _request(self, frame: bytes) -> Frame:
        if len(frame) < 12:
            return Frame(True, frame, None, 0, is_token=self._raw_sasl)
        key, version, correlation_id = _HEAD.unpack_from(frame, 4)
        api = API.get(key)
        known = api is not None and (
            api.min_version <= version <= api.max_version or key == API_VERSIONS
        )
        if self._raw_sasl and (not known or decode_request_frame(frame).problem):
            return Frame(True, frame, None, 0, is_token=True)
        self._raw_sasl = key == _SASL_HANDSHAKE and version == 0
        if api is not None:
            if len(self._pending) >= _PENDING_MAX:  # acks=0 gets no response
                del self._pending[next(iter(self._pending))]
            self._pending[correlation_id] = (api, version)
        return Frame(True, frame, api, version)

    def _response(self, frame: bytes) -> Frame:
        correlation_id = int.from_bytes(frame[4:8], signed=True)
        found = self._pending.pop(correlation_id, None) if len(frame) >= 8 else None
        if found is None:
            return Frame(False, frame, None, 0, is_token=self._raw_sasl)
        return Frame(False, frame, *found)
