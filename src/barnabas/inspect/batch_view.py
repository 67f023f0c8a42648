"""Record batches in a frame: their headers, their records, and Kafka's own records.

Truncated and damaged batches are marked; the last batch of a fetch is often truncated. Records of
compressed batches have no position in the frame, so they have the position of their batch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from barnabas.inspect.field_tree import Hook, Node, struct_nodes
from barnabas.protocol import reference
from barnabas.protocol.batches.batch_header import (
    BatchHeader,
    CorruptBatch,
    crc_matches,
    read_header,
)
from barnabas.protocol.batches.batch_layout import HEADER_SIZE
from barnabas.protocol.batches.record_decoding import Record, read_records
from barnabas.protocol.codec.runtime import read_varint
from barnabas.protocol.errors import ProtocolError

if TYPE_CHECKING:
    from barnabas.protocol.messages_base import Message

_HEADER_FIELDS: Final = (
    ("base_offset", "int64", 8),
    ("batch_length", "int32", 4),
    ("partition_leader_epoch", "int32", 4),
    ("magic", "int8", 1),
    ("crc", "uint32", 4),
    ("attributes", "int16", 2),
    ("last_offset_delta", "int32", 4),
    ("base_timestamp", "int64", 8),
    ("max_timestamp", "int64", 8),
    ("producer_id", "int64", 8),
    ("producer_epoch", "int16", 2),
    ("base_sequence", "int32", 4),
    ("record_count", "int32", 4),
)
_UNPACKED_MAX: Final = 16 << 20
_CONTROL_TYPES: Final = {
    0: "abort",
    1: "commit",
    2: "leader change",
    3: "snapshot header",
    4: "snapshot footer",
    5: "kraft version",
    6: "voters",
}

Contents = Callable[[Record, int, int], tuple[Node, ...] | None]
"""Reads one of Kafka's own records: (record, start, end) to nodes, None for another record."""


def batch_nodes(
    data: bytes, start: int, end: int, contents: Contents | None = None
) -> tuple[Node, ...]:
    """Return the batches in the bytes from `start` to `end` of a frame."""
    nodes: list[Node] = []
    pos = start
    while pos < end:
        node = _batch(data, pos, end, len(nodes), contents)
        nodes.append(node)
        pos = node.end
    return tuple(nodes)


def _batch(data: bytes, pos: int, end: int, index: int, contents: Contents | None) -> Node:
    name = f"[{index}]"
    try:
        header = read_header(data, pos) if end - pos >= HEADER_SIZE else None
    except CorruptBatch as error:
        return Node(name, "damaged batch", pos, end, None, (), str(error))
    if header is None or header.size > end - pos or header.size <= 0:
        return Node(name, "batch", pos, end, None, (), "cut short")
    stop = pos + header.size
    children = [*_header(header, pos)]
    note = _what(header)
    if header.magic != 2:
        note = f"message format {header.magic}, not read"
    elif not crc_matches(data, pos, header):
        note = f"{note}, WRONG CRC"
    else:
        children.append(_records(data, pos, stop, header, contents))
    return Node(name, "batch", pos, stop, None, tuple(children), note)


def _header(header: BatchHeader, pos: int) -> Iterator[Node]:
    for (name, kind, size), value in zip(_HEADER_FIELDS, header, strict=True):
        yield Node(name, kind, pos, pos + size, value)
        pos += size


def _what(header: BatchHeader) -> str:
    words = [f"{header.record_count} records", f"offsets {header.base_offset}-{header.last_offset}"]
    try:
        words.append(header.codec.name.lower() if header.codec else "not compressed")
    except CorruptBatch as error:
        words.append(str(error))
    if header.is_transactional:
        words.append("transactional")
    if header.is_control:
        words.append("control")
    if header.is_log_append_time:
        words.append("log append time")
    return ", ".join(words)


def _records(
    data: bytes, pos: int, stop: int, header: BatchHeader, contents: Contents | None
) -> Node:
    start = pos + HEADER_SIZE
    try:
        records = read_records(data, pos, header, _UNPACKED_MAX)
    except CorruptBatch as error:
        return Node("records", "records", start, stop, None, (), str(error))
    places = _places(data, start, stop, len(records)) if not header.codec_id else []
    children: list[Node] = []
    for index, record in enumerate(records):
        first, last = places[index] if places else (start, stop)
        inner = _control(record, first, last) if header.is_control else None
        if inner is None and contents is not None:
            inner = contents(record, first, last)
        children.append(_record(record, index, first, last, inner))
    return Node("records", "records", start, stop, None, tuple(children))


