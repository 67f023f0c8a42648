"""`cleaner` and `segment_swap`: the last record of each key stays, after any kill too."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.log import LogConfig, LogManager, PartitionLog, Volume
from barnabas.log.compaction import cleaning_plan
from barnabas.log.compaction.cleaner import MapTooSmallError, clean
from barnabas.log.compaction.cleaning_job import CleanJob
from barnabas.log.directories.log_relocation import LogRelocation
from barnabas.protocol.batches.batch_header import CorruptBatch, crc_matches, iter_batches
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.batches.record_decoding import Record, read_records
from barnabas.testing.batches import NOW_MS
from tests.log.logs import append, append_marker, new_log, open_volume, reopen

DAY_MS = 86_400_000
CONFIG = LogConfig(
    segment_bytes=600,
    index_interval_bytes=150,
    is_compacted=True,
    is_deleted=False,
    min_cleanable_ratio=0.0,
    delete_retention_ms=DAY_MS,
    file_delete_delay_ms=0,
)
LIMITS = cleaning_plan.Limits(1 << 30, 0.9, 300, 1e15)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[PartitionLog]:
    log = new_log(open_volume(tmp_path / "data"), CONFIG)
    yield log
    log.volume.unlock()


def put(log: PartitionLog, key: bytes, value: bytes | None, **more: object) -> int:
    return append(log, value, keys=[key], **more)


def compact(log: PartitionLog, *, now_ms: int = NOW_MS, keys_max: int | None = None) -> bool:
    """Run one pass over all segments except the active one; False if nothing can be done."""
    log.flush_rolled()
    chosen = cleaning_plan.candidate(log, now_ms)
    if chosen is None:
        return False
    job = cleaning_plan.job_for(chosen, LIMITS, now_ms)
    if keys_max is not None:
        job = attrs.evolve(job, keys_max=keys_max)
    again = CleanJob.from_json(json.loads(json.dumps(attrs.asdict(job, recurse=False))))
    assert again == job
    for message in clean(job):
        if "group" in message:
            group = list(zip(message["group"], message["sizes"], strict=True))
            assert log.swap_cleaned(group, message["size"])
        else:
            log.first_dirty_offset = message["end_offset"]
    return True


def batches(log: PartitionLog) -> Iterator[tuple[bytes, int, object]]:
    at = log.log_start_offset
    while at < log.log_end_offset:
        data = log.read(at, 10_000, upper_bound=log.log_end_offset).read()
        if not data:
            return
        for position, header in iter_batches(data):
            assert crc_matches(data, position, header)
            assert header.base_offset >= at or at == log.log_start_offset
            yield data, position, header
            at = header.next_offset


def records(log: PartitionLog) -> list[Record]:
    """Return all data records, as a read_uncommitted consumer reads them."""
    return [
        record
        for data, position, header in batches(log)
        if not header.is_control
        for record in read_records(data, position, header)
    ]


def committed(log: PartitionLog) -> list[Record]:
    """Return the records that a read_committed consumer reads."""
    aborted = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    found = []
    for data, position, header in batches(log):
        gone = any(
            each.producer_id == header.producer_id
            and each.first_offset <= header.base_offset <= each.last_offset
            for each in aborted
        )
        if not header.is_control and not (header.is_transactional and gone):
            found += read_records(data, position, header)
    return found


def table(found: list[Record]) -> dict[bytes, bytes]:
    """Return the table that a consumer builds; a tombstone removes its key."""
    values: dict[bytes, bytes] = {}
    for record in found:
        if record.value is None:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
    return values


def fill_up(log: PartitionLog) -> None:
    """Roll, so that all records are in segments that are not active."""
    log.roll(NOW_MS)
    put(log, b"active", b"x")


def test_cleaner_keeps_the_last_record_of_each_key_at_its_offset(log) -> None:
    for number in range(40):
        put(log, b"k%d" % (number % 4), b"value %d" % number)
    fill_up(log)
    before = {record.offset: record for record in records(log)}
    size = log.size_bytes
    assert compact(log)
    after = records(log)
    assert [record.offset for record in after] == [36, 37, 38, 39, 40]
    assert all(before[record.offset] == record for record in after)
    assert log.size_bytes < size / 4
    assert (log.log_start_offset, log.log_end_offset) == (0, 41)
    assert log.first_dirty_offset == 40
    assert log.offset_for_timestamp(NOW_MS) == (NOW_MS, 36, 0)
    assert not compact(log)
    fill_up(log)
    compact(log)
    assert len(log.segments) == 2, "small segments are merged"


def test_read_at_a_removed_offset_starts_with_the_next_record(log) -> None:
    for number in range(40):
        put(log, b"k", b"value %d" % number)
    fill_up(log)
    compact(log)
    for each in (log, reopen(log, recover=True)):
        for offset in (0, 5, 39):
            found = each.read(offset, 1000, upper_bound=each.log_end_offset).read()
            assert next(iter_batches(found))[1].base_offset == 39


def test_cleaner_removes_tombstones_after_delete_retention(log) -> None:
    put(log, b"gone", b"value")
    put(log, b"gone", None)
    put(log, b"kept", b"value", codec=Codec.LZ4)
    fill_up(log)
    compact(log)
    assert [(each.key, each.value) for each in records(log)][:2] == [
        (b"gone", None),
        (b"kept", b"value"),
    ]
    [tombstone] = [h for _, _, h in batches(log) if h.has_delete_horizon]
    assert tombstone.base_timestamp == NOW_MS + DAY_MS
    assert records(log)[0].timestamp == NOW_MS, "each batch keeps its delete horizon"
    fill_up(log)
    compact(log, now_ms=NOW_MS + DAY_MS - 1)
    assert any(each.value is None for each in records(log))
    fill_up(log)
    compact(log, now_ms=NOW_MS + DAY_MS)
    assert not any(each.value is None for each in records(log))


def test_cleaner_keeps_the_empty_last_batch_of_a_producer(log) -> None:
    """Otherwise, after a restart, its next batch would be out of order, or a duplicate accepted."""
    for number in range(6):
        put(log, b"k", b"%d" % number, producer=(7, 2, number))
    put(log, b"k", b"last")
    fill_up(log)
    compact(log)
    [emptied] = [h for _, _, h in batches(log) if h.producer_id == 7]
    assert (emptied.record_count, emptied.base_offset, emptied.last_offset) == (0, 5, 5)
    assert (emptied.base_sequence, emptied.producer_epoch) == (5, 2)
    for file in Path(log.directory).glob("*.snapshot"):
        file.unlink()
    again = reopen(log, recover=True)
    assert again.producers.find(7).last_sequence == 5
    put(again, b"k", b"next", producer=(7, 2, 6))
    put(again, b"l", b"next", producer=(7, 2, 7))
    fill_up(again)
    compact(again)
    assert next(h.base_offset for _, _, h in batches(again) if h.producer_id == 7) > 5


def test_cleaner_stops_at_the_first_open_transaction(log) -> None:
    for number in range(10):
        put(log, b"k", b"%d" % number)
    first = put(log, b"t", b"open", producer=(9, 0, 0), transactional=True)
    for number in range(30):
        put(log, b"k", b"%d" % number)
    fill_up(log)
    compact(log)
    assert log.first_dirty_offset <= first
    assert len([each for each in records(log) if each.key == b"k"]) > 25
    append_marker(log, 9, commit=True)
    log.advance_high_watermark(log.log_end_offset)
    fill_up(log)
    compact(log)
    assert len([each for each in records(log) if each.key == b"k"]) == 1
    assert table(committed(log))[b"t"] == b"open"


def test_cleaner_removes_aborted_records_and_later_their_marker(log) -> None:
    put(log, b"k", b"old")
    put(log, b"k", b"aborted", producer=(9, 0, 0), transactional=True)
    append_marker(log, 9, commit=False)
    put(log, b"j", b"new", producer=(9, 0, 1), transactional=True)
    append_marker(log, 9, commit=True)
    log.advance_high_watermark(log.log_end_offset)
    fill_up(log)
    compact(log)
    assert table(committed(log)) == {b"k": b"old", b"j": b"new", b"active": b"x"}
    assert b"aborted" not in [each.value for each in records(log)]
    controls = [h for _, _, h in batches(log) if h.is_control]
    assert len(controls) == 2, "readers that saw the records must see the marker"
    for _ in range(2):
        fill_up(log)
        compact(log)
    assert [h.has_delete_horizon for _, _, h in batches(log) if h.is_control] == [True, False]
    fill_up(log)
    compact(log, now_ms=NOW_MS + 2 * DAY_MS)
    assert len([h for _, _, h in batches(log) if h.is_control]) == 1
    assert table(committed(log)) == {b"k": b"old", b"j": b"new", b"active": b"x"}


def test_cleaner_follows_the_compaction_lags(log) -> None:
    for number in range(30):
        put(log, b"k", b"%d" % number, timestamps=[NOW_MS + number * 1000])
    fill_up(log)
    log.flush_rolled()
    lag = attrs.evolve(CONFIG, min_compaction_lag_ms=15_000)
    log.update_config(lag)
    young = cleaning_plan.candidate(log, NOW_MS + 30_000)
    assert 0 < young.first_uncleanable <= 16
    log.update_config(attrs.evolve(CONFIG, min_cleanable_ratio=1.0, max_compaction_lag_ms=50_000))
    assert cleaning_plan.filthiest([cleaning_plan.candidate(log, NOW_MS + 50_000)]) is None
    assert cleaning_plan.filthiest([cleaning_plan.candidate(log, NOW_MS + 50_001)]).is_late


def test_swap_is_dropped_when_the_log_changed_meanwhile(log) -> None:
    for number in range(30):
        put(log, b"k", b"%d" % number)
    fill_up(log)
    log.flush_rolled()
    job = cleaning_plan.job_for(cleaning_plan.candidate(log, NOW_MS), LIMITS, NOW_MS)
    [message, _] = clean(attrs.evolve(job, segment_bytes_max=1 << 20))
    log.advance_log_start(10)
    log.apply_retention(NOW_MS)
    group = list(zip(message["group"], message["sizes"], strict=True))
    before = records(log)
    assert not log.swap_cleaned(group, message["size"])
    assert records(log) == before
    assert not list(Path(log.directory).glob("*.cleaned"))


def test_swap_is_dropped_when_the_log_moved_meanwhile(log, tmp_path) -> None:
    for number in range(30):
        put(log, b"k", b"%d" % number)
    fill_up(log)
    log.flush_rolled()
    job = cleaning_plan.job_for(cleaning_plan.candidate(log, NOW_MS), LIMITS, NOW_MS)
    [message, _] = clean(attrs.evolve(job, segment_bytes_max=1 << 20))
    before = records(log)
    other = open_volume(tmp_path / "other")
    LogRelocation(log, other, f"{other.path}/t-0.0-future").finish()
    group = list(zip(message["group"], message["sizes"], strict=True))
    assert not log.swap_cleaned(group, message["size"])
    assert records(log) == before
    other.unlock()


def holed(log: PartitionLog) -> list[Record]:
    """Compact the last records of segments, so that there are gaps between segments."""
    for number in range(6):
        put(log, b"unique %d" % number, bytes(300))
        put(log, b"same", b"%d" % number)
        log.roll(NOW_MS)
    fill_up(log)
    assert compact(log)
    assert len(log.segments) > 3
    return records(log)


def test_gaps_of_compaction_after_a_move_are_not_taken_for_damage(log, tmp_path) -> None:
    before = holed(log)
    other = open_volume(tmp_path / "other")
    other.write_checkpoints()
    LogRelocation(log, other, f"{other.path}/t-0.0-future").finish()
    assert records_after_a_kill(other) == before


def test_gaps_of_compaction_without_checkpoints_are_not_taken_for_damage(log) -> None:
    before = holed(log)
    assert records_after_a_kill(log.volume) == before


def records_after_a_kill(volume: Volume) -> list[Record]:
    """Return the records that the next start finds in the files."""
    volume.unlock()
    again = open_volume(volume.path)
    again.load_checkpoints()
    manager = LogManager([again], again, CONFIG)
    manager.open()
    manager.recover()
    found = manager.get("t", 0)
    assert found is not None
    again.unlock()
    return records(found)


KEYS = st.sampled_from([b"a", b"b", b"c", b"dd", b"e", b"f", b""])
STEP = st.one_of(
    st.tuples(
        st.just("put"),
        st.lists(
            st.tuples(KEYS, st.one_of(st.none(), st.binary(max_size=9))), min_size=1, max_size=4
        ),
        st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.ZSTD]),
        st.sampled_from([None, 1, 2]),
        st.booleans(),
    ),
    st.tuples(st.just("end"), st.sampled_from([1, 2]), st.booleans()),
    st.tuples(st.just("roll")),
    st.tuples(st.just("compact"), st.integers(1, 8), st.integers(0, 3)),
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(steps=st.lists(STEP, min_size=5, max_size=50))
def test_compacted_log_gives_the_same_table_as_an_uncompacted_one(steps, tmp_path_factory) -> None:
    root = tmp_path_factory.mktemp("data")
    log = new_log(open_volume(root / "compacted"), CONFIG)
    plain = new_log(open_volume(root / "plain"), CONFIG)
    sequences: dict[int, int] = {1: 0, 2: 0}
    open_txns: set[int] = set()
    days = 0
    for step in steps:
        if step[0] == "put":
            _, pairs, codec, pid, transactional = step
            more = {"keys": [key for key, _ in pairs], "codec": codec}
            if pid is not None:
                more |= {"producer": (pid, 0, sequences[pid])}
                more |= {"transactional": transactional or pid in open_txns}
                sequences[pid] += len(pairs)
                if more["transactional"]:
                    open_txns.add(pid)
            for each in (log, plain):
                append(each, *(value for _, value in pairs), **more)
        elif step[0] == "end":
            if step[1] in open_txns:
                open_txns.discard(step[1])
                for each in (log, plain):
                    append_marker(each, step[1], commit=step[2])
                    each.advance_high_watermark(each.log_end_offset)
        elif step[0] == "roll":
            log.roll(NOW_MS)
            plain.roll(NOW_MS)
        else:
            days += step[2]
            compact(log, now_ms=NOW_MS + days * DAY_MS, keys_max=step[1] + 4)
    assert log.log_end_offset == plain.log_end_offset
    originals = {record.offset: record for record in records(plain)}
    assert all(originals[record.offset] == record for record in records(log))
    assert table(committed(log)) == table(committed(plain))
    assert {e.producer_id: e.last_sequence for e in log.producers.entries()} == {
        e.producer_id: e.last_sequence for e in plain.producers.entries()
    }
    for file in Path(log.directory).glob("*.snapshot"):
        file.unlink()
    again = reopen(log, recover=True)
    assert records(again) == records(log)
    assert {e.producer_id: e.last_sequence for e in again.producers.entries()} == {
        e.producer_id: e.last_sequence for e in plain.producers.entries()
    }
    assert again.last_stable_offset == plain.last_stable_offset
    log.volume.unlock()
    plain.volume.unlock()


def test_swap_killed_at_any_rename_leaves_the_old_or_the_new_segments(
    log, tmp_path, monkeypatch
) -> None:
    for number in range(60):
        put(log, b"k%d" % (number % 7), b"value %d" % number, producer=(5, 0, number))
    log.update_config(attrs.evolve(CONFIG, segment_bytes=1 << 20))
    fill_up(log)
    expected = table(records(log))
    log.flush_rolled()
    job = cleaning_plan.job_for(cleaning_plan.candidate(log, NOW_MS), LIMITS, NOW_MS)
    [message, _] = clean(job)
    group = list(zip(message["group"], message["sizes"], strict=True))
    assert len(group) > 3
    real = os.rename
    for allowed in range(60):
        copy = tmp_path / f"copy-{allowed}"
        shutil.copytree(log.volume.path, copy)
        victim = PartitionLog(open_volume(copy), "t", 0, log.config)
        monkeypatch.setattr("barnabas.log.partition.segment_swap.complete", lambda _: None)
        # Loading removes unfinished files, so the cleaned files are restored for the swap.
        cleaned = {p.name: p.read_bytes() for p in (copy / "t-0").glob("*.cleaned")}
        victim.recovery_point = log.recovery_point
        victim.load(recover=False)
        for name, content in cleaned.items():
            (copy / "t-0" / name).write_bytes(content)
        done: list[str] = []

        def rename(old: str, new: str, done: list[str] = done, allowed: int = allowed) -> None:
            if len(done) == allowed:
                raise KeyboardInterrupt
            real(old, new)
            done.append(old)

        monkeypatch.setattr(os, "rename", rename)
        finished = True
        try:
            victim.swap_cleaned(group, message["size"])
        except KeyboardInterrupt:
            finished = False
        monkeypatch.undo()
        again = reopen(victim, recover=True)
        assert table(records(again)) == expected, allowed
        assert again.log_end_offset == log.log_end_offset
        assert again.producers.find(5).last_sequence == 59
        assert not list((copy / "t-0").glob("*.swap"))
        victim.volume.unlock()
        if finished:
            assert allowed > 10
            return
    raise AssertionError("the swap never ends")


def test_cleaning_job_gives_the_offset_map_the_memory_that_kafka_does(log) -> None:
    """24 bytes per key up to the load factor: by default 5 million keys, or fewer if enough."""
    for number in range(100):
        put(log, b"k", b"%d" % number)
    fill_up(log)
    log.flush_rolled()
    chosen = cleaning_plan.candidate(log, NOW_MS)
    default = cleaning_plan.job_for(
        chosen._replace(first_dirty=-(10**9)), cleaning_plan.Limits(1 << 27, 0.9, 1, 1), 0
    )
    assert (default.slots, default.keys_max) == (5_592_405, 5_033_164)
    small = cleaning_plan.job_for(chosen, cleaning_plan.Limits(1 << 27, 0.9, 1, 1), 0)
    assert 100 <= small.keys_max < small.slots < 120
    tiny = cleaning_plan.job_for(chosen, cleaning_plan.Limits(240, 0.5, 1, 1), 0)
    assert (tiny.slots, tiny.keys_max) == (10, 5)


def test_cleaner_fails_for_a_batch_with_more_keys_than_the_map_holds(log) -> None:
    keys = [b"%d" % number for number in range(20)]
    append(log, *keys, keys=keys)
    fill_up(log)
    with pytest.raises(MapTooSmallError, match=r"log\.cleaner\.dedupe\.buffer\.size"):
        compact(log, keys_max=19)
    assert compact(log, keys_max=20)


@pytest.mark.parametrize("damage", ["record", "length", "cut"])
def test_cleaner_fails_at_a_damaged_batch_and_copies_nothing(log, damage) -> None:
    """Otherwise a new crc would hide the damage, and the bytes after it would be lost."""
    for number in range(30):
        put(log, b"k%d" % number, b"%d" % number)
    fill_up(log)
    log.flush_rolled()
    job = cleaning_plan.job_for(cleaning_plan.candidate(log, NOW_MS), LIMITS, NOW_MS)
    path = Path(log.segments[0].path)
    content = bytearray(path.read_bytes())
    second = 12 + int.from_bytes(content[8:12], "big")
    if damage == "record":
        content[second + 65] ^= 1
    elif damage == "length":
        content[second + 8] = 0x10
    else:
        job = attrs.evolve(job, segments=[(b, n - (b == 0) * 9) for b, n in job.segments])
    path.write_bytes(content)
    with pytest.raises(CorruptBatch):
        list(clean(job))
