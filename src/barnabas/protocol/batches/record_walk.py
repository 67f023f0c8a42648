"""Walks over the encoded records of a batch that build no `Record` objects.

One walk validates what a leader must check, one reads timestamps, one finds the bytes of each
record for compaction.
"""

from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple

import attrs

from barnabas.protocol.batches.batch_header import BatchHeader, InvalidRecords
from barnabas.protocol.batches.batch_layout import NO_TIMESTAMP
from barnabas.protocol.batches.compression import Buffer
from barnabas.protocol.batches.record_decoding import read_varint

FAULTS_MAX: Final = 1000
"""The number of faults reported for one batch; more do not help a client."""

_LONG_MIN: Final = -(1 << 63)
_LONG_MAX: Final = (1 << 63) - 1


@attrs.frozen
class RecordFault:
    """A fault of the record at `index` of its batch."""

    index: int
    kind: Literal["key", "timestamp", "offset"]
    message: str


def validate_unpacked(
    data: bytes,
    header: BatchHeader,
    *,
    compacted: bool = False,
    timestamp_min: int | None = None,
    timestamp_max: int | None = None,
) -> tuple[list[RecordFault], int]:
    """Run the checks that need records (`LogValidator`) on the result of `unpack_records`.

    Every record of a compacted topic has a key, offset deltas rise by one, and timestamps (ms) are
    within the given bounds. Return at most `FAULTS_MAX` faults and the largest timestamp (ms).
    Raises `CorruptBatch` where the records do not parse.
    """
    base_timestamp = header.base_timestamp
    lowest = _LONG_MIN if timestamp_min is None else max(timestamp_min, _LONG_MIN)
    highest = _LONG_MAX if timestamp_max is None else min(timestamp_max, _LONG_MAX)
    bounds = lowest - base_timestamp, highest - base_timestamp
    faults: list[RecordFault] = []

    def check(index: int, offset_delta: int, delta: int, key_size: int) -> bool:
        """Note the fault of a suspect record, if any; False at the limit of faults."""
        timestamp = base_timestamp + delta
        if offset_delta != index:
            text = f"Record offset delta {offset_delta} at index {index}"
            faults.append(RecordFault(index, "offset", text))
        elif compacted and key_size < 0:
            text = "Compacted topic cannot accept message without key"
            faults.append(RecordFault(index, "key", text))
        elif timestamp != NO_TIMESTAMP and not lowest <= timestamp <= highest:
            text = (
                f"Timestamp {timestamp} of message with offset {index} is out of range. The "
                f"timestamp should be within [{timestamp_min}, {timestamp_max}]"
            )
            faults.append(RecordFault(index, "timestamp", text))
        return len(faults) < FAULTS_MAX

    try:
        latest = _walk(data, header.record_count, bounds, compacted, check)
    except IndexError:
        raise InvalidRecords("a batch ends inside a record") from None
    return faults, max(NO_TIMESTAMP, base_timestamp + latest)


def _walk(
    data: bytes,
    count: int,
    bounds: tuple[int, int],
    compacted: bool,
    check: Callable[[int, int, int, int], bool],
) -> int:
    """Parse `count` records and call `check` for each that may have a fault.

    Return the largest timestamp, relative to the base timestamp like `bounds`.
    Raises IndexError at the end of `data`, and `InvalidRecords`.
    """
    at, data_end = 0, len(data)
    lowest, highest = bounds
    largest = _LONG_MIN * 2
    # Varints of one or two bytes are decoded inline: a call for each would double the time.
    for index in range(count):
        size, at = data[at], at + 1
        if size > 0x7F:
            size, at = size + (data[at] << 7) - 0x80, at + 1
            if size > 0x3FFF:
                size, at = _long_varint(data, at, size)
        end = at + (size >> 1)
        if size & 1 or end > data_end:
            raise InvalidRecords(f"a record of {_signed(size)} bytes has only {data_end - at} left")
        delta, at = data[at + 1], at + 2
        if delta > 0x7F:
            delta, at = delta + (data[at] << 7) - 0x80, at + 1
            if delta > 0x3FFF:
                delta, at = _long_varint(data, at, delta)
        delta = (delta >> 1) ^ -(delta & 1)
        if delta > largest:
            largest = delta
        offset, at = data[at], at + 1
        if offset > 0x7F:
            offset, at = offset + (data[at] << 7) - 0x80, at + 1
            if offset > 0x3FFF:
                offset, at = _long_varint(data, at, offset)
        key_size, at = data[at], at + 1
        if key_size > 0x7F:
            key_size, at = _long_varint(data, at, key_size, 7)
        if not key_size & 1:
            at += key_size >> 1
        value_size, at = data[at], at + 1
        if value_size > 0x7F:
            value_size, at = value_size + (data[at] << 7) - 0x80, at + 1
            if value_size > 0x3FFF:
                value_size, at = _long_varint(data, at, value_size)
        if not value_size & 1:
            at += value_size >> 1
        if at + 1 == end and not data[at]:
            at = end  # no headers, as in most records
        else:
            at = _skip_headers(data, at, end)
        is_suspect = offset != index << 1 or not lowest <= delta <= highest
        if (is_suspect or (compacted and key_size & 1)) and not check(
            index, _signed(offset), delta, _signed(key_size)
        ):
            return largest
    if at != data_end:
        raise InvalidRecords(f"{data_end - at} bytes after the last record")
    return largest


