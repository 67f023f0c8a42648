"""One partition's log: append, read, truncate, delete and flush (Kafka's `UnifiedLog`).

`PartitionLog` is the interface of a log. Its state is in `log_state`; each operation is in a module
with that name (`log_loading`, `appending`, `mirroring`, `rolling`, `flushing`, `reading`,
`timestamp_lookup`, `retention`, `truncation`).

The calls are synchronous and block at most on the page cache. The server decides which of them run
in a thread (`flush` may run beside any other call). An I/O error takes the data directory offline.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final, ParamSpec, TypeVar

from barnabas.log.file_cache import EMPTY_SLICE, FileSlice
from barnabas.log.log_config import LogConfig
from barnabas.log.partition import (
    appending,
    flushing,
    log_loading,
    mirror_end,
    mirroring,
    reading,
    retention,
    rolling,
    segment_swap,
    timestamp_lookup,
    truncation,
)
from barnabas.log.partition.appending import AppendInfo
from barnabas.log.partition.batch_validation import Origin, Writable
from barnabas.log.partition.log_state import LogState
from barnabas.log.record_work import Outcomes
from barnabas.log.segment.log_segment import Segment
from barnabas.log.segment.segment_index import AbortedTxn
from barnabas.log.volume import Volume
from barnabas.protocol.batches.batch_header import CorruptBatch
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid

logger = logging.getLogger(__name__)

EPOCH_MAX: Final = 0x7FFF_FFFF
"""The largest leader epoch."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


