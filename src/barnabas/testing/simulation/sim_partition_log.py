"""Logs of partitions in the simulation, and the disk of a broker that holds them."""

from types import SimpleNamespace
from typing import Final

from barnabas import tasks
from barnabas.log import AppendInfo, LogConfig
from barnabas.log.partition.batch_validation import Origin
from barnabas.log.segment.producer_state import BatchMetadata, ProducerState, read_marker
from barnabas.log.segment.segment_index import AbortedTxn
from barnabas.protocol.batches.batch_header import BatchHeader, iter_batches
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid
from barnabas.testing.sim_log import SimLog
from barnabas.testing.simulation.rare_states import RareState, RareStates
from barnabas.testing.simulation.sim_volume import SimVolume

_NO_LIMIT = 1 << 62
_SEGMENT_BATCHES: Final = 40
"""A segment is synced when the next one begins; flush.messages and flush.ms have no effect."""


class _NoIndex:
    """The offset index of a segment in memory, which needs none."""

    def search(self, target: int, field: int) -> int:
        """Return -1: no entry precedes the target."""
        del target, field
        return -1

    def __len__(self) -> int:
        return 0


_ONLY_SEGMENT: Final = SimpleNamespace(base_offset=0, file=None, offset_index=_NoIndex())


class SimRecords:
    """Batches that a fetch has read; they are in memory, so they have no file."""

    __slots__ = ("batches", "data", "size")
    file = None

    def __init__(self, batches: list[bytes]) -> None:
        self.data = b"".join(batches)
        self.size = len(self.data)

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        """Return the bytes."""
        return self.data


class LogObserver:
    """An observer of the logs of all brokers; it checks the invariants."""

    def appended(self, log: "SimPartitionLog", leader_epoch: int) -> None:
        """A leader appended a batch."""

    def epoch_started(self, log: "SimPartitionLog", leader_epoch: int) -> None:
        """A leader starts its epoch."""

    def high_watermark_raised(self, log: "SimPartitionLog") -> None:
        """A replica knows that the records below its high watermark are committed."""

    def shortened(self, log: "SimPartitionLog") -> None:
        """A replica removed records from the end."""

    def start_moved(self, log: "SimPartitionLog") -> None:
        """A replica has another log start offset."""


