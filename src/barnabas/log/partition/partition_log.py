"""One partition's log: what is appended, read, truncated and forgotten (Kafka's `UnifiedLog`).

Here are its state and what can be asked of it; how each is done stands in a module of its own
(`loading`, `appending`, `rolling`, `flushing`, `reading`, `lookup`, `retention`, `truncation`).

Plain calls that block at most on the page cache; the server decides which of them run in a thread
(`flush` may, beside everything else). An I/O error takes the whole data directory offline.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from barnabas.log.compaction import segment_swap
from barnabas.log.directories.volume import Volume
from barnabas.log.file_cache import EMPTY_SLICE, FileSlice
from barnabas.log.log_config import LogConfig
from barnabas.log.partition import (
    appending,
    flushing,
    log_loading,
    reading,
    retention,
    rolling,
    timestamp_lookup,
    truncation,
)
from barnabas.log.partition.appending import AppendInfo
from barnabas.log.partition.batch_validation import Origin, Writable
from barnabas.log.record_work import Outcomes
from barnabas.log.segment.leader_epochs import LeaderEpochs
from barnabas.log.segment.log_segment import Segment
from barnabas.log.segment.producer_state import ProducerState
from barnabas.log.segment.segment_index import AbortedTxn
from barnabas.protocol.batches.batch_header import CorruptBatch
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid

if TYPE_CHECKING:
    from barnabas.log.compaction.cleaning_plan import Candidate

logger = logging.getLogger(__name__)

_P = ParamSpec("_P")
_T = TypeVar("_T")


class PartitionLog:
    """The log in one directory. Offsets as in Kafka: `log_end_offset` is the next one.

    Not loaded (`is_loaded`), it knows its name alone; `load` reads what it must. All methods below
    need that, but for `retention_is_due`. They raise KafkaError KAFKA_STORAGE_ERROR when the disk
    fails.
    """

    __slots__ = (
        "_topic_id",
        "changed_names",
        "config",
        "cuts",
        "directory",
        "epochs",
        "first_dirty_offset",
        "flushed_ms",
        "high_watermark",
        "is_gone",
        "is_loaded",
        "log_end_offset",
        "log_start_offset",
        "partition",
        "producers",
        "read_ends",
        "recovery_point",
        "segments",
        "synced_names",
        "topic",
        "volume",
    )

    def __init__(self, volume: Volume, topic: str, partition: int, config: LogConfig) -> None:
        self.volume = volume
        self.topic = topic
        self.partition = partition
        self.config = config
        self.directory = f"{volume.path}/{topic}-{partition}"
        self.is_loaded = False
        self.is_gone = False  # deleted: the directory may already be another log's
        self.segments: list[Segment] = []
        self.epochs = LeaderEpochs()
        self.producers = ProducerState()
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.recovery_point = 0
        self.first_dirty_offset = 0  # below it, the log was compacted
        self._topic_id: Uuid | None = None
        self.flushed_ms = 0  # when flush.ms was last kept
        self.cuts = 0  # how often the end moved back
        self.changed_names = 0  # how often files were named, and up to where that was synced
        self.synced_names = 0
        self.read_ends: reading.ReadEnds = {}

    def __repr__(self) -> str:
        return f"<PartitionLog {self.directory}>"

    # Opening and closing

    def load(self, *, recover: bool) -> None:
        """Read what is on the disk; after a kill (`recover`) check all behind the recovery point.

        `recovery_point`, `high_watermark` and `log_start_offset` come from the checkpoints.
        """
        if not self.is_loaded:
            self.guarded(log_loading.load, self, recover)
            self.is_loaded = True

    def create(self, topic_id: Uuid) -> None:
        """Begin a new log with its directory, its topic's id and its first segment."""
        self.guarded(log_loading.create, self, topic_id)
        self._topic_id = topic_id
        self.is_loaded = True

    @property
    def topic_id(self) -> Uuid | None:
        """The id in `partition.metadata`; None if the file is not there, or damaged."""
        if self._topic_id is None:
            self._topic_id = log_loading.read_topic_id(self.directory)
        return self._topic_id

    def adopt(self, topic_id: Uuid) -> None:
        """Write `partition.metadata` again, which was lost or damaged."""
        self.guarded(log_loading.write_topic_id, self, topic_id)
        self._topic_id = topic_id

    def update_config(self, config: LogConfig) -> None:
        """The topic's configuration changed."""
        self.config = config

    def close(self) -> None:
        """Make all of it durable; nothing is appended any more. Callable from a thread."""
        if self.is_loaded:
            self.guarded(self._close)

    def _close(self) -> None:
        rolling.write_epochs(self)
        self.active.finish()
        if self.producers.snapshot_offset != self.log_end_offset:
            rolling.take_producer_snapshot(self, self.log_end_offset)
        flushing.flush(self)

    def release(self) -> None:
        """Let go of the files, as they are; it must be loaded again."""
        for segment in self.segments:
            segment.close()
        self.read_ends.clear()
        self.is_loaded = False

    def moved_to(
        self, volume: Volume, directory: str, segments: list[Segment], synced_to: int
    ) -> None:
        """Go on with a copy of the files, of which what is below `synced_to` is on the disk."""
        with volume.mutex, self.volume.mutex:
            self.volume, self.directory, self.segments = volume, directory, segments
            self.changed_names += 1
            # Last: a flush that began before this is of the old files.
            self.cuts += 1
            self.recovery_point = min(self.recovery_point, synced_to)
        self.read_ends.clear()

    # What its disk refuses

    def guarded(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """What the call gives; KafkaError for what the disk refuses or has damaged."""
        volume = self.volume  # a flush in a thread may end after the log moved to another
        if self.is_gone or volume.failure is not None:
            raise self.refusal()
        try:
            return call(*args, **kwargs)
        except (OSError, CorruptBatch) as error:
            raise self.refused(error, volume) from error

    def refusal(self) -> KafkaError:
        """What a log answers that was deleted, or whose directory is offline."""
        if self.is_gone:
            return KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic}-{self.partition} was deleted"
            )
        return self.volume.offline()

    def refused(self, error: OSError | CorruptBatch, volume: Volume) -> KafkaError:
        """What an operation answers in which this happened.

        A damaged file is told of and takes nothing offline: the rest of the log is served.
        """
        if isinstance(error, OSError):
            return volume.refused(error)
        logger.error("corrupt log directory=%s error=%s", self.directory, error)
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"damaged: {error}")

    # What it has

    @property
    def active(self) -> Segment:
        """The segment that is appended to."""
        return self.segments[-1]

    @property
    def size_bytes(self) -> int:
        """The size of its batches."""
        if not self.is_loaded:
            return log_loading.size_on_disk(self.directory)
        return sum(segment.size for segment in self.segments)

    @property
    def starts_inside_segment(self) -> bool:
        """Whether its first offset cannot be told from the names of its files."""
        segments = self.segments
        return bool(segments) and self.log_start_offset > segments[0].base_offset

    @property
    def last_stable_offset(self) -> int:
        """Below it, every transaction is decided and committed (KIP-98).

        One whose first records were deleted counts from the log's start on.
        """
        if self.producers.has_transactions:
            unstable = self.producers.first_unstable_offset()
            if unstable is not None and unstable < self.high_watermark:
                return max(unstable, self.log_start_offset)
        return self.high_watermark

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at `offset`, -1 if unknown."""
        return self.epochs.at(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The last epoch up to `epoch` and where it ended; (-1, -1) if it is unknown."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # Appending

    def start_leader_epoch(self, epoch: int, start_offset: int) -> None:
        """A leader begins its epoch here; written down before the next append."""
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
        """Append one batch, into which offset and epoch (and, if it is the topic's, time) go.

        Raises KafkaError with what Kafka answers to a batch that it refuses, and RecordWorkNeeded
        where its records have to be looked at, which is too much for the loop and not in `done`
        (None: it is done here). A batch that its producer sent before is not appended again.
        """
        return appending.as_leader(self, records, leader_epoch, now_ms, origin, done)

    def append_as_follower(self, records: bytes | Writable, *, now_ms: int) -> None:
        """Append batches as the leader has them; its offsets must continue ours.

        Raises KafkaError CORRUPT_MESSAGE for a damaged batch (those before it are appended) and
        OFFSET_OUT_OF_RANGE for one that does not follow.
        """
        appending.as_follower(self, records, now_ms)

    def advance_high_watermark(self, offset: int) -> None:
        """All replicas in sync have what is below `offset`."""
        self.high_watermark = offset
        if self.producers.has_transactions:
            self.producers.high_watermark_advanced(offset)

    def roll(self, now_ms: int) -> None:
        """Begin a new segment, unless the active one is empty."""
        if self.active.size:
            self.guarded(rolling.roll, self, self.log_end_offset, now_ms)

    # Making durable

    def needs_flush(self, now_ms: int) -> bool:
        """Whether flush.ms asks for a sync of what was appended."""
        return flushing.is_due(self, now_ms)

    @property
    def unsynced_bytes(self) -> int:
        """About how much lies behind the recovery point. Callable from a thread."""
        return flushing.unsynced_bytes(self)

    def flush(self) -> None:
        """Make durable what was appended before this call. For a thread, beside appends."""
        self.guarded(flushing.flush, self)

    def flush_rolled(self) -> int:
        """Make durable the segments that are not appended to any more; their size in bytes.

        For a thread.
        """
        return self.guarded(flushing.flush, self, rolled_alone=True)

    # Reading

    def segment_number(self, offset: int) -> int:
        """The segment that holds `offset` (the first, for one below all)."""
        return reading.segment_number(self.segments, offset)

    def read(
        self, offset: int, max_bytes: int, *, upper_bound: int, min_one_message: bool = True
    ) -> FileSlice:
        """Bytes from the batch that holds `offset`, below `upper_bound`, of one segment.

        The last batch may be cut off by `max_bytes`, the first one not: it is there whole with
        `min_one_message`, and without it only if it fits.
        Raises KafkaError OFFSET_OUT_OF_RANGE below the log's start or behind its end.
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
        """Timestamp (ms), offset and epoch of the first record at or after it; None without.

        RecordWorkNeeded as `append_as_leader`.
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
        """Timestamp (ms), offset and epoch of the record with the largest one (KIP-734).

        RecordWorkNeeded as `append_as_leader`.
        """
        found = self.guarded(timestamp_lookup.latest, self.segments, self.log_start_offset, done)
        return None if found is None else (*found, self.epochs.at(found[1]))

    def aborted_transactions(self, first_offset: int, upper_bound: int) -> list[AbortedTxn]:
        """Those with records between the two offsets, for read_committed consumers."""
        return self.guarded(reading.aborted, self.segments, first_offset, upper_bound)

    # Forgetting

    def delete_records(self, before_offset: int) -> None:
        """Begin at `before_offset` from now on; retention removes what lies below."""
        if before_offset > self.log_start_offset:
            self.log_start_offset = before_offset
            self.epochs.truncate_start(before_offset)
            self.producers.advance_log_start(before_offset)

    def cleaning_candidate(self, now_ms: int) -> "Candidate | None":
        """What compaction could do here; None if there is nothing."""
        from barnabas.log.compaction import cleaning_plan

        return self.guarded(cleaning_plan.candidate, self, now_ms)

    def swap_cleaned(self, group: Sequence[tuple[int, int]], size: int) -> bool:
        """Put a cleaned segment of `size` bytes in the place of those it was made from.

        `group` are their base offsets and sizes. False, and nothing is done, if they are not there
        any more as they were.
        """
        return self.guarded(segment_swap.take, self, group, size)

    def retention_is_due(self, now_ms: int) -> bool:
        """Whether `apply_retention` may find something; asked of a log that is not loaded.

        It stays so, but its configuration must be known.
        """
        return self.guarded(retention.is_due, self, now_ms)

    def apply_retention(self, now_ms: int) -> int:
        """Delete old segments as the topic's configuration says; how many."""
        return self.guarded(retention.apply, self, now_ms)

    def truncate_to(self, offset: int) -> None:
        """Drop the records from `offset` on."""
        if offset < self.log_end_offset:
            self.guarded(truncation.truncate_to, self, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the next record takes `offset`."""
        self.guarded(truncation.start_at, self, offset)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that were silent for that long; how many."""
        return self.producers.expire(now_ms, expiration_ms)
