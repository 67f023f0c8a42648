"""`log_loading`: damaged and unknown files are found, logged, and repaired if possible."""

import logging
import os
import struct
import zlib
from pathlib import Path

import pytest

from barnabas.log import LogConfig, PartitionLog
from barnabas.log.segment.segment_index import AbortedTxn, OffsetIndex, TimeIndex, TransactionIndex
from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.testing.batches import NOW_MS
from tests.log.logs import (
    TOPIC_ID,
    append,
    append_marker,
    new_log,
    open_volume,
    read_values,
    reopen,
)

SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=100)
VALUES = [b"%04d" % number * 5 for number in range(60)]


@pytest.fixture
def log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> PartitionLog:
    """Return a log with sixty records in three segments, after a clean stop."""
    caplog.set_level(logging.INFO, "barnabas")
    logging.getLogger("barnabas").propagate = True
    log = new_log(open_volume(tmp_path / "data"), SMALL)
    for number, value in enumerate(VALUES):
        append(log, value, timestamps=[1000 + number], producer=(5, 0, number))
    log.close()
    log.release()
    yield log
    log.volume.unlock()


def is_whole(log: PartitionLog) -> None:
    assert read_values(log) == VALUES
    for number in (0, 17, 59):
        assert log.offset_for_timestamp(1000 + number) == (1000 + number, number, 0)
        assert read_values(log, number) == VALUES[number:]
    assert log.offset_for_timestamp(1060) is None


def files(log: PartitionLog, suffix: str) -> list[Path]:
    return sorted(Path(log.directory).glob(f"*{suffix}"))


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("recover", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("damage", ["gone", "cut", "other", "emptied"])
def test_damaged_indexes_are_rebuilt(log, caplog, suffix, recover, damage) -> None:
    assert len(files(log, suffix)) == 3
    for file in files(log, suffix):
        content = file.read_bytes()
        if damage == "gone":
            file.unlink()
        else:
            file.write_bytes({"cut": content[:-3], "other": b"\x7f" * 24, "emptied": b""}[damage])
    again = reopen(log, recover=recover)
    is_whole(again)
    if (suffix, damage) != (".index", "emptied") and not recover:
        assert "rebuilding indexes" in caplog.text
    again.close()
    again.release()
    is_whole(reopen(log, recover=False))


@pytest.mark.parametrize("stale", [b"", b"\x7f" * 24], ids=["empty", "stale"])
def test_log_that_was_empty_at_a_clean_stop_gets_its_indexes_with_its_first_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, stale: bytes
) -> None:
    """Its time index has no entry, which is not damage."""
    log = new_log(open_volume(tmp_path / "data"), SMALL)
    log.close()
    log.release()
    for suffix in (".index", ".timeindex"):
        (file,) = files(log, suffix)
        file.write_bytes(stale)
    again = reopen(log, recover=False)
    for number, value in enumerate(VALUES):
        append(again, value, timestamps=[1000 + number], producer=(5, 0, number))
    is_whole(again)
    again.close()
    again.release()
    is_whole(reopen(again, recover=False))
    assert "rebuilding" not in caplog.text
    log.volume.unlock()


@pytest.mark.parametrize("recover", [False, True], ids=["stopped", "killed"])
def test_index_of_kafka_with_full_size_ends_at_the_first_zero_entry(log, recover) -> None:
    """Apache Kafka maps its indexes at segment.index.bytes, their size after a kill."""
    counts = {}
    for suffix, size in ((".index", 8), (".timeindex", 12)):
        for file in files(log, suffix):
            counts[file] = file.stat().st_size
            os.truncate(file, 10 << 20 - (10 << 20) % size)
    again = reopen(log, recover=recover)
    is_whole(again)
    append(again, b"more", timestamps=[2000])
    assert again.offset_for_timestamp(1999) == (2000, 60, 0)
    again.close()
    active = [f for f in counts if f.stem == files(log, ".log")[-1].stem]
    assert all(f.stat().st_size < 4096 for f in active), "the zero entries are cut off"