def _long_varint(data: bytes, at: int, value: int, bits: int = 14) -> tuple[int, int]:
    """Finish a varint: `value` holds its first `bits` bits and the continuation bit above them.

    Return the value before zigzag decoding, and the position after the varint.
    Raises `InvalidRecords` for a varint of more than ten bytes.
    """
    value -= 1 << bits
    while bits < 70:
        byte, at = data[at], at + 1
        value += (byte & 0x7F) << bits
        if byte < 0x80:
            return value, at
        bits += 7
    raise InvalidRecords("a varint of more than ten bytes")


def _signed(zigzag: int) -> int:
    return (zigzag >> 1) ^ -(zigzag & 1)


def record_times(data: bytes, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Yield timestamp (ms) and offset of each record in the result of `unpack_records`.

    Raises `CorruptBatch` where the records do not parse.
    """
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    at = 0
    try:
        for _ in range(header.record_count):
            size, at = read_varint(data, at)
            end = at + size
            if size < 0 or end > len(data):
                raise InvalidRecords(f"a record of {size} bytes has only {len(data) - at} left")
            delta, at = read_varint(data, at + 1)
            offset_delta, _ = read_varint(data, at)
            timestamp = base_timestamp + delta if append_time is None else append_time
            yield timestamp, base_offset + offset_delta
            at = end
    except IndexError:
        raise InvalidRecords("a batch ends inside a record") from None


class LocatedRecord(NamedTuple):
    """The bytes of one record in the unpacked batch, and the fields that compaction needs.

    `timestamp` is in ms; `start` and `end` are positions in the unpacked bytes.
    """

    start: int
    end: int
    offset: int
    timestamp: int
    key: bytes | None
    is_tombstone: bool


def locate_records(data: bytes, header: BatchHeader) -> list[LocatedRecord]:
    """Return the place of each record in the result of `unpack_records`.

    Raises `CorruptBatch` where the records do not parse.
    """
    found: list[LocatedRecord] = []
    at = 0
    try:
        for _ in range(header.record_count):
            start = at
            size, at = read_varint(data, at)
            end = at + size
            if size < 0 or end > len(data):
                raise InvalidRecords(f"a record of {size} bytes has only {len(data) - at} left")
            delta, at = read_varint(data, at + 1)
            offset_delta, at = read_varint(data, at)
            key_size, at = read_varint(data, at)
            key = None
            if key_size >= 0:
                key = data[at : at + key_size]
                at += key_size
            value_size, at = read_varint(data, at)
            if at > end:
                raise InvalidRecords("the fields of a record are longer than the record")
            offset = header.base_offset + offset_delta
            timestamp = header.base_timestamp + delta
            found.append(LocatedRecord(start, end, offset, timestamp, key, value_size < 0))
            at = end
    except IndexError:
        raise InvalidRecords("a batch ends inside a record") from None
    return found


def _skip_headers(data: Buffer, at: int, end: int) -> int:
    """Return the position after a record's headers, which is `end`."""
    count, at = read_varint(data, at)
    if not 0 <= count <= max(end - at, 0):
        raise InvalidRecords(f"{count} headers in {end - at} bytes")
    for _ in range(count):
        size, at = read_varint(data, at)
        if size < 0:
            raise InvalidRecords("a header without a key")
        size, at = read_varint(data, at + size)
        at += max(size, 0)
    if at != end:
        raise InvalidRecords(f"the fields of a record end {abs(at - end)} bytes from its end")
    return at
