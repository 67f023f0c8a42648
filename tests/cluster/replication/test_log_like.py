"""`SimLog` equals `PartitionLog`: replication is simulated on the one and runs on the other."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.cluster.replication import follower_log
from barnabas.cluster.replication.log_like import LogLike
from barnabas.log import AppendInfo, FileCache, LogConfig, PartitionLog, Volume
from barnabas.protocol.batches.batch_header import assign_offset
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.testing.batches import NOW_MS, batch
from barnabas.testing.mirrored import as_sent, placed
from barnabas.testing.sim_log import SimLog
from tests.log.logs import new_log, open_volume

CONFIG = LogConfig(segment_bytes=1 << 20, file_delete_delay_ms=0)
BATCHES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=4)
KEY = ("t", 0)


def leader_batches(start: int, epoch: int, wanted: list[tuple[int, int]]) -> bytes:
    """Return batches as a leader would send them: (records, how much the epoch rises before)."""
    data = bytearray()
    for count, rise in wanted:
        epoch += rise
        made = batch(*[b"v%d" % start] * count)
        assign_offset(made, 0, start, epoch)
        start += count
        data += made
    return bytes(data)


def outcome(log: LogLike, data: bytearray, leader_epoch: int) -> ErrorCode | None:
    try:
        follower_log.append(log, data, leader_epoch=leader_epoch, now_ms=NOW_MS)
    except KafkaError as error:
        return error.code
    return None


def mirror_outcome(log: LogLike, batches: list[bytes], position: int) -> AppendInfo | ErrorCode:
    epoch = max(log.latest_epoch, 0)
    try:
        return log.append_as_mirror(as_sent(batches, position), leader_epoch=epoch, now_ms=NOW_MS)
    except KafkaError as error:
        return error.code


class LogLikeMachine(RuleBasedStateMachine):
    """Applies every step to both."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.epoch = 0

    @initialize()
    def begin(self) -> None:
        self.disk = new_log(open_volume(self.root / "data"), CONFIG)
        self.memory = SimLog()

    def teardown(self) -> None:
        if hasattr(self, "disk"):
            self.disk.volume.unlock()
        shutil.rmtree(self.root)

    @rule(count=st.integers(1, 5), rise=st.integers(0, 2))
    def append_as_leader(self, count: int, rise: int) -> None:
        self.epoch += rise
        for log in (self.disk, self.memory):
            log.start_leader_epoch(self.epoch, log.log_end_offset)
            data = batch(*[b"v"] * count)
            log.append_as_leader(data, leader_epoch=self.epoch, now_ms=NOW_MS)

    @rule(
        counts=st.lists(st.integers(1, 4), min_size=1, max_size=4),
        shift=st.integers(-4, 3),
        skipped=st.integers(0, 3),
    )
    def append_as_mirror(self, counts: list[int], shift: int, skipped: int) -> None:
        position = max(self.memory.log_end_offset + shift, 0)
        batches, at = [], position + skipped
        for count in counts:
            batches.append(placed(batch(*[b"m"] * count), at))
            at += count + skipped
        results = [mirror_outcome(log, batches, position) for log in (self.disk, self.memory)]
        assert results[0] == results[1]

    @rule(rise=st.integers(0, 2))
    def lead_without_appends(self, rise: int) -> None:
        self.epoch += rise
        for log in (self.disk, self.memory):
            log.start_leader_epoch(self.epoch, log.log_end_offset)

    @rule(
        wanted=BATCHES,
        shift=st.sampled_from([0, 0, 0, -1, -3, 2]),
        limit=st.integers(-1, 3),
        cut=st.integers(0, 40),
        damaged=st.sampled_from([False, False, False, True]),
    )
    def append_as_follower(
        self, wanted: list[tuple[int, int]], shift: int, limit: int, cut: int, damaged: bool
    ) -> None:
        epoch = max(self.memory.latest_epoch, 0)
        start = max(self.memory.log_end_offset + shift, 0)
        data = bytearray(leader_batches(start, epoch, wanted))
        if damaged:
            data[-1] ^= 1
        data = data[: len(data) - cut] if cut < 20 else data
        results = [outcome(log, data, epoch + limit) for log in (self.disk, self.memory)]
        assert results[0] == results[1]
        self.epoch = max(self.epoch, self.memory.latest_epoch)

    @rule(ahead=st.integers(-3, 3))
    def follow_high_watermark(self, ahead: int) -> None:
        offset = self.memory.log_end_offset + ahead
        results = [
            follower_log.follow_high_watermark(log, offset) for log in (self.disk, self.memory)
        ]
        assert results[0] == results[1]

    @rule(ahead=st.integers(-3, 3))
    def follow_log_start(self, ahead: int) -> None:
        offset = self.memory.high_watermark + ahead
        results = [follower_log.follow_log_start(log, offset) for log in (self.disk, self.memory)]
        assert results[0] == results[1]
        self.checkpoint()

    @rule(epoch=st.integers(0, 12), end=st.integers(-1, 40))
    def truncate_by_epoch(self, epoch: int, end: int) -> None:
        offsets = [
            follower_log.truncation_offset(log, epoch, end) for log in (self.disk, self.memory)
        ]
        assert offsets[0] == offsets[1]
        starts = {header.base_offset for header, _ in self.memory.batches}
        if offsets[0] in {*starts, self.memory.log_end_offset}:  # leaders end epochs at batches
            for log in (self.disk, self.memory):
                log.truncate_to(offsets[0])

    @rule(ahead=st.integers(0, 5))
    def start_anew(self, ahead: int) -> None:
        offset = self.memory.log_end_offset + ahead
        for log in (self.disk, self.memory):
            log.truncate_fully_and_start_at(offset)
        self.checkpoint()

    @rule()
    def flush(self) -> None:
        self.disk.flush()
        self.memory.flush()
        self.checkpoint()

    @rule()
    def checkpoint(self) -> None:
        self.disk.volume.write_checkpoints()
        self.memory.checkpoint()

    @rule()
    def kill(self) -> None:
        self.disk.release()
        self._restart()
        self.memory.crash()

    @rule(data=st.data())
    def lose_power(self, data: st.DataObject) -> None:
        """A prefix of the unsynced batches remains."""
        synced = self.memory.synced_end
        unsynced = [each for each in self.memory.batches if each[0].last_offset >= synced]
        kept = data.draw(st.integers(0, len(unsynced)))
        lost = sum(len(each[1]) for each in unsynced[kept:])
        self.disk.release()
        path = Path(self.disk.active.path)
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - lost)
        self._restart()
        self.memory.lose_power(kept)

    def _restart(self) -> None:
        old = self.disk.volume
        old.unlock()
        volume = Volume(old.path, FileCache(100))
        volume.lock()
        volume.load_checkpoints()
        self.disk = PartitionLog(volume, *KEY, CONFIG)
        volume.logs[KEY] = self.disk
        self.disk.restore_checkpoints(
            recovery_point=volume.recovery_points.get(KEY, 0),
            high_watermark=volume.high_watermarks.get(KEY, 0),
            log_start_offset=volume.log_starts.get(KEY, 0),
        )
        self.disk.load(recover=True)
        volume.write_lost_offsets()  # as `LogManager`

    @invariant()
    def are_equal(self) -> None:
        if not hasattr(self, "disk"):
            return
        disk, memory = self.disk, self.memory
        for log in (disk, memory):
            assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
        assert memory.log_start_offset == disk.log_start_offset
        assert memory.high_watermark == disk.high_watermark
        assert memory.log_end_offset == disk.log_end_offset
        assert list(memory.epochs.items()) == [tuple(each) for each in disk.epochs.entries]
        assert memory.latest_epoch == disk.latest_epoch
        for epoch in range(-1, self.epoch + 2):
            assert memory.end_offset_for_epoch(epoch) == disk.end_offset_for_epoch(epoch)
        start, end = disk.log_start_offset, disk.log_end_offset
        for offset in (start - 1, start, disk.high_watermark, end):
            assert memory.epoch_at(offset) == disk.epoch_at(offset)
        held = disk.read(start, 1 << 20, upper_bound=end).read() if start < end else b""
        assert memory.records() == held


LogLikeMachine.TestCase.settings = settings(
    max_examples=25,
    derandomize=True,
    stateful_step_count=25,
    deadline=None,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLogLike = LogLikeMachine.TestCase
