"""`PartitionLog` equals a list of batches after any truncation, roll, loss or restart."""

import os
import shutil
import tempfile
from bisect import bisect_left
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from barnabas.log import LogConfig, PartitionLog
from barnabas.log.segment.log_segment import Segment
from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.testing.batches import NOW_MS, batch
from tests.log.logs import new_log, open_volume, reopen

CONFIG = LogConfig(
    segment_bytes=900,
    index_interval_bytes=150,
    timestamp_after_max_ms=1 << 60,
    file_delete_delay_ms=0,
)
EXAMPLES = int(os.environ.get("BARNABAS_EXAMPLES", "110"))
TIMESTAMPS = st.integers(0, 40)


def unsynced(log: PartitionLog) -> list[Segment]:
    """Return the segments that a power loss may damage."""
    segments = log.segments
    complete = [a for a, b in pairwise(segments) if b.base_offset > log.recovery_point]
    return [*complete, segments[-1]]


class Kept:
    """One batch of the reference: offsets, epoch, bytes, timestamps."""

    def __init__(self, first: int, data: bytes, timestamps: list[int], epoch: int) -> None:
        self.first, self.data, self.timestamps, self.epoch = first, data, timestamps, epoch
        self.next = first + len(timestamps)


class LogMachine(RuleBasedStateMachine):
    """Applies every step to a `PartitionLog` and to `self.batches`."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.batches: list[Kept] = []
        self.start = 0
        self.epoch = 0
        self.number = 0
        self.epochs: list[tuple[int, int]] = []

    @initialize(files_max=st.sampled_from([1, 3, 100]))
    def begin(self, files_max: int) -> None:
        self.files_max = files_max
        self.log = new_log(open_volume(self.root / "data", files_max), CONFIG)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.volume.unlock()
        shutil.rmtree(self.root)

    @property
    def end(self) -> int:
        return self.log.log_end_offset

    # Steps

    @rule(
        timestamps=st.lists(TIMESTAMPS, min_size=1, max_size=5),
        codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4, Codec.GZIP]),
        size=st.integers(0, 30),
    )
    def append(self, timestamps: list[int], codec: Codec, size: int) -> None:
        self.number += 1
        values = [b"%d." % self.number * size for _ in timestamps]
        data = batch(*values, timestamps=timestamps, codec=codec)
        first = self.end
        info = self.log.append_as_leader(data, leader_epoch=self.epoch, now_ms=NOW_MS)
        assert (info.first_offset, info.last_offset) == (first, first + len(timestamps) - 1)
        if not self.epochs or self.epochs[-1][0] < self.epoch:
            self.epochs.append((self.epoch, first))
        self.batches.append(Kept(first, bytes(data), timestamps, self.epoch))

    @rule(count=st.integers(5, 25), step=st.integers(-3, 5), size=st.integers(0, 40))
    def append_many(self, count: int, step: int, size: int) -> None:
        for number in range(count):
            self.append([(20 + number * step) % 41], Codec.NONE, size)

    @rule()
    def commit(self) -> None:
        self.log.advance_high_watermark(self.end)

    @rule()
    def new_epoch(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.end

    @rule()
    def flush_rolled(self) -> None:
        self.log.flush_rolled()
        assert self.log.recovery_point >= self.log.active.base_offset

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        boundaries = [self.start, *(each.next for each in self.batches)]
        offset = data.draw(st.sampled_from(boundaries))
        is_cut = offset < self.end
        self.log.truncate_to(offset)
        if is_cut and offset <= self.start:  # what is below the log start goes, too
            self.batches, self.epochs = [], []
        self.keep_below(offset)

    @precondition(lambda self: len(self.batches) < 5)
    @rule(ahead=st.integers(0, 3))
    def start_anew(self, ahead: int) -> None:
        self.start = self.end + ahead
        self.log.truncate_fully_and_start_at(self.start)
        self.batches, self.epochs = [], []

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, max(self.log.high_watermark, self.start)))
        self.log.advance_log_start(offset)
        self.start = offset

    @rule()
    def retain(self) -> None:
        """No segment is too old or too large, so only those below the log start are deleted."""
        self.log.config = LogConfig(segment_bytes=900, index_interval_bytes=150, retention_ms=-1)
        self.log.apply_retention(NOW_MS)
        self.log.config = CONFIG
        segments = self.log.segments
        assert len(segments) == 1 or segments[1].base_offset > self.start
        self.batches = [each for each in self.batches if each.next > segments[0].base_offset]

    @rule()
    def stop_and_start(self) -> None:
        self.log.close()
        self.log.release()
        self.log = reopen(self.log, recover=False, files_max=self.files_max)

    @rule()
    def kill_and_start(self) -> None:
        """The page cache survives a kill; bytes not yet written do not."""
        self.log = reopen(self.log, recover=True, files_max=self.files_max)

    @rule(data=st.data(), garbage=st.binary(max_size=90))
    def lose_power(self, data: st.DataObject, garbage: bytes) -> None:
        """A file ends at any position after the synced part, perhaps with garbage."""
        synced = self.log.recovery_point
        torn = data.draw(st.sampled_from(unsynced(self.log)))
        held = [each for each in self.batches if each.first >= torn.base_offset]
        safe = sum(len(each.data) for each in held if each.next <= synced)
        size = Path(torn.path).stat().st_size
        assume(safe <= size)
        cut = data.draw(st.integers(safe, size))
        with open(torn.path, "r+b") as file:
            file.truncate(cut)
            file.seek(cut)
            file.write(garbage)
        if data.draw(st.booleans()):
            Path(torn.path_of(".index")).write_bytes(garbage)
            Path(torn.path_of(".timeindex")).unlink(missing_ok=True)
        self.log = reopen(self.log, recover=True, files_max=self.files_max)
        assert self.end >= synced
        self.keep_below(self.end)

    def keep_below(self, offset: int) -> None:
        self.batches = [each for each in self.batches if each.next <= offset]
        self.epochs = [each for each in self.epochs if each[1] < offset]
        self.start = min(self.start, offset)

    # Invariants

    @invariant()
    def its_ends_are_right(self) -> None:
        if hasattr(self, "log"):
            assert self.log.log_start_offset == self.start
            assert self.end == (self.batches[-1].next if self.batches else self.start)
            assert self.start <= self.log.high_watermark <= self.end
            assert self.log.size_bytes == sum(len(each.data) for each in self.batches)

    @rule(data=st.data(), max_bytes=st.integers(1, 2000))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        limit = data.draw(st.sampled_from([self.end, self.log.high_watermark]))
        found = self.log.read(offset, max_bytes, upper_bound=limit).read()
        expected = b"".join(
            each.data for each in self.batches if each.next > offset and each.first < limit
        )
        if offset >= limit:
            expected = b""
        assert expected.startswith(found)
        if expected:
            whole = list(iter_batches(found))
            assert whole, "the first batch is complete"
            assert len(found) <= max(max_bytes, whole[0][1].size)

    @rule(beyond=st.integers(1, 5))
    def read_outside(self, beyond: int) -> None:
        for offset in (self.start - beyond, self.end + beyond):
            with pytest.raises(KafkaError) as raised:
                self.log.read(offset, 100, upper_bound=self.end)
            assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

    @rule(timestamp=st.integers(-1, 42))
    def look_up_by_time(self, timestamp: int) -> None:
        found = self.log.offset_for_timestamp(timestamp)
        expected = next((each for each in self.records() if each[0] >= timestamp), None)
        assert found == expected

    @rule()
    def look_up_the_latest(self) -> None:
        best = max(self.records(), key=lambda each: (each[0], -each[1]), default=None)
        assert self.log.offset_of_max_timestamp() == best

    def records(self) -> list[tuple[int, int, int]]:
        return [
            (timestamp, each.first + delta, self.log.epoch_at(each.first + delta))
            for each in self.batches
            for delta, timestamp in enumerate(each.timestamps)
            if each.first + delta >= self.start
        ]

    @rule()
    def epochs_follow_the_batches(self) -> None:
        for each in self.batches:
            if each.first >= self.start:
                assert self.log.epoch_at(each.first) == each.epoch

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def indexes_are_sane(self, data: st.DataObject) -> None:
        """Every index entry points to a batch, and no record before it has a later timestamp."""
        firsts = [each.first for each in self.batches]
        for segment in self.log.segments:
            held = [header for _, header in segment.headers()]
            positions = dict(segment.headers())
            for number in range(len(segment.offset_index)):
                relative, position = segment.offset_index.entry(number)
                assert positions[position].last_offset == segment.base_offset + relative
            for number in range(len(segment.time_index)):
                timestamp, relative = segment.time_index.entry(number)
                before = [h for h in held if h.last_offset <= segment.base_offset + relative]
                assert max(h.max_timestamp for h in before) == timestamp
            for header in held:
                assert firsts[bisect_left(firsts, header.base_offset)] == header.base_offset


LogMachine.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestLog = LogMachine.TestCase


def test_truncation_of_a_log_that_was_empty_at_its_start_checks_the_index_first(
    tmp_path: Path,
) -> None:
    """Its time index is empty, and is built from the batches that the file still has."""
    log = new_log(open_volume(tmp_path / "data"), CONFIG)
    log.close()
    log.release()
    log = reopen(log, recover=False)
    for _ in range(2):
        log.append_as_leader(batch(b"value", timestamps=[0]), leader_epoch=0, now_ms=NOW_MS)
    log.truncate_to(1)
    assert log.log_end_offset == 1
    log.volume.unlock()