def test_index_entry_that_does_not_point_to_a_batch_causes_a_rebuild(log, caplog) -> None:
    file = files(log, ".index")[0]
    content = bytearray(file.read_bytes())
    content[7] ^= 5  # the position of the first entry
    file.write_bytes(content)
    is_whole(reopen(log, recover=False))
    assert "does not point to a batch" in caplog.text


@pytest.mark.parametrize("content", [b"", b"\0\2", os.urandom(40)], ids=["empty", "short", "noise"])
def test_damaged_snapshot_is_removed_and_producers_are_read_from_batches(
    log, caplog, content
) -> None:
    for file in files(log, ".snapshot"):
        file.write_bytes(content)
    again = reopen(log, recover=False)
    assert "removing damaged producer snapshot" in caplog.text
    assert again.producers.find(5).last_sequence == 59
    is_whole(again)


@pytest.mark.parametrize("content", [b"nonsense", b"0\n5\n0 0\n", b"0\n2\n3 9\n1 0\n"])
def test_damaged_leader_epochs_are_rebuilt_from_the_batches(log, caplog, content) -> None:
    (Path(log.directory) / "leader-epoch-checkpoint").write_bytes(content)
    again = reopen(log, recover=False)
    assert "rebuilding leader epochs" in caplog.text
    assert again.epochs.entries == [(0, 0)]


@pytest.mark.parametrize("content", [b"", b"version: 9\n", b"version: 0\ntopic_id: ???"])
def test_damaged_partition_metadata_gives_no_topic_id(log, caplog, content) -> None:
    (Path(log.directory) / "partition.metadata").write_bytes(content)
    again = reopen(log, recover=False)
    assert again.topic_id is None
    assert "partition.metadata" in caplog.text
    again.adopt(TOPIC_ID)
    assert reopen(log, recover=False).topic_id == TOPIC_ID


def test_unknown_files_are_logged_and_kept(log, caplog) -> None:
    directory = Path(log.directory)
    names = ("notes.txt", "notes.log", "5.log", "00000000000000000000.bak")
    foreign = [directory / name for name in names]
    for path in foreign:
        path.write_text("mine")
    (directory / "00000000000000000099.log").mkdir()
    config = LogConfig(retention_bytes=log.size_bytes, retention_ms=-1)
    closed = PartitionLog(log.volume, log.topic, log.partition, config)
    assert closed.size_bytes == log.size_bytes
    assert not closed.retention_is_due(NOW_MS)
    again = reopen(log, recover=True)
    is_whole(again)
    assert all(path.read_text() == "mine" for path in foreign)
    assert "notes.txt" in caplog.text
    assert "5.log" in caplog.text
    assert "00000000000000000099.log" in caplog.text


def test_files_of_interrupted_operations_are_removed(log) -> None:
    directory = Path(log.directory)
    left = [
        directory / name
        for name in (
            "00000000000000000000.log.deleted",
            "00000000000000000003.index.cleaned",
            "leader-epoch-checkpoint.tmp",
            "00000000000000000777.timeindex",
        )
    ]
    for path in left:
        path.write_bytes(b"x")
    is_whole(reopen(log, recover=False))
    assert not any(path.exists() for path in left)


def test_damaged_batch_above_the_recovery_point_ends_the_log(log, caplog) -> None:
    file = files(log, ".log")[1]
    content = bytearray(file.read_bytes())
    content[content.index(VALUES[30])] ^= 1
    file.write_bytes(content)
    log.recovery_point = 0
    again = reopen(log, recover=True)
    values = read_values(again)
    assert len(values) == 30
    assert values == VALUES[: len(values)]
    assert f"truncated log={file}" in caplog.text
    assert len(files(log, ".log")) == 2


def test_segment_without_its_last_batches_ends_the_log(log, caplog) -> None:
    """A follower would never fetch the records in such a gap."""
    first, second, _ = files(log, ".log")
    batches = list(iter_batches(first.read_bytes()))
    os.truncate(first, batches[10][0])
    log.recovery_point = 0
    again = reopen(log, recover=True)
    assert read_values(again) == VALUES[:10]
    assert not second.exists()
    assert f"truncated log={first} offset=10" in caplog.text


