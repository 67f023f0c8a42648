"""Record batches: header, in-place changes, records, and errors for damaged batches."""

import struct
import sys
import time
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.batches import crc
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.batch_header import (
    BatchHeader,
    CorruptBatch,
    InvalidRecords,
    UnsupportedMagic,
    assign_offset,
    crc_matches,
    iter_batches,
    read_header,
    set_log_append_time,
)
from barnabas.protocol.batches.batch_layout import HEADER_SIZE
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.batches.record_decoding import Record, read_records, unpack_records
from barnabas.protocol.batches.record_walk import (
    RecordFault,
    locate_records,
    record_times,
    validate_unpacked,
)

with warnings.catch_warnings():  # kafka-python reads its schemas through a deprecated call
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

NOW_MS = 1_700_000_000_000

# The difference of any two timestamps fits into the 64 bits of a timestamp delta.
record_values = st.tuples(
    st.integers(-(1 << 62), (1 << 62) - 1),
    st.none() | st.binary(max_size=70),
    st.none() | st.binary(max_size=300),
    st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3),
)


def records_from(values: list[tuple], base_offset: int = 0) -> list[Record]:
    return [
        Record(base_offset + index, timestamp, key, value, tuple(headers))
        for index, (timestamp, key, value, headers) in enumerate(values)
    ]


def plain_records(count: int) -> list[Record]:
    return [Record(i, NOW_MS + i, b"key-%d" % i, b"value-%d" % i) for i in range(count)]


def recrc(batch: bytearray) -> bytearray:
    """Return the batch with a crc that matches its bytes."""
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return batch


def validate_records(
    batch: bytearray, pos: int, header: BatchHeader, **bounds: Any
) -> list[RecordFault]:
    faults, _ = validate_unpacked(unpack_records(batch, pos, header), header, **bounds)
    return faults


def varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def batch_of(body: bytes, count: int) -> bytearray:
    """Return a batch with a valid header and crc over given encoded records."""
    batch = build_batch(plain_records(1))[:HEADER_SIZE] + body
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">i", batch, 23, count - 1)
    struct.pack_into(">i", batch, 57, count)
    return recrc(batch)