class PartitionLog(LogState):
    """The log of one partition, in one directory.

    A log that is not loaded (`is_loaded`) has only its name; `load` reads its files. All methods
    need a loaded log, except `retention_is_due`. They raise KafkaError KAFKA_STORAGE_ERROR when
    the disk fails.
    """

    __slots__ = ("_topic_id",)

    def __init__(self, volume: Volume, topic: str, partition: int, config: LogConfig) -> None:
        super().__init__(volume, topic, partition, config)
        self._topic_id: Uuid | None = None

    def __repr__(self) -> str:
        return f"<PartitionLog {self.directory}>"

    # Opening and closing

    def load(self, *, recover: bool) -> None:
        """Read the files; with `recover` (after a kill) check all batches above the recovery point.

        The offsets of the checkpoints must be restored before (`restore_checkpoints`).
        """
        if not self.is_loaded:
            self.guarded(log_loading.load, self, recover)
            self.is_loaded = True

    def create(self, topic_id: Uuid) -> None:
        """Create the directory, the file with the topic's id, and the first segment."""
        self.guarded(log_loading.create, self, topic_id)
        self._topic_id = topic_id
        self.is_loaded = True

    @property
    def topic_id(self) -> Uuid | None:
        """The id in `partition.metadata`; None if the file is missing or damaged."""
        if self._topic_id is None:
            self._topic_id = log_loading.read_topic_id(self.directory)
        return self._topic_id

    def adopt(self, topic_id: Uuid) -> None:
        """Write a lost or damaged `partition.metadata` again."""
        self.guarded(log_loading.write_topic_id, self, topic_id)
        self._topic_id = topic_id

    def update_config(self, config: LogConfig) -> None:
        """Use a changed topic configuration."""
        self.config = config

    def close(self) -> None:
        """Make the whole log durable; no append may follow. May run in a thread."""
        if self.is_loaded:
            self.guarded(self._close)

    def _close(self) -> None:
        rolling.write_epochs(self)
        self.active.finish()
        if self.producers.snapshot_offset != self.log_end_offset:
            rolling.take_producer_snapshot(self, self.log_end_offset)
        flushing.flush(self)

    def release(self) -> None:
        """Close the files as they are; the log must be loaded again before use."""
        for segment in self.segments:
            segment.close()
        self.read_ends.clear()
        self.is_loaded = False

    # Errors of the disk

    def guarded(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Return the result of `call`. Raises KafkaError for I/O errors and damaged files."""
        volume = self.volume  # a flush in a thread may end after the log moved to another volume
        if self.error is not None or volume.failure is not None:
            raise self.refusal()
        try:
            return call(*args, **kwargs)
        except (OSError, CorruptBatch) as error:
            raise self.refused(error, volume) from error

    def refusal(self) -> KafkaError:
        """Return the error of a log that is deleted, failed, or in an offline directory."""
        return self.error if self.error is not None else self.volume.offline()

    def refused(self, error: OSError | CorruptBatch, volume: Volume) -> KafkaError:
        """Return the KafkaError for an operation that raised `error`.

        An I/O error may take the directory offline. A damaged file is logged and takes nothing
        offline: the rest of the log is served.
        """
        if isinstance(error, OSError):
            return volume.refused(error)
        logger.error("corrupt log directory=%s error=%s", self.directory, error)
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"damaged: {error}")

    # Properties

    @property
    def active(self) -> Segment:
        """The segment that receives appends."""
        return self.segments[-1]

    @property
    def size_bytes(self) -> int:
        """The total size of its batches."""
        if not self.is_loaded:
            return log_loading.size_on_disk(self.directory)
        return sum(segment.size for segment in self.segments)

    @property
    def starts_inside_segment(self) -> bool:
        """True when the log start offset is above the first segment's base offset."""
        segments = self.segments
        return bool(segments) and self.log_start_offset > segments[0].base_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction is complete and committed (KIP-98).

        For a transaction whose first records were deleted, the log start offset counts.
        """
        if self.producers.has_transactions:
            unstable = self.producers.first_unstable_offset()
            if unstable is not None and unstable < self.high_watermark:
                return max(unstable, self.log_start_offset)
        return self.high_watermark

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch of the record at `offset`, -1 if unknown."""
        return self.epochs.at(offset)

    @property
    def latest_epoch(self) -> int:
        """The last leader epoch of the log, -1 before any; it may have no records yet."""
        return self.epochs.latest

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the last epoch up to `epoch` and its end offset; (-1, -1) if it is unknown."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # Appending

    def start_leader_epoch(self, epoch: int, start_offset: int) -> None:
        """A leader starts its epoch at `start_offset`; the next append writes that to the file."""
        if self.mirror_end_epoch > self.epochs.latest:
            try:
                self.guarded(mirror_end.end_mirror, self, epoch)
            except KafkaError:
                return  # the next append tries it again, and has the error
        self.epochs.assign(epoch, start_offset)

    def append_as_leader(
        self,
        records: Writable,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = "client",
        done: Outcomes | None = None,
    ) -> AppendInfo:
        """Append one batch; its offset, leader epoch and (by topic) timestamp are set in place.

        A batch that its producer sent before is not appended again. Raises KafkaError with Kafka's
        code for a batch that is refused. Raises RecordWorkNeeded when the records must be examined,
        the batch is too large for that in the loop, and `done` does not have the outcome; with
        `done` None the records are examined here regardless of size.
        """
        return appending.as_leader(self, records, leader_epoch, now_ms, origin, done)

    def append_as_follower(
        self, records: bytes | Writable, *, now_ms: int, leader_epoch: int = EPOCH_MAX
    ) -> None:
        """Append batches as the leader has them; their offsets must follow the log end.

        A batch that was cut off at the end is left out. So are the first batch with an epoch above
        `leader_epoch` and those after it: a leader of a later epoch wrote them (KAFKA-18723).
        Raises KafkaError CORRUPT_MESSAGE at a damaged batch (those before it are appended) and
        OFFSET_OUT_OF_RANGE at one whose offset is below the log end.
        """
        try:
            appending.as_follower(self, records, now_ms, leader_epoch)
        except CorruptBatch as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error

    def append_as_mirror(self, records: Writable, *, leader_epoch: int, now_ms: int) -> AppendInfo:
        """Append, as the leader of a mirror, batches of another cluster's log with their offsets.

        Everything stays as it is in the batches, except the leader epoch. In its place, the sender
        has put the number of offsets that are skipped before the batch. Batches that the log has
        already are left out. All are checked before the first is appended. Raises KafkaError with
        OFFSET_OUT_OF_RANGE for a batch that overlaps the log end or would leave a hole before it,
        MESSAGE_TOO_LARGE, CORRUPT_MESSAGE, INVALID_RECORD, and the errors of the disk.
        """
        return mirroring.append(self, records, leader_epoch, now_ms)

    def open_transactions_of_mirror(self, leader_epoch: int) -> list[tuple[int, int]]:
        """Return producer id and epoch of transactions that were open when the mirror ended.

        As the leader of `leader_epoch`, which is after the mirror. Raises KafkaError.
        """
        self.guarded(mirror_end.end_mirror, self, leader_epoch)
        found = self.producers.open_before(self.mirror_end)
        return [(entry.producer_id, entry.epoch) for entry in found]

    def roll(self, now_ms: int) -> None:
        """Start a new segment, unless the active one is empty."""
        if self.active.size:
            self.guarded(rolling.roll, self, self.log_end_offset, now_ms)

    # Flushing

    def needs_flush(self, now_ms: int) -> bool:
        """True when flush.ms requires a sync of appended records."""
        return flushing.is_due(self, now_ms)

    @property
    def unsynced_bytes(self) -> int:
        """About how many bytes are above the recovery point. May run in a thread."""
        return flushing.unsynced_bytes(self)

    def flush(self) -> None:
        """Make durable what was appended before this call. For a thread, beside appends."""
        self.guarded(flushing.flush, self)

    def flush_rolled(self) -> int:
        """Make all segments but the active one durable; return their size. For a thread."""
        return self.guarded(flushing.flush, self, rolled_only=True)

    # Reading

    def segment_number(self, offset: int) -> int:
        """Return the index of the segment with `offset`; 0 for an offset below all segments."""
        return reading.segment_number(self.segments, offset)

    def read(
        self, offset: int, max_bytes: int, *, upper_bound: int, min_one_message: bool = True
    ) -> FileSlice:
        """Return bytes of one segment from the batch with `offset`, below `upper_bound`.

        `max_bytes` may cut off the last batch. The first batch is always whole: with
        `min_one_message` even above `max_bytes`, otherwise the result is empty if it does not fit.
        Raises KafkaError OFFSET_OUT_OF_RANGE below the log start and above the log end.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {self.topic}-{self.partition} is not within "
                f"{self.log_start_offset} and {self.log_end_offset}",
            )
        if offset >= upper_bound:
            return EMPTY_SLICE
        return self.guarded(reading.read, self, offset, max_bytes, upper_bound, min_one_message)

    def offset_for_timestamp(
        self, timestamp: int, done: Outcomes | None = None
    ) -> tuple[int, int, int] | None:
        """Return timestamp (ms), offset and epoch of the first record at or after `timestamp`.

        None if no record is that late. Raises RecordWorkNeeded as `append_as_leader`.
        """
        found = self.guarded(
            timestamp_lookup.first_at_or_after,
            self.segments,
            timestamp,
            self.log_start_offset,
            done,
        )
        return None if found is None else (*found, self.epochs.at(found[1]))

    def offset_of_max_timestamp(self, done: Outcomes | None = None) -> tuple[int, int, int] | None:
        """Return timestamp (ms), offset and epoch of the record with the largest one (KIP-734).

        None for an empty log. Raises RecordWorkNeeded as `append_as_leader`.
        """
        found = self.guarded(timestamp_lookup.latest, self.segments, self.log_start_offset, done)
        return None if found is None else (*found, self.epochs.at(found[1]))

    def aborted_transactions(self, first_offset: int, upper_bound: int) -> list[AbortedTxn]:
        """Return the aborted transactions with records between the two offsets."""
        return self.guarded(reading.aborted, self.segments, first_offset, upper_bound)

    # Deleting

    def swap_cleaned(self, group: Sequence[tuple[int, int]], size: int) -> bool:
        """Replace the segments in `group` by the cleaned segment of `size` bytes made from them.

        `group` has their base offsets and sizes. Return False, without a change, when these
        segments do not exist any longer with these sizes.
        """
        return self.guarded(segment_swap.swap, self, group, size)

    def retention_is_due(self, now_ms: int) -> bool:
        """True when `apply_retention` may find something in this log, which is not loaded.

        The log is not loaded by this; its configuration must be up to date.
        """
        return self.guarded(retention.is_due, self, now_ms)

    def apply_retention(self, now_ms: int) -> int:
        """Delete segments by the topic's retention settings; return their number."""
        return self.guarded(retention.apply, self, now_ms)

    def truncate_to(self, offset: int) -> None:
        """Remove the records from `offset` on, and the leader epochs that start there or above.

        At the log end, this removes the epoch of a leader that appended nothing.
        """
        if offset < self.log_end_offset:
            self.guarded(truncation.truncate_to, self, offset)
        else:
            self.guarded(truncation.remove_unused_epoch, self)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records; the next one gets `offset`."""
        self.guarded(truncation.start_at, self, offset)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers that were idle for `expiration_ms`; return their number."""
        return self.producers.expire(now_ms, expiration_ms)