def test_damaged_batch_below_the_recovery_point_is_served_unchanged(log) -> None:
    """As Kafka does: the client's crc finds it."""
    file = files(log, ".log")[0]
    content = bytearray(file.read_bytes())
    content[70] ^= 1
    file.write_bytes(content)
    again = reopen(log, recover=True)
    assert again.log_end_offset == 60


def test_read_of_a_damaged_length_raises_corrupt_message(log) -> None:
    file = files(log, ".log")[0]
    content = bytearray(file.read_bytes())
    content[8:12] = (3).to_bytes(4, "big")
    file.write_bytes(content)
    again = reopen(log, recover=False)
    with pytest.raises(KafkaError) as raised:
        again.read(1, 1000, upper_bound=60)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
    assert again.volume.failure is None, "the volume stays online"
    assert again.read(45, 1000, upper_bound=60).size > 0


def old_message(offset: int, magic: int) -> bytes:
    """Return a message without a key, as Kafka wrote it before 0.11."""
    time = struct.pack(">q", 1000) if magic else b""
    body = bytes([magic, 0]) + time + struct.pack(">ii", -1, 5) + b"value"
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(message)) + message


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("count", [1, 10])
@pytest.mark.parametrize("recover", [False, True], ids=["stopped", "killed"])
def test_messages_of_formats_0_and_1_are_refused_and_kept(
    log, caplog, magic, count, recover
) -> None:
    """Apache Kafka serves them; a clean start finds them after the last batch."""
    active = files(log, ".log")[-1]
    content = b"".join(old_message(60 + number, magic) for number in range(count))
    active.write_bytes(active.read_bytes() + content)
    size = active.stat().st_size
    with pytest.raises(KafkaError, match=f"a message of format {magic}") as raised:
        reopen(log, recover=recover)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
    assert active.stat().st_size == size
    assert "barnabas does not read this format" in caplog.text
    assert log.volume.failure is None, "the volume stays online"


def test_damaged_message_of_format_1_is_cut(log) -> None:
    active = files(log, ".log")[-1]
    torn = bytearray(old_message(60, 1) * 3)
    torn[20] ^= 1
    active.write_bytes(active.read_bytes() + torn)
    is_whole(reopen(log, recover=True))


def test_torn_batch_after_a_clean_stop_is_cut(log, caplog) -> None:
    """Otherwise no reader could read past these bytes to the next batch."""
    with files(log, ".log")[-1].open("ab") as file:
        file.write(b"\0" * 30)
    again = reopen(log, recover=False)
    assert "no whole batch" in caplog.text
    append(again, b"more", timestamps=[1060])
    assert read_values(again) == [*VALUES, b"more"]


def test_recovery_rebuilds_the_transaction_index(tmp_path) -> None:
    log = new_log(open_volume(tmp_path / "data"), SMALL)
    append(log, b"x", producer=(9, 0, 0), transactional=True)
    append_marker(log, 9, commit=False)
    log.advance_high_watermark(log.log_end_offset)
    before = log.aborted_transactions(0, 9)
    file = files(log, ".txnindex")[0]
    for damaged in (b"", file.read_bytes()[:-1], file.read_bytes() * 2):
        file.write_bytes(damaged)
        assert reopen(log, recover=True).aborted_transactions(0, 9) == before


def test_damaged_transaction_index_after_a_clean_stop_is_rebuilt(tmp_path, caplog) -> None:
    logging.getLogger("barnabas").propagate = True
    log = new_log(open_volume(tmp_path / "data"), LogConfig(segment_bytes=300))
    for number in range(6):
        append(log, b"x" * 90, producer=(9, 0, number), transactional=True)
        append_marker(log, 9, commit=False)
    log.advance_high_watermark(log.log_end_offset)
    before = log.aborted_transactions(0, 99)
    assert len(before) == 6
    log.close()
    indexes = files(log, ".txnindex")
    assert len(indexes) > 3
    indexes[1].write_bytes(indexes[1].read_bytes()[:-1])
    again = reopen(log, recover=False)
    assert again.aborted_transactions(0, 99) == before
    assert again.producers.find(9).last_sequence == 5
    assert f"rebuilding transaction index segment={indexes[1].with_suffix('.log')}" in caplog.text


