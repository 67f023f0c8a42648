"""`batch_validation`: the batches that a leader refuses or changes, and the error codes."""

import struct
from pathlib import Path

import pytest

from barnabas.log import LogConfig, PartitionLog, RecordsRefusedError
from barnabas.log.record_work import UNPACKED_MAX
from barnabas.protocol.batches.batch_header import crc_matches, iter_batches, read_header
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.batches.record_decoding import read_records
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.testing.batches import NOW_MS, batch, marker
from tests.log.logs import append, new_log, open_volume, read_values


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    log = new_log(open_volume(tmp_path / "data"))
    yield log
    log.volume.unlock()


def patched(data: bytearray, at: int, form: str, value: int) -> bytearray:
    """Return the batch with one field changed and a valid crc."""
    from crc32c import crc32c

    struct.pack_into(form, data, at, value)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return data


def refused(log: PartitionLog, data: bytearray, origin="client") -> KafkaError:
    end, size = log.log_end_offset, log.size_bytes
    with pytest.raises(KafkaError) as raised:
        log.append_as_leader(data, leader_epoch=0, now_ms=NOW_MS, origin=origin)
    assert (log.log_end_offset, log.size_bytes) == (end, size)
    return raised.value


ATTRIBUTES, DELTA, MAX_TIMESTAMP, COUNT = 21, 23, 35, 57


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (bytearray(), ErrorCode.CORRUPT_MESSAGE),
        (batch(b"x")[:40], ErrorCode.CORRUPT_MESSAGE),
        (batch(b"x") + b"y", ErrorCode.CORRUPT_MESSAGE),
        (batch(b"x") + batch(b"y"), ErrorCode.CORRUPT_MESSAGE),
        (patched(batch(b"x"), 8, ">i", 5), ErrorCode.CORRUPT_MESSAGE),
        (patched(batch(b"x"), 8, ">i", -1), ErrorCode.CORRUPT_MESSAGE),
        (patched(batch(b"x"), 16, ">b", 3), ErrorCode.CORRUPT_MESSAGE),
        (patched(batch(b"x"), 16, ">b", 1), ErrorCode.INVALID_RECORD),
        (patched(batch(b"x"), 0, ">q", 4), ErrorCode.INVALID_RECORD),
        (patched(batch(b"x"), COUNT, ">i", 2), ErrorCode.INVALID_RECORD),
        (patched(batch(b"x"), COUNT, ">i", 0), ErrorCode.INVALID_RECORD),
        (patched(patched(batch(b"x"), COUNT, ">i", 2), DELTA, ">i", 1), ErrorCode.INVALID_RECORD),
        (patched(batch(b"x"), DELTA, ">i", 7), ErrorCode.INVALID_RECORD),
        (patched(batch(b"x"), DELTA, ">i", -2), ErrorCode.INVALID_RECORD),
        (marker(1, commit=True), ErrorCode.INVALID_RECORD),
        (batch(b"x", producer=(3, 0, -1)), ErrorCode.INVALID_RECORD),
        (patched(batch(b"x"), ATTRIBUTES, ">h", 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (patched(batch(b"x"), ATTRIBUTES, ">h", 8), ErrorCode.INVALID_TIMESTAMP),
        (batch(b"x", timestamps=[NOW_MS + 3_600_001]), ErrorCode.INVALID_TIMESTAMP),
        (batch(b"x" * 1_048_600), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_invalid_batch_is_refused_with_the_code_of_kafka(log, data, code) -> None:
    assert refused(log, data).code is code


def test_batch_with_a_wrong_crc_is_a_corrupt_message(log) -> None:
    data = batch(b"value")
    data[-2] ^= 1
    assert refused(log, data).code is ErrorCode.CORRUPT_MESSAGE


def test_batch_larger_than_a_segment_is_refused(tmp_path) -> None:
    log = new_log(open_volume(tmp_path / "data"), LogConfig(segment_bytes=100))
    assert refused(log, batch(b"x" * 100)).code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_compacted_topic_refuses_records_without_keys_by_index(tmp_path) -> None:
    log = new_log(open_volume(tmp_path / "data"), LogConfig(is_compacted=True, is_deleted=False))
    error = refused(log, batch(b"a", b"b", b"c", keys=[b"k", None, b"k"]))
    assert error.code is ErrorCode.INVALID_RECORD
    assert isinstance(error, RecordsRefusedError)
    assert [index for index, _ in error.record_errors] == [1]
    append(log, b"a", None, keys=[b"k", b"k"])
    assert read_values(log) == [b"a", None]


def test_records_that_do_not_parse_are_refused_when_examined(tmp_path) -> None:
    log = new_log(open_volume(tmp_path / "data"), LogConfig(is_compacted=True))
    data = batch(b"abcdef", keys=[b"k"], codec=Codec.GZIP)
    assert refused(log, patched(data, 70, ">q", 0)).code is ErrorCode.INVALID_RECORD


def test_timestamps_below_the_limit_are_refused_by_record(tmp_path) -> None:
    config = LogConfig(timestamp_before_max_ms=1000)
    log = new_log(open_volume(tmp_path / "data"), config)
    error = refused(log, batch(b"a", b"b", timestamps=[NOW_MS - 1001, NOW_MS]))
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [0]
    append(log, b"a", timestamps=[NOW_MS - 1000])
    append(log, b"a", timestamps=[-1])  # without timestamps, no record is too old


def test_timestamps_above_the_limit_are_refused_by_record(tmp_path) -> None:
    log = new_log(open_volume(tmp_path / "data"), LogConfig(timestamp_after_max_ms=1000))
    error = refused(log, batch(b"a", b"b", b"c", timestamps=[NOW_MS, NOW_MS + 1001, NOW_MS + 1000]))
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    ((index, reason),) = error.record_errors
    assert index == 1
    assert f"Timestamp {NOW_MS + 1001} of message with offset 1 is out of range" in reason
    assert f"{NOW_MS + 1000}]" in reason
    large = refused(log, batch(bytes(100_000), timestamps=[NOW_MS + 1001]))
    assert [index for index, _ in large.record_errors] == [0]
    damaged = patched(batch(b"a", b"b", timestamps=[NOW_MS, NOW_MS + 1001]), 61, ">b", 99)
    assert refused(log, damaged).record_errors == []


@pytest.mark.parametrize("codec", list(Codec))
def test_log_append_time_sets_all_timestamps_and_the_crc(tmp_path, codec) -> None:
    log = new_log(open_volume(tmp_path / "data"), LogConfig(log_append_time=True))
    data = batch(b"a", b"b", timestamps=[5, NOW_MS * 2], codec=codec)
    info = log.append_as_leader(data, leader_epoch=3, now_ms=NOW_MS)
    assert info.log_append_time_ms == NOW_MS
    stored = log.read(0, 1000, upper_bound=2).read()
    header = read_header(stored)
    assert crc_matches(stored, 0, header)
    assert (header.max_timestamp, header.partition_leader_epoch) == (NOW_MS, 3)
    assert [each.timestamp for each in read_records(stored, 0, header)] == [NOW_MS, NOW_MS]
    assert log.offset_for_timestamp(NOW_MS) == (NOW_MS, 0, 3)


@pytest.mark.parametrize("target", list(Codec))
@pytest.mark.parametrize("source", list(Codec))
def test_batch_is_stored_with_the_codec_of_the_topic(tmp_path, source, target) -> None:
    log = new_log(open_volume(tmp_path / "data"), LogConfig(codec=target))
    values = [b"value" * 50, None, b""]
    data = batch(*values, codec=source, producer=(4, 1, 9), keys=[b"k", None, b""])
    log.append_as_leader(data, leader_epoch=0, now_ms=NOW_MS)
    stored = log.read(0, 4000, upper_bound=3).read()
    [(_, header)] = iter_batches(stored)
    assert header.codec is target
    assert crc_matches(stored, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 1, 9)
    records = read_records(stored, 0, header)
    assert [(each.key, each.value) for each in records] == list(
        zip([b"k", None, b""], values, strict=True)
    )


def test_batch_that_unpacks_to_too_much_is_refused_in_bounded_memory(tmp_path) -> None:
    log = new_log(open_volume(tmp_path / "data"), LogConfig(codec=Codec.LZ4))
    data = batch(b"\0" * (UNPACKED_MAX + 1), codec=Codec.ZSTD)
    assert len(data) < 20_000
    assert refused(log, data).code is ErrorCode.INVALID_RECORD


# Followers


def test_follower_appends_batches_unchanged(log, tmp_path) -> None:
    append(log, b"a", b"b", epoch=2)
    append(log, b"c", epoch=4, producer=(1, 0, 0))
    data = log.read(0, 1000, upper_bound=3).read()
    other = new_log(open_volume(tmp_path / "other"))
    other.append_as_follower(data, now_ms=NOW_MS)
    assert other.read(0, 1000, upper_bound=3).read() == data
    assert other.epochs.entries == log.epochs.entries
    assert other.producers.find(1).last_sequence == 0
    with pytest.raises(KafkaError) as raised:
        other.append_as_follower(data, now_ms=NOW_MS)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_follower_refuses_a_damaged_batch_and_keeps_earlier_ones(log, tmp_path) -> None:
    append(log, b"a")
    append(log, b"b")
    data = bytearray(log.read(0, 1000, upper_bound=2).read())
    data[-1] ^= 1
    other = new_log(open_volume(tmp_path / "other"))
    with pytest.raises(KafkaError) as raised:
        other.append_as_follower(data, now_ms=NOW_MS)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
    assert read_values(other) == [b"a"]


def test_follower_batch_far_above_an_empty_segment_rolls(log) -> None:
    data = batch(b"far")
    struct.pack_into(">q", data, 0, 2**40)
    log.append_as_follower(data, now_ms=NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [2**40]
    assert log.read(2**40, 100, upper_bound=2**40 + 1).size == len(data)
