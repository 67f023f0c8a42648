"""A batch's records walked through, none of them built: what a leader judges, and their times."""

from collections.abc import Callable, Iterator
from typing import Final, Literal

import attrs

from barnabas.protocol.batches.batch import (
    NO_TIMESTAMP,
    BatchHeader,
    InvalidRecords,
    read_varint,
)
from barnabas.protocol.batches.compression import Buffer

FAULTS_MAX: Final = 1000
"""So many faults of a batch's records are told; a client is not helped by more."""

_LONG_MIN: Final = -(1 << 63)
_LONG_MAX: Final = (1 << 63) - 1


@attrs.frozen
class RecordFault:
    """What is wrong with the record at `index` of its batch."""

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
    """The checks that need records (`LogValidator`), of what `unpack_records` gave.

    A key in every record of a compacted topic, offsets in steps of one, and timestamps (ms)
    within the topic's bounds where given; it ends at `FAULTS_MAX`. Also gives the largest timestamp
    (ms). Raises `CorruptBatch` where the records do not parse.
    """
    base_timestamp = header.base_timestamp
    lowest = _LONG_MIN if timestamp_min is None else max(timestamp_min, _LONG_MIN)
    highest = _LONG_MAX if timestamp_max is None else min(timestamp_max, _LONG_MAX)
    bounds = lowest - base_timestamp, highest - base_timestamp
    faults: list[RecordFault] = []

    def judge(index: int, offset_delta: int, delta: int, key_size: int) -> bool:
        """Take down what is wrong with a record that seems so; whether to go on."""
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
        latest = _walk(data, header.record_count, bounds, compacted, judge)
    except IndexError:
        raise InvalidRecords("a batch ends inside a record") from None
    return faults, max(NO_TIMESTAMP, base_timestamp + latest)


def _walk(
    data: bytes,
    count: int,
    bounds: tuple[int, int],
    compacted: bool,
    judge: Callable[[int, int, int, int], bool],
) -> int:
    """Parse so many records, and let `judge` see those that are not plainly sound.

    The largest timestamp, like `bounds` counted from the batch's own. IndexError, InvalidRecords.
    """
    at, data_end = 0, len(data)
    lowest, highest = bounds
    largest = _LONG_MIN * 2
    # Varints of one byte or two are read here: a call for each would double the time.
    for index in range(count):
        size, at = data[at], at + 1
        if size > 0x7F:
            size, at = size + (data[at] << 7) - 0x80, at + 1
            if size > 0x3FFF:
                size, at = _longer(data, at, size)
        end = at + (size >> 1)
        if size & 1 or end > data_end:
            raise InvalidRecords(f"a record of {_signed(size)} bytes, {data_end - at} are left")
        delta, at = data[at + 1], at + 2
        if delta > 0x7F:
            delta, at = delta + (data[at] << 7) - 0x80, at + 1
            if delta > 0x3FFF:
                delta, at = _longer(data, at, delta)
        delta = (delta >> 1) ^ -(delta & 1)
        if delta > largest:
            largest = delta
        offset, at = data[at], at + 1
        if offset > 0x7F:
            offset, at = offset + (data[at] << 7) - 0x80, at + 1
            if offset > 0x3FFF:
                offset, at = _longer(data, at, offset)
        key_size, at = data[at], at + 1
        if key_size > 0x7F:
            key_size, at = _longer(data, at, key_size, 7)
        if not key_size & 1:
            at += key_size >> 1
        value_size, at = data[at], at + 1
        if value_size > 0x7F:
            value_size, at = value_size + (data[at] << 7) - 0x80, at + 1
            if value_size > 0x3FFF:
                value_size, at = _longer(data, at, value_size)
        if not value_size & 1:
            at += value_size >> 1
        if at + 1 == end and not data[at]:
            at = end  # no headers, as in most records
        else:
            at = _skip_headers(data, at, end)
        is_suspect = offset != index << 1 or not lowest <= delta <= highest
        if (is_suspect or (compacted and key_size & 1)) and not judge(
            index, _signed(offset), delta, _signed(key_size)
        ):
            return largest
    if at != data_end:
        raise InvalidRecords(f"{data_end - at} bytes behind the last record")
    return largest


def _longer(data: bytes, at: int, value: int, bits: int = 14) -> tuple[int, int]:
    """A varint, of which so many bits and a sign that more follow are in `value`; not zigzag.

    It takes ten bytes at most. Also the position behind it.
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
    """Timestamp (ms) and offset of each record in what `unpack_records` gave; `CorruptBatch`."""
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    at = 0
    try:
        for _ in range(header.record_count):
            size, at = read_varint(data, at)
            end = at + size
            if size < 0 or end > len(data):
                raise InvalidRecords(f"a record of {size} bytes, {len(data) - at} are left")
            delta, at = read_varint(data, at + 1)
            offset_delta, _ = read_varint(data, at)
            timestamp = base_timestamp + delta if append_time is None else append_time
            yield timestamp, base_offset + offset_delta
            at = end
    except IndexError:
        raise InvalidRecords("a batch ends inside a record") from None


def _skip_headers(data: Buffer, at: int, end: int) -> int:
    """Walk over a record's headers; the position behind them, which is `end`."""
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
        raise InvalidRecords(f"a record's fields end {abs(at - end)} bytes off its end")
    return at