# Index files


def test_index_search_finds_the_last_entry_up_to_the_value(tmp_path) -> None:
    volume = open_volume(tmp_path / "data")
    index = OffsetIndex(f"{tmp_path}/x.index", volume.files)
    entries = [(number * 3, number * 100 + 61) for number in range(1000)]
    for count, entry in enumerate(entries):
        index.append(*entry)
        if count in (0, 255, 256, 999):
            for value in (-1, 0, 1, 3 * count - 1, 3 * count, 3 * count + 7):
                below = [n for n, e in enumerate(entries[: count + 1]) if e[0] <= value]
                assert index.search(value) == (below[-1] if below else -1)
    index.finish()
    again = OffsetIndex(index.path, volume.files)
    assert len(again) == 1000
    assert again.last() == entries[-1]
    assert [again.entry(again.search(e[0])) for e in entries[::50]] == entries[::50]
    again.truncate(300)
    assert again.last() == entries[299]


def test_time_index_ignores_timestamps_that_are_not_later(tmp_path) -> None:
    volume = open_volume(tmp_path / "data")
    index = TimeIndex(f"{tmp_path}/x.timeindex", volume.files)
    for timestamp, offset in ((0, 0), (10, 1), (10, 2), (5, 3), (11, 4)):
        index.append(timestamp, offset)
    assert [index.entry(number) for number in range(len(index))] == [(0, 0), (10, 1), (11, 4)]


def test_time_index_with_one_zero_entry_has_timestamp_0(tmp_path) -> None:
    volume = open_volume(tmp_path / "data")
    log = new_log(volume)
    append(log, b"x", timestamps=[0])
    log.close()
    assert reopen(log, recover=False).offset_for_timestamp(0) == (0, 0, 0)


def test_transaction_index_check_finds_the_faults_that_kafka_finds(tmp_path) -> None:
    index = TransactionIndex(f"{tmp_path}/x.txnindex")
    assert index.fault(0) is None
    index.append(AbortedTxn(1, 0, 5, 6))
    assert index.fault(0) is None
    assert index.fault(9) == "has an entry below the segment's base offset 9"
    with open(index.path, "ab") as file:
        file.write(b"x")
    assert index.fault(0) == "has 35 bytes, which is not a multiple of the entry size"
    assert index.read() == [AbortedTxn(1, 0, 5, 6)]


def test_records_without_timestamps_roll_by_the_age_of_their_segment(tmp_path) -> None:
    log = new_log(open_volume(tmp_path / "data"), LogConfig(segment_ms=1000))
    append(log, b"x", timestamps=[-1])
    log = reopen(log, recover=False)
    append(log, b"y", timestamps=[-1])
    assert len(log.segments) == 1, "a start does not cause a roll"
    assert NOW_MS > 0


def test_append_after_a_damaged_first_batch_is_refused_and_reads_work(log, caplog) -> None:
    """Rolls use its timestamp; `LogSegment.loadFirstBatchTimestamp` throws there."""
    last = files(log, ".log")[-1]
    with last.open("r+b") as file:
        os.pwrite(file.fileno(), b"\xff" * 4, 8)  # its length
    again = reopen(log, recover=False)
    end = again.log_end_offset
    for _ in range(2):
        with pytest.raises(KafkaError) as caught:
            append(again, b"refused")
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
        assert (
            caught.value.message == f"damaged: {last} at 0: an impossible batch length of -1 bytes"
        )
    assert f"{last} at 0" in caplog.text
    assert again.volume.failure is None
    assert again.log_end_offset == end == len(VALUES)
    assert read_values(again, end - 1) == VALUES[-1:]
    base = int(last.stem)
    assert again.read(0, 1 << 20, upper_bound=base).read()