@given(
    values=st.lists(record_values, min_size=1, max_size=20),
    codec=st.sampled_from(Codec),
    base_offset=st.integers(0, 1 << 62),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_build_batch_reads_back_as_the_same_records(
    values: list[tuple], codec: Codec, base_offset: int
) -> None:
    records = records_from(values, base_offset)
    batch = build_batch(records, base_offset=base_offset, codec=codec)
    header = read_header(batch)
    assert crc_matches(batch, 0, header)
    assert header.size == len(batch)
    assert header.record_count == len(records)
    assert header.next_offset == base_offset + len(records)
    assert header.max_timestamp == max(-1, *(record.timestamp for record in records))
    assert read_records(batch, 0, header) == records
    assert validate_records(batch, 0, header) == []


@given(values=st.lists(record_values, min_size=1, max_size=20), codec=st.sampled_from(Codec))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_walks_over_records_equal_decoded_records(values: list[tuple], codec: Codec) -> None:
    """The walks parse records separately for speed."""
    records = records_from(values, 7)
    batch = build_batch(records, base_offset=7, codec=codec)
    header = read_header(batch)
    data = unpack_records(batch, 0, header)
    located = locate_records(data, header)
    assert [(each.offset, each.timestamp, each.key) for each in located] == [
        (record.offset, record.timestamp, record.key) for record in records
    ]
    assert [each.is_tombstone for each in located] == [record.value is None for record in records]
    assert [each.start for each in located] == [0, *(each.end for each in located[:-1])]
    assert located[-1].end == len(data)
    assert list(record_times(data, header)) == [
        (record.timestamp, record.offset) for record in records
    ]


@given(values=st.lists(record_values, min_size=1, max_size=10))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_build_batch_equals_kafka_python(values: list[tuple]) -> None:
    values = [(abs(timestamp), *rest) for timestamp, *rest in values]
    theirs = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    for offset, (timestamp, key, value, headers) in enumerate(values):
        theirs.append(offset, timestamp, key, value, headers)
    expected = bytearray(theirs.build())
    assign_offset(expected, 0, 0, -1)
    assert build_batch(records_from(values)) == expected


@pytest.mark.parametrize("codec", Codec)
def test_build_batch_is_readable_by_kafka_python(codec: Codec) -> None:
    records = [Record(i, NOW_MS, b"k", b"v" * i, (("h", b"x"), ("n", None))) for i in range(300)]
    read = list(DefaultRecordBatch(bytes(build_batch(records, codec=codec))))
    assert [(r.offset, r.timestamp, r.key, r.value) for r in read] == [
        (r.offset, r.timestamp, r.key, r.value) for r in records
    ]
    assert read[0].headers == [("h", b"x"), ("n", None)]


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_read_records_of_a_kafka_python_batch_returns_its_records(codec: int) -> None:
    theirs = DefaultRecordBatchBuilder(2, codec, False, 7, 3, 9, 1 << 30)
    for offset in range(500):
        theirs.append(offset, NOW_MS + offset, b"key", b"value %d" % offset, [])
    try:
        batch = theirs.build()
    except Exception as error:  # a codec whose library is not installed here
        pytest.skip(str(error))
    header = read_header(batch)
    assert (header.codec, header.producer_id, header.producer_epoch) == (codec, 7, 3)
    assert (header.base_sequence, header.last_sequence) == (9, 508)
    assert [r.value for r in read_records(batch, 0, header)] == [
        b"value %d" % i for i in range(500)
    ]


def test_assign_offset_keeps_the_crc_valid() -> None:
    batch = build_batch(plain_records(5))
    assign_offset(batch, 0, 1 << 40, 17)
    header = read_header(batch)
    assert (header.base_offset, header.partition_leader_epoch) == (1 << 40, 17)
    assert crc_matches(batch, 0, header)
    assert read_records(batch, 0, header)[4].offset == (1 << 40) + 4


@pytest.mark.parametrize("position", [0, 5])
def test_set_log_append_time_changes_the_timestamp_of_every_record(position: int) -> None:
    batch = bytearray(position) + build_batch(plain_records(3)) + bytes(position)
    set_log_append_time(batch, position, NOW_MS + 99)
    header = read_header(batch, position)
    assert header.is_log_append_time
    assert crc_matches(batch, position, header)
    assert {r.timestamp for r in read_records(batch, position, header)} == {NOW_MS + 99}


def test_header_flags_match_the_attributes() -> None:
    batch = build_batch(
        plain_records(1),
        codec=Codec.ZSTD,
        producer_id=5,
        producer_epoch=1,
        base_sequence=0,
        is_transactional=True,
        is_control=True,
        log_append_time=True,
        leader_epoch=4,
    )
    header = read_header(batch)
    assert header.codec is Codec.ZSTD
    assert header.is_transactional
    assert header.is_control
    assert header.is_log_append_time
    assert header.has_producer_id
    assert not header.has_delete_horizon
    plain = read_header(build_batch(plain_records(1)))
    assert not plain.is_transactional
    assert not plain.is_control
    assert not plain.is_log_append_time
    assert not plain.has_producer_id
    assert plain.last_sequence == -1


def test_last_sequence_wraps_after_int32_max() -> None:
    batch = build_batch(plain_records(4), producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert read_header(batch).last_sequence == 1


def test_iter_batches_stops_at_a_truncated_batch() -> None:
    first, second = build_batch(plain_records(2)), build_batch(plain_records(3), base_offset=0)
    both = bytes(first + second)
    positions = [(0, 2), (len(first), 3)]
    for tail in (b"", both[:1], both[:40], both[: len(first) - 1]):
        found = [(pos, header.record_count) for pos, header in iter_batches(both + tail)]
        assert found == positions


def test_iter_batches_with_an_impossible_length_raises_corrupt_batch() -> None:
    for length in (-1, 0, -12, 48, -(1 << 31)):
        batch = build_batch(plain_records(1))
        struct.pack_into(">i", batch, 8, length)
        with pytest.raises(CorruptBatch):
            list(iter_batches(bytes(batch)))


def test_iter_batches_with_an_impossible_legacy_length_raises_corrupt_batch() -> None:
    batch = build_batch(plain_records(1))
    struct.pack_into(">i", batch, 8, -12)
    batch[16] = 1
    with pytest.raises(CorruptBatch):
        list(iter_batches(bytes(batch)))


def test_read_records_with_an_endless_varint_fails_in_linear_time() -> None:
    batch = batch_of(b"\xff" * 2_000_000, 1)
    started = time.process_time()
    with pytest.raises(InvalidRecords, match="ten bytes"):
        read_records(batch, 0, read_header(batch))
    assert time.process_time() - started < 10  # some milliseconds; in quadratic time, minutes


def test_read_header_of_a_legacy_message_raises_unsupported_magic() -> None:
    with pytest.raises(UnsupportedMagic):
        read_header(bytes(16) + b"\x01" + bytes(17))
    with pytest.raises(CorruptBatch) as caught:
        read_header(bytes(16) + b"\x02" + bytes(17))
    assert not isinstance(caught.value, UnsupportedMagic)
    with pytest.raises(CorruptBatch):
        read_header(b"")


def test_crc_matches_detects_every_flipped_bit() -> None:
    batch = build_batch(plain_records(2))
    header = read_header(batch)
    for at in range(17, len(batch)):
        damaged = bytearray(batch)
        damaged[at] ^= 0x10
        assert not crc_matches(damaged, 0, read_header(damaged)), at
    assert crc_matches(batch, 0, header)
    assert not crc_matches(batch[:-1], 0, header)


def test_codec_of_an_unknown_id_raises_invalid_records() -> None:
    batch = build_batch(plain_records(1))
    batch[22] |= 0x05
    header = read_header(recrc(batch))
    assert header.codec_id == 5
    with pytest.raises(InvalidRecords):
        read_records(batch, 0, header)


def good_record(**changes: bytes) -> bytes:
    parts = {
        "attributes": b"\0",
        "timestamp": varint(0),
        "offset": varint(0),
        "key_size": varint(1),
        "key": b"k",
        "value_size": varint(1),
        "value": b"v",
        "headers": varint(0),
    }
    parts.update(changes)
    body = b"".join(parts.values())
    return varint(len(body)) + body


BROKEN: dict[str, tuple[bytes, int]] = {
    "fewer records than the count": (good_record(), 2),
    "more records than the count": (good_record() + good_record(offset=varint(1)), 1),
    "a count that the bytes cannot hold": (good_record(), 1 << 30),
    "a negative count": (good_record(), -1),
    "a record longer than the batch": (varint(100) + good_record()[1:], 1),
    "a record of negative length": (varint(-3) + good_record()[1:], 1),
    "a record that is shorter than its fields": (varint(6) + good_record()[1:], 1),
    "a record that is longer than its fields": (good_record(value=b"vv"), 1),
    "a key longer than the record": (good_record(key_size=varint(1 << 28)), 1),
    "a value longer than the record": (good_record(value_size=varint(1 << 28)), 1),
    "a varint without an end": (b"\xff" * 20, 1),
    "more headers than bytes": (good_record(headers=varint(1 << 28)), 1),
    "a negative header count": (good_record(headers=varint(-1)), 1),
    "a header without a key": (good_record(headers=varint(1) + varint(-1) + varint(-1)), 1),
    "nothing": (b"", 1),
}


@pytest.mark.parametrize("reader", [read_records, validate_records])
@pytest.mark.parametrize("damage", BROKEN)
def test_read_records_that_contradict_the_header_raises_invalid_records(
    damage: str, reader: Callable[[bytearray, int, BatchHeader], object]
) -> None:
    body, count = BROKEN[damage]
    batch = batch_of(body, count)
    with pytest.raises(InvalidRecords):
        reader(batch, 0, read_header(batch))


@given(at=st.integers(HEADER_SIZE, 400), value=st.integers(0, 255), codec=st.sampled_from(Codec))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_read_records_with_a_changed_byte_returns_records_or_raises_corrupt_batch(
    at: int, value: int, codec: Codec
) -> None:
    batch = build_batch(plain_records(20), codec=codec)
    batch[min(at, len(batch) - 1)] = value
    header = read_header(batch)
    outcomes: list[object] = []
    for reader in (read_records, validate_records):
        try:
            reader(batch, 0, header)
        except CorruptBatch:
            outcomes.append("refused")
        else:
            outcomes.append("read")
    assert outcomes[0] == outcomes[1]


def test_read_records_of_a_decompression_bomb_stops_at_the_limit() -> None:
    batch = build_batch([Record(0, NOW_MS, None, bytes(1 << 20))], codec=Codec.ZSTD)
    assert len(batch) < 1000
    with pytest.raises(InvalidRecords):
        read_records(batch, 0, read_header(batch), max_bytes=1 << 19)


def test_validate_unpacked_of_a_compacted_topic_reports_null_keys() -> None:
    records = [Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS, None, b"v")]
    batch = build_batch(records)
    header = read_header(batch)
    assert validate_records(batch, 0, header) == []
    (fault,) = validate_records(batch, 0, header, compacted=True)
    assert (fault.index, fault.kind) == (1, "key")


def test_validate_unpacked_reports_each_timestamp_out_of_bounds() -> None:
    batch = build_batch([Record(i, NOW_MS + 10 * i, b"k", b"v") for i in range(4)])
    header = read_header(batch)
    faults = validate_records(batch, 0, header, timestamp_min=NOW_MS + 5, timestamp_max=NOW_MS + 25)
    assert [(fault.index, fault.kind) for fault in faults] == [(0, "timestamp"), (3, "timestamp")]


def test_validate_unpacked_reports_each_wrong_offset_delta() -> None:
    batch = batch_of(good_record() + good_record(offset=varint(2)), 2)
    (fault,) = validate_records(batch, 0, read_header(batch))
    assert (fault.index, fault.kind) == (1, "offset")


def test_read_records_replaces_invalid_utf8_in_header_names() -> None:
    batch = batch_of(good_record(headers=varint(1) + varint(1) + b"\xff" + varint(-1)), 1)
    (record,) = read_records(batch, 0, read_header(batch))
    assert record.headers == (("\ufffd", None),)


def test_build_batch_without_records_raises_value_error() -> None:
    with pytest.raises(ValueError, match="at least one"):
        build_batch([])


def test_crc32c_loads_without_an_extension_file_on_the_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "crc32c._crc32c")
    monkeypatch.setattr(crc, "PathFinder", SimpleNamespace(find_spec=lambda *_: None))
    assert crc._extension().crc32c(b"123456789") == 0xE3069283
