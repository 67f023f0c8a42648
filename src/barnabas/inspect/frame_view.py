"""One frame as a tree of fields: its length, its header, and its body.

Positions count from the first byte of the frame's length, or without a length from the first byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.inspect.batch_view import INTERNAL_TOPICS, Contents, batch_nodes, message_nodes
from barnabas.inspect.field_tree import Around, Hook, Node, struct_nodes
from barnabas.protocol import reference
from barnabas.protocol.apis import API, ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.fields import Kind
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.types import Uuid

if TYPE_CHECKING:
    from barnabas.protocol.messages_base import Message
    from barnabas.protocol.reference import Located

API_VERSIONS: Final = 18
_SUBSCRIPTIONS: Final = ("metadata", "member_metadata")
_ASSIGNMENTS: Final = ("assignment", "member_assignment")
_METADATA_TOPIC_ID: Final = Uuid(bytes(15) + b"\1")


class DecodedFrame(NamedTuple):
    """One decoded frame; `fields` is what could be decoded before `problem`, if any."""

    is_request: bool
    api: ApiKey | None
    version: int
    correlation_id: int
    client_id: str | None
    size: int
    fields: tuple[Node, ...]
    problem: str = ""

    @property
    def name(self) -> str:
        """A title such as "Fetch v12 request"."""
        what = "request" if self.is_request else "response"
        return f"{self.api.name} v{self.version} {what}" if self.api else what


def decode_request_frame(frame: bytes, *, has_length: bool = True) -> DecodedFrame:
    """Decode a request; `has_length` says whether its length precedes it. Never raises."""
    pos = 4 if has_length else 0
    fields = _length(frame) if has_length else ()
    key = int.from_bytes(frame[pos : pos + 2], signed=True)
    version = int.from_bytes(frame[pos + 2 : pos + 4], signed=True)
    api = API.get(key)
    if api is None or len(frame) < pos + 4:
        return DecodedFrame(
            True, None, version, -1, None, len(frame), fields, f"unknown api key {key}"
        )
    try:
        header, body = reference.locate(
            RequestHeader, 2 if api.is_flexible(version) else 1, frame, pos
        )
    except ProtocolError as error:
        return DecodedFrame(True, api, version, -1, None, len(frame), fields, str(error))
    nodes = struct_nodes(header, Hook())
    nodes = (nodes[0]._replace(note=api.name), *nodes[1:])
    correlation_id, client_id = header["correlation_id"].value, header["client_id"].value
    found, problem = _body(api.request_type, version, frame, body)
    return DecodedFrame(
        True,
        api,
        version,
        correlation_id,
        client_id,
        len(frame),
        (*fields, *nodes, *found),
        problem,
    )


def decode_response_frame(
    frame: bytes, api: ApiKey, version: int, *, has_length: bool = True
) -> DecodedFrame:
    """Decode a response to a request of `api` in `version`. Never raises."""
    pos = 4 if has_length else 0
    fields = _length(frame) if has_length else ()
    try:
        header, body = reference.locate(
            ResponseHeader, api.response_header_version(version), frame, pos
        )
    except ProtocolError as error:
        return DecodedFrame(False, api, version, -1, None, len(frame), fields, str(error))
    nodes = (*fields, *struct_nodes(header, Hook()))
    correlation_id = header["correlation_id"].value
    found, problem = _body(api.response_type, version, frame, body)
    if problem and api.key == API_VERSIONS and version > 0:
        # A server that does not know the version answers in the lowest one (KIP-511).
        lowest, other = _body(api.response_type, 0, frame, body)
        if not other:
            version, found, problem = 0, lowest, ""
    return DecodedFrame(
        False, api, version, correlation_id, None, len(frame), (*nodes, *found), problem
    )


def decode_message(
    message: type[Message], version: int, data: bytes
) -> tuple[tuple[Node, ...], str]:
    """Decode a message without a header: its fields, and the problem if any. Never raises."""
    return _body(message, version, data, 0)


def _length(frame: bytes) -> tuple[Node, ...]:
    return (Node("length", "int32", 0, 4, int.from_bytes(frame[:4], signed=True)),)


def _body(
    message: type[Message], version: int, frame: bytes, pos: int
) -> tuple[tuple[Node, ...], str]:
    if not message.VERSIONS.has(version):
        low, high = message.VERSIONS
        return (_rest(frame, pos),), f"{message.__name__} has versions {low}-{high}, not {version}"
    try:
        fields, end = reference.locate(message, version, frame, pos)
    except ProtocolError as error:
        return (_rest(frame, pos),), str(error)
    nodes = struct_nodes(fields, _Embedded(frame))
    if end < len(frame):
        nodes = (*nodes, _rest(frame, end))
        return nodes, f"{len(frame) - end} bytes follow the message"
    return nodes, ""


def _rest(frame: bytes, pos: int) -> Node:
    """Bytes that could not be decoded; only their size is shown, since they may contain secrets."""
    size = len(frame) - pos
    return Node("unread", "bytes", pos, len(frame), f"{size} bytes, hidden", hidden=True)


class _Embedded(Hook):
    """Decodes record batches, enveloped requests, and the data that group members exchange."""

    def __init__(self, frame: bytes) -> None:
        self.frame = frame

    def decode(self, field: Located, around: Around) -> Node | None:
        """Return the node of a field whose bytes contain another format."""
        wire = field.wire
        if wire is None:
            return None
        if wire.kind is Kind.RECORDS:
            return self._batches(field, around)
        if wire.kind is not Kind.BYTES or not field.value:
            return None
        if field.name in ("request_data", "response_data"):
            return self._enveloped(field)
        if field.name in _SUBSCRIPTIONS or field.name in _ASSIGNMENTS:
            return self._consumer_protocol(field)
        return None

    def _batches(self, field: Located, around: Around) -> Node:
        start = field.end - len(field.value)
        contents = self._contents(field, around)
        children = batch_nodes(self.frame, start, field.end, contents)
        size = f"{len(field.value)} bytes"
        return Node(field.name, "records", field.start, field.end, None, children, size)

    def _contents(self, field: Located, around: Around) -> Contents | None:
        if field.name == "unaligned_records":
            return INTERNAL_TOPICS["__cluster_metadata"]
        for values in around:
            if values.get("topic_id") == _METADATA_TOPIC_ID:
                return INTERNAL_TOPICS["__cluster_metadata"]
            for name in ("topic", "name"):
                if values.get(name) in INTERNAL_TOPICS:
                    return INTERNAL_TOPICS[values[name]]
        return None

    def _enveloped(self, field: Located) -> Node:
        start = field.end - len(field.value)
        if field.name == "request_data":
            decoded = decode_request_frame(field.value, has_length=False)
            children = tuple(shifted(node, start) for node in decoded.fields)
            return Node(field.name, "request", field.start, field.end, None, children, decoded.name)
        hidden = f"{len(field.value)} bytes, hidden"
        return Node(field.name, "response", field.start, field.end, hidden, hidden=True)

    def _consumer_protocol(self, field: Located) -> Node | None:
        from barnabas.protocol.messages import consumer_protocol

        data = field.value
        message: type[Message] = (
            consumer_protocol.ConsumerProtocolSubscription
            if field.name in _SUBSCRIPTIONS
            else consumer_protocol.ConsumerProtocolAssignment
        )
        version = int.from_bytes(data[:2], signed=True)
        if len(data) < 2 or not message.VERSIONS.has(version):
            return None
        try:
            node = message_nodes(field.name, message, version, data[2:], field.start, field.end)
        except ProtocolError:
            return None
        return node


def shifted(node: Node, by: int) -> Node:
    """Return the node with shifted positions."""
    children = node.children
    if children is not None:
        children = tuple(shifted(child, by) for child in children)
    return node._replace(start=node.start + by, end=node.end + by, children=children)


def walk(nodes: tuple[Node, ...], depth: int = 0) -> Iterator[tuple[int, Node]]:
    """Yield all nodes with their depth, each before its children."""
    for node in nodes:
        yield depth, node
        if node.children:
            yield from walk(node.children, depth + 1)