def _places(data: bytes, start: int, stop: int, count: int) -> list[tuple[int, int]]:
    """Return the positions of the records of an uncompressed batch; each record starts with its
    length.
    """
    places: list[tuple[int, int]] = []
    pos = start
    for _ in range(count):
        length, body = read_varint(data, pos)
        end = body + (length >> 1)
        places.append((pos, min(end, stop)))
        pos = end
    return places


def _record(
    record: Record, index: int, start: int, end: int, inner: tuple[Node, ...] | None
) -> Node:
    def leaf(name: str, kind: str, value: Any) -> Node:
        return Node(name, kind, start, end, value)

    children = [
        leaf("offset", "int64", record.offset),
        leaf("timestamp", "int64", record.timestamp),
    ]
    if inner is not None:
        children += inner
    else:
        children += [leaf("key", "bytes", record.key), leaf("value", "bytes", record.value)]
    children += [leaf(f"header {name}", "bytes", value) for name, value in record.headers]
    return Node(f"[{index}]", "record", start, end, None, tuple(children))


def _control(record: Record, start: int, end: int) -> tuple[Node, ...] | None:
    if record.key is None or len(record.key) < 4:
        return None
    kind: int = struct.unpack_from(">hh", record.key)[1]
    note = _CONTROL_TYPES.get(kind, "unknown")
    value = Node("value", "bytes", start, end, record.value)
    return (Node("control_type", "int16", start, end, kind, note=note), value)


def message_nodes(
    name: str, message: type[Message], version: int, data: bytes, start: int, end: int
) -> Node:
    """Return a message that fills some bytes, with positions from `start` to `end`.

    Raises ProtocolError for malformed bytes.
    """
    kind = f"{message.__name__} v{version}"
    fields, stop = reference.locate(message, version, data)
    if stop != len(data):
        raise ProtocolError(f"{len(data) - stop} bytes follow a {kind}")
    children = tuple(_moved(node, start, end) for node in struct_nodes(fields, Hook()))
    return Node(name, kind, start, end, None, children)


def _moved(node: Node, start: int, end: int) -> Node:
    children = node.children
    if children is not None:
        children = tuple(_moved(child, start, end) for child in children)
    return node._replace(start=start, end=end, children=children)


def metadata_contents(record: Record, start: int, end: int) -> tuple[Node, ...] | None:
    """Decode records of `__cluster_metadata`, whose values may hold credentials.

    Malformed values are hidden too.
    """
    from barnabas.protocol.records.metadata_records import decode_metadata_record

    if record.value is None:
        return None
    try:
        message = decode_metadata_record(record.value)
        pos = 0
        for _ in range(2):
            _, pos = read_varint(record.value, pos)
        version, pos = read_varint(record.value, pos)
    except (ProtocolError, IndexError) as error:
        hidden = f"{len(record.value)} bytes, hidden"
        return (Node("value", "bytes", start, end, hidden, note=str(error), hidden=True),)
    body = record.value[pos:]
    return (message_nodes("value", type(message), version, body, start, end),)


def group_contents(record: Record, start: int, end: int) -> tuple[Node, ...] | None:
    """Decode records of `__consumer_offsets`."""
    from barnabas.protocol.records.group_records import decode_group_record

    return _coordinator(decode_group_record, record, start, end)


def transaction_contents(record: Record, start: int, end: int) -> tuple[Node, ...] | None:
    """Decode records of `__transaction_state`."""
    from barnabas.protocol.records.transaction_records import decode_transaction_record

    return _coordinator(decode_transaction_record, record, start, end)


def share_contents(record: Record, start: int, end: int) -> tuple[Node, ...] | None:
    """Decode records of `__share_group_state`."""
    from barnabas.protocol.records.share_state_records import decode_share_record

    return _coordinator(decode_share_record, record, start, end)


def _coordinator(
    decode: Callable[[bytes | None, bytes | None], tuple[Message, Message | None]],
    record: Record,
    start: int,
    end: int,
) -> tuple[Node, ...] | None:
    try:
        key, value = decode(record.key, record.value)
    except ProtocolError:
        return None
    nodes = [message_nodes("key", type(key), 0, (record.key or b"")[2:], start, end)]
    if value is None or record.value is None:
        nodes.append(Node("value", "bytes", start, end, None))
    else:
        version = int.from_bytes(record.value[:2])
        nodes.append(message_nodes("value", type(value), version, record.value[2:], start, end))
    return tuple(nodes)


INTERNAL_TOPICS: Final[dict[str, Any]] = {
    "__cluster_metadata": metadata_contents,
    "__consumer_offsets": group_contents,
    "__transaction_state": transaction_contents,
    "__share_group_state": share_contents,
}