class SimPartitionLog(SimLog):
    """A partition's log on one broker.

    Its complete segments survive a loss of power, and a random part of the last one. Recovery cuts
    a torn batch, so a batch is on the disk or not. `lost_end` is the log end before the last loss
    of power, while the log has not reached it again.
    """

    def __init__(
        self,
        broker_id: int,
        topic: str,
        partition: int,
        topic_id: Uuid,
        config: LogConfig,
        observer: LogObserver,
    ) -> None:
        super().__init__()
        self.broker_id = broker_id
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.is_loaded = True
        self.volume: SimVolume
        self.producers = ProducerState()
        self.aborted: list[AbortedTxn] = []
        self.segments = (_ONLY_SEGMENT,)
        self.lost_end = 0
        self._is_reading = False  # epochs of earlier leaders, from a leader or from the disk
        self._observer = observer

    def __repr__(self) -> str:
        return f"<log of {self.topic}-{self.partition} on broker {self.broker_id}>"

    def load(self) -> None:
        """The log is loaded: a broker uses it for the first time."""
        self.is_loaded = True

    def unload(self) -> None:
        """The log is not loaded: its broker has just started."""
        self.is_loaded = False

    @property
    def last_stable_offset(self) -> int:
        """The end of what READ_COMMITTED sees."""
        unstable = self.producers.first_unstable_offset()
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def aborted_transactions(self, first_offset: int, upper_bound: int) -> list[AbortedTxn]:
        """Return the aborted transactions with records between the two offsets."""
        return [
            each
            for each in self.aborted
            if each.last_offset >= first_offset and each.first_offset < upper_bound
        ]

    def update_config(self, config: LogConfig) -> None:
        """Use another configuration."""
        self.config = config

    def start_leader_epoch(self, epoch: int, start_offset: int) -> None:
        """A leader starts its epoch at `start_offset`; the next append writes it."""
        is_new = epoch > self.latest_epoch and not self._is_reading
        super().start_leader_epoch(epoch, start_offset)
        if is_new:
            self._observer.epoch_started(self, epoch)

    def append_as_leader(
        self,
        records: bytearray | memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = "client",
        done: object = None,
    ) -> AppendInfo:
        """Append one batch of a producer; raises RECORD_LIST_TOO_LARGE above a segment's size."""
        self.volume.check()
        if len(records) > self.config.segment_bytes:
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, "larger than a segment")
        del done
        (_, header), *_ = iter_batches(records)
        if header.producer_id >= 0:
            duplicate = self._check_producer(records, header, origin)
            if duplicate is not None:
                tasks.local(RareStates).reached(RareState.DUPLICATE_APPEND_SUPPRESSED)
                return AppendInfo(duplicate.first_offset, duplicate.last_offset, duplicate=True)
        info = super().append_as_leader(
            records, leader_epoch=leader_epoch, now_ms=now_ms, origin=origin
        )
        self._written()
        self._observer.appended(self, leader_epoch)
        return info

    def append_as_mirror(
        self, records: bytearray | memoryview, *, leader_epoch: int, now_ms: int
    ) -> AppendInfo:
        """Append batches of a flow."""
        self.volume.check()
        info = super().append_as_mirror(records, leader_epoch=leader_epoch, now_ms=now_ms)
        if not info.duplicate:
            self._written()
            self._observer.appended(self, leader_epoch)
        return info

    def open_transactions_of_mirror(self, leader_epoch: int) -> list[tuple[int, int]]:
        """Return producer id and epoch of transactions that were open when the mirror ended."""
        del leader_epoch
        found = self.producers.open_before(self.mirror_end)
        return [(entry.producer_id, entry.epoch) for entry in found]

    def _end_mirror(self) -> None:
        super()._end_mirror()
        self.producers.forget_idle()

    def append_as_follower(
        self,
        records: bytes | bytearray | memoryview,
        *,
        now_ms: int,
        leader_epoch: int = _NO_LIMIT,
    ) -> None:
        """Append batches of the leader."""
        self.volume.check()
        self._is_reading = True
        try:
            super().append_as_follower(records, now_ms=now_ms, leader_epoch=leader_epoch)
        finally:
            self._is_reading = False
        self._written()

    def _restart(self) -> None:
        self._is_reading = True
        try:
            super()._restart()
            self._read_producers()
        finally:
            self._is_reading = False

    def _check_producer(
        self, records: bytearray | memoryview, header: BatchHeader, origin: Origin
    ) -> BatchMetadata | None:
        if header.is_control:
            marker = read_marker(records, header)
            if marker is not None:
                self.producers.check_marker(header, marker)
        elif origin == "client":
            return self.producers.check_client_batch(header)
        return None

    def _append(self, header: BatchHeader, data: bytes) -> None:
        super()._append(header, data)
        self._note_producer(header, data)

    def _note_producer(self, header: BatchHeader, data: bytes) -> None:
        if header.producer_id < 0:
            return
        if not header.is_control:
            self.producers.append(header, header.base_offset)
            return
        marker = read_marker(data, header)
        if marker is not None:
            aborted = self.producers.end_transaction(header, header.base_offset, marker)
            if aborted is not None:
                self.aborted.append(aborted)

    def _cut(self, offset: int, log_start: int, high_watermark: int) -> None:
        super()._cut(offset, log_start, high_watermark)
        self._read_producers()

    def _read_producers(self) -> None:
        """Build the state of the producers again from the batches that remain."""
        self.producers, self.aborted = ProducerState(), []
        has_ended = self.mirror_end < 0
        for header, data in self.batches:
            if header.base_offset >= self.mirror_end and not has_ended:
                self.producers.forget_idle()
                has_ended = True
            self._note_producer(header, data)
        self.producers.high_watermark_advanced(self.high_watermark)

    def _written(self) -> None:
        """Sync the segments that are complete."""
        start = len(self.batches) // _SEGMENT_BATCHES * _SEGMENT_BATCHES
        if 0 < start < len(self.batches):
            self.synced_end = max(self.synced_end, self.batches[start][0].base_offset)
        if self.log_end_offset >= self.lost_end:
            self.lost_end = 0

    def lose_power(self, kept: int) -> None:
        """The power was lost: `kept` of the unsynced batches remain, and the synced ones."""
        end = self.log_end_offset
        super().lose_power(kept)
        if self.log_end_offset < end:
            self.lost_end = max(self.lost_end, end)
            self._observer.shortened(self)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers that were idle for `expiration_ms`; return their number."""
        return self.producers.expire(now_ms, expiration_ms)

    def apply_retention(self, now_ms: int) -> int:
        """Delete nothing; return 0."""
        del now_ms
        return 0

    def needs_flush(self, now_ms: int) -> bool:
        """Return False: flush.ms has no effect."""
        del now_ms
        return False

    def advance_high_watermark(self, offset: int) -> None:
        """Note that the records below `offset` are committed."""
        super().advance_high_watermark(offset)
        self.producers.high_watermark_advanced(offset)
        self._observer.high_watermark_raised(self)

    def advance_log_start(self, offset: int) -> None:
        """Delete the records below `offset`."""
        self.volume.check()
        super().advance_log_start(offset)
        self._observer.start_moved(self)

    def truncate_to(self, offset: int) -> None:
        """Remove the records from `offset` on."""
        self.volume.check()
        super().truncate_to(offset)
        self._observer.shortened(self)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records."""
        self.volume.check()
        if offset > self.log_end_offset:
            tasks.local(RareStates).reached(RareState.LOG_RESTARTED)
        super().truncate_fully_and_start_at(offset)
        self._observer.shortened(self)
        self._observer.start_moved(self)

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        upper_bound: int,
        min_one_message: bool = False,
    ) -> SimRecords:
        """Return batches from the one with `offset` on, below `upper_bound`."""
        self.volume.check()
        found: list[bytes] = []
        size = 0
        for index in range(self._index_of(offset), len(self.batches)):
            header, data = self.batches[index]
            if header.base_offset >= upper_bound:
                break
            if size + len(data) > max_bytes and not (min_one_message and not found):
                break
            found.append(data)
            size += len(data)
        return SimRecords(found)

    def _index_of(self, offset: int) -> int:
        low, high = 0, len(self.batches)
        while low < high:
            middle = (low + high) // 2
            if self.batches[middle][0].last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low
