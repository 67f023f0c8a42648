"""One partition's log: what is appended, read, truncated and forgotten (Kafka's `UnifiedLog`).

Plain calls that block at most on the page cache; the server decides which of them run in a thread
(`flush` may, beside everything else). An I/O error takes the whole data directory offline.
"""

import logging
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, ParamSpec, TypeVar

from barnabas.log import flushing, loading, lookup, reading, retention
from barnabas.log.checkpoints import LEADER_EPOCHS, encode_epochs
from barnabas.log.compaction import swap
from barnabas.log.config import LONG_MAX, LogConfig
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.files import EMPTY_SLICE, FileSlice, replace_file
from barnabas.log.index import AbortedTxn
from barnabas.log.producer_state import (
    BatchMetadata,
    EndTxnMarker,
    ProducerState,
    read_marker,
)
from barnabas.log.record_work import Outcomes
from barnabas.log.segment import RELATIVE_OFFSET_MAX, Segment, file_name
from barnabas.log.validation import (
    Origin,
    Writable,
    check_batch,
    check_follower_batch,
    complete_batch,
    needs_records,
)
from barnabas.log.volume import Volume
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.records.batch import (
    BatchHeader,
    CorruptBatch,
    assign_offset,
    iter_batches,
)
from barnabas.protocol.types import Uuid

if TYPE_CHECKING:
    from barnabas.log.compaction.plan import Candidate

logger = logging.getLogger(__name__)

_P = ParamSpec("_P")
_T = TypeVar("_T")

_CONTROL: Final = 0x20
# Places where reads of the log's end stopped, which is where the next ones begin.
_READ_ENDS_MAX: Final = 64


class AppendInfo(NamedTuple):
    """What an append did, or, for a duplicate, what the first append of that batch did.

    `log_append_time_ms` is -1 where records keep their producers' timestamps.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int = -1
    duplicate: bool = False


class PartitionLog:
    """The log in one directory. Offsets as in Kafka: `log_end_offset` is the next one.

    Not loaded (`is_loaded`), it knows its name alone; `load` reads what it must. All methods below
    need that, but for `retention_is_due`. They raise KafkaError KAFKA_STORAGE_ERROR when the disk
    fails.
    """

    __slots__ = (
        "_flushed_ms",
        "_read_ends",
        "_topic_id",
        "changed_names",
        "config",
        "cuts",
        "directory",
        "epochs",
        "first_dirty_offset",
        "high_watermark",
        "is_gone",
        "is_loaded",
        "log_end_offset",
        "log_start_offset",
        "partition",
        "producers",
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
        self._flushed_ms = 0
        self.cuts = 0  # how often the end moved back
        self.changed_names = 0  # how often files were named, and up to where that was synced
        self.synced_names = 0
        self._read_ends: dict[int, tuple[Segment, int]] = {}

    def __repr__(self) -> str:
        return f"<PartitionLog {self.directory}>"

    # Opening and closing

    def load(self, *, recover: bool) -> None:
        """Read what is on the disk; after a kill (`recover`) check all behind the recovery point.

        `recovery_point`, `high_watermark` and `log_start_offset` come from the checkpoints.
        """
        if not self.is_loaded:
            self._guarded(loading.load, self, recover)
            self.is_loaded = True

    def create(self, topic_id: Uuid) -> None:
        """Begin a new log with its directory, its topic's id and its first segment."""
        self._guarded(loading.create, self, topic_id)
        self._topic_id = topic_id
        self.is_loaded = True

    @property
    def topic_id(self) -> Uuid | None:
        """The id in `partition.metadata`; None if the file is not there, or damaged."""
        if self._topic_id is None:
            self._topic_id = loading.read_topic_id(self.directory)
        return self._topic_id

    def adopt(self, topic_id: Uuid) -> None:
        """Write `partition.metadata` again, which was lost or damaged."""
        self._guarded(loading.write_topic_id, self, topic_id)
        self._topic_id = topic_id

    def update_config(self, config: LogConfig) -> None:
        """The topic's configuration changed."""
        self.config = config

    def close(self) -> None:
        """Make all of it durable; nothing is appended any more. Callable from a thread."""
        if self.is_loaded:
            self._guarded(self._close)

    def _close(self) -> None:
        self._write_epochs()
        self.active.finish()
        if self.producers.snapshot_offset != self.log_end_offset:
            self._take_producer_snapshot(self.log_end_offset)
        flushing.flush(self)

    def release(self) -> None:
        """Let go of the files, as they are; it must be loaded again."""
        for segment in self.segments:
            segment.close()
        self._read_ends.clear()
        self.is_loaded = False

    def _refusal(self) -> KafkaError:
        if self.is_gone:
            return KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic}-{self.partition} was deleted"
            )
        return self.volume.offline()

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
        self._read_ends.clear()

    def _guarded(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        volume = self.volume  # a flush in a thread may end after the log moved to another
        if self.is_gone or volume.failure is not None:
            raise self._refusal()
        try:
            return call(*args, **kwargs)
        except OSError as error:
            raise volume.refused(error) from error
        except CorruptBatch as error:
            logger.error("corrupt log directory=%s error=%s", self.directory, error)
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.directory}: {error}") from error

    # What it has

    @property
    def active(self) -> Segment:
        """The segment that is appended to."""
        return self.segments[-1]

    @property
    def size_bytes(self) -> int:
        """The size of its batches."""
        if not self.is_loaded:
            return loading.size_on_disk(self.directory)
        return sum(segment.size for segment in self.segments)

    @property
    def starts_inside_segment(self) -> bool:
        """Whether its first offset cannot be told from the names of its files."""
        segments = self.segments
        return bool(segments) and self.log_start_offset > segments[0].base_offset

    @property
    def last_stable_offset(self) -> int:
        """Below it, every transaction is decided and committed (KIP-98)."""
        if self.producers.has_transactions:
            unstable = self.producers.first_unstable_offset()
            if unstable is not None and unstable < self.high_watermark:
                return unstable
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
        config = self.config
        header = check_batch(records, config, origin)
        if needs_records(header, config, now_ms, origin):
            records, header = complete_batch(records, header, config, now_ms, origin, done)
        if len(records) > config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{len(records)} bytes are more than a segment of {config.segment_bytes}",
            )
        marker: EndTxnMarker | None = None
        if header.producer_id >= 0:
            if header.attributes & _CONTROL:
                marker = read_marker(records, header)
                if marker is not None:
                    self.producers.check_marker(header, marker)
            elif origin == "client":
                duplicate = self._guarded(self._duplicate_of, header)
                if duplicate is not None:
                    return AppendInfo(
                        duplicate.first_offset, duplicate.last_offset, duplicate.timestamp, True
                    )
        first = self.log_end_offset
        assign_offset(records, 0, first, leader_epoch)
        last = first + header.last_offset_delta
        try:
            self._append(records, header, first, last, leader_epoch, now_ms, marker)
        except OSError as error:
            raise self.volume.refused(error) from error
        return AppendInfo(first, last, now_ms if config.log_append_time else -1)

    def append_as_follower(self, records: bytes | Writable, *, now_ms: int) -> None:
        """Append batches as the leader has them; its offsets must continue ours.

        Raises KafkaError CORRUPT_MESSAGE for a damaged batch (those before it are appended) and
        OFFSET_OUT_OF_RANGE for one that does not follow.
        """
        view = memoryview(records)
        for position, header in iter_batches(records):
            check_follower_batch(records, position, header)
            if header.base_offset < self.log_end_offset:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"a batch at {header.base_offset}, the log ends at {self.log_end_offset}",
                )
            batch = view[position : position + header.size]
            marker: EndTxnMarker | None = None
            if header.producer_id >= 0 and header.attributes & _CONTROL:
                marker = read_marker(batch, header)
            first, epoch = header.base_offset, header.partition_leader_epoch
            self._guarded(
                self._append, batch, header, first, header.last_offset, epoch, now_ms, marker
            )

    def _append(
        self,
        batch: bytes | Writable,
        header: BatchHeader,
        first: int,
        last: int,
        leader_epoch: int,
        now_ms: int,
        marker: EndTxnMarker | None,
    ) -> None:
        if self.is_gone or self.volume.failure is not None:
            raise self._refusal()
        config = self.config
        epochs = self.epochs
        if not epochs.entries or leader_epoch > epochs.entries[-1].epoch:
            epochs.assign(leader_epoch, first)
        if epochs.is_dirty:
            self._write_epochs()
        segment = self.segments[-1]
        if segment.is_due_to_roll(config, len(batch), header.max_timestamp, last, now_ms):
            # Only a batch far behind the end, from a leader that compacted, leaves a hole here.
            end = self.log_end_offset
            segment = self._roll(end if last - end <= RELATIVE_OFFSET_MAX else first, now_ms)
        segment.append(batch, last, header.max_timestamp, config.index_interval_bytes)
        self.log_end_offset = last + 1
        if header.producer_id >= 0:
            self._note_producer(segment, header, first, marker)

    def _note_producer(
        self, segment: Segment, header: BatchHeader, first: int, marker: EndTxnMarker | None
    ) -> None:
        if not header.attributes & _CONTROL:
            self.producers.append(header, first)
        elif marker is not None:
            aborted = self.producers.end_transaction(header, first, marker)
            if aborted is not None:
                self._index_aborted(segment, aborted)

    def _index_aborted(self, segment: Segment, aborted: AbortedTxn) -> None:
        try:
            segment.transaction_index.append(aborted)
        except OSError as error:
            # The marker is in the log already: without its entry readers would see what it aborts.
            raise self.volume.fail(error) from error

    def _duplicate_of(self, header: BatchHeader) -> BatchMetadata | None:
        producers = self.producers
        try:
            return producers.check_client_batch(header)
        except KafkaError as error:
            entry = producers.producers.get(header.producer_id)
            if (
                error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                or entry is None
                or not entry.window_is_cut
            ):
                raise
        # Its window came from a snapshot: what came before may be in the last two segments.
        producers.restore_window(entry, self._headers(self.segments[-2:]))
        return producers.check_client_batch(header)

    def _headers(self, segments: Iterable[Segment]) -> Iterator[BatchHeader]:
        for segment in segments:
            for _, header in segment.headers():
                yield header

    def advance_high_watermark(self, offset: int) -> None:
        """All replicas in sync have what is below `offset`."""
        self.high_watermark = offset
        if self.producers.has_transactions:
            self.producers.high_watermark_advanced(offset)

    # Rolling

    def roll(self, now_ms: int) -> None:
        """Begin a new segment, unless the active one is empty."""
        if self.active.size:
            self._guarded(self._roll, self.log_end_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        active = self.segments[-1]
        if active.size:
            active.finish()
        else:  # a follower's first batch may lie far behind an empty segment
            retention.remove_now(self.directory, [self.segments.pop()])
        self._take_producer_snapshot(base_offset)
        self.volume.rolled.add(self)
        return self._new_segment(base_offset, now_ms)

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        segment = Segment(self.directory, base_offset, self.volume.files)
        segment.created_ms = now_ms
        jitter_ms = min(self.config.segment_jitter_ms, self.config.segment_ms)
        if jitter_ms:
            # Spreads rolls over time; nothing else depends on it.
            segment.roll_jitter_ms = random.randrange(jitter_ms)
        segment.create(self.config.segment_bytes if self.config.preallocate else 0)
        self.segments.append(segment)
        self.changed_names += 1
        return segment

    def _take_producer_snapshot(self, offset: int) -> None:
        path = f"{self.directory}/{file_name(offset, '.snapshot')}"
        replace_file(path, self.producers.encode(), sync=False)
        self.producers.snapshot_offset = offset

    def _write_epochs(self) -> None:
        if self.epochs.is_dirty:
            path = f"{self.directory}/{LEADER_EPOCHS}"
            replace_file(path, encode_epochs(self.epochs.entries), sync=False)
            self.epochs.is_dirty = False
            self.changed_names += 1

    # Making durable

    def needs_flush(self, now_ms: int) -> bool:
        """Whether flush.ms asks for a sync of what was appended."""
        if self.config.flush_ms >= LONG_MAX or not self.is_loaded:
            return False
        if self.recovery_point >= self.log_end_offset:
            self._flushed_ms = now_ms
            return False
        if now_ms - self._flushed_ms < self.config.flush_ms:
            return False
        self._flushed_ms = now_ms
        return True

    @property
    def unsynced_bytes(self) -> int:
        """About how much lies behind the recovery point. Callable from a thread."""
        return flushing.unsynced_bytes(self)

    def flush(self) -> None:
        """Make durable what was appended before this call. For a thread, beside appends."""
        self._guarded(flushing.flush, self)

    def flush_rolled(self) -> int:
        """Make durable the segments that are not appended to any more; their size in bytes.

        For a thread.
        """
        return self._guarded(flushing.flush, self, rolled_alone=True)

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
        known = self._read_ends.get(offset)
        if known is not None and upper_bound >= self.log_end_offset and self.volume.failure is None:
            segment, position = known
            size = segment.size - position
            if 0 < size <= max_bytes:
                try:
                    return self._slice(segment, position, size)
                except OSError as error:
                    raise self.volume.refused(error) from error
        return self._guarded(self._read, offset, max_bytes, upper_bound, min_one_message)

    def _read(
        self, offset: int, max_bytes: int, upper_bound: int, min_one_message: bool
    ) -> FileSlice:
        found = reading.find(
            self.segments,
            offset,
            max_bytes,
            upper_bound=upper_bound,
            end_offset=self.log_end_offset,
            min_one_message=min_one_message,
        )
        return EMPTY_SLICE if found is None else self._slice(*found)

    def _slice(self, segment: Segment, position: int, size: int) -> FileSlice:
        if segment is self.segments[-1] and position + size == segment.size:
            ends = self._read_ends
            end_offset = self.log_end_offset
            if end_offset not in ends:
                if len(ends) >= _READ_ENDS_MAX:
                    del ends[next(iter(ends))]
                ends[end_offset] = (segment, segment.size)
        return FileSlice(segment.opened(), position, size)

    def offset_for_timestamp(
        self, timestamp: int, done: Outcomes | None = None
    ) -> tuple[int, int, int] | None:
        """Timestamp (ms), offset and epoch of the first record at or after it; None without.

        RecordWorkNeeded as `append_as_leader`.
        """
        found = self._guarded(
            lookup.first_at_or_after, self.segments, timestamp, self.log_start_offset, done
        )
        return None if found is None else (*found, self.epochs.at(found[1]))

    def offset_of_max_timestamp(self, done: Outcomes | None = None) -> tuple[int, int, int] | None:
        """Timestamp (ms), offset and epoch of the record with the largest one (KIP-734).

        RecordWorkNeeded as `append_as_leader`.
        """
        found = self._guarded(lookup.latest, self.segments, self.log_start_offset, done)
        return None if found is None else (*found, self.epochs.at(found[1]))

    def aborted_transactions(self, first_offset: int, upper_bound: int) -> list[AbortedTxn]:
        """Those with records between the two offsets, for read_committed consumers."""
        return self._guarded(reading.aborted, self.segments, first_offset, upper_bound)

    # Forgetting

    def delete_records(self, before_offset: int) -> None:
        """Begin at `before_offset` from now on; retention removes what lies below."""
        if before_offset > self.log_start_offset:
            self.log_start_offset = before_offset
            self.epochs.truncate_start(before_offset)
            self.producers.advance_log_start(before_offset)

    def cleaning_candidate(self, now_ms: int) -> "Candidate | None":
        """What compaction could do here; None if there is nothing."""
        from barnabas.log.compaction import plan

        return self._guarded(plan.candidate, self, now_ms)

    def swap_cleaned(self, group: Sequence[tuple[int, int]], size: int) -> bool:
        """Put a cleaned segment of `size` bytes in the place of those it was made from.

        `group` are their base offsets and sizes. False, and nothing is done, if they are not there
        any more as they were.
        """
        return self._guarded(self._swap_cleaned, group, size)

    def _swap_cleaned(self, group: Sequence[tuple[int, int]], size: int) -> bool:
        first = self.segment_number(group[0][0])
        old = self.segments[first : first + len(group)]
        known = [(segment.base_offset, segment.size) for segment in old]
        if (
            known != list(group)
            or old[-1] is self.active
            or swap.cleaned_size(self.directory, group[0][0]) != size  # it moved elsewhere
        ):
            swap.discard(self.directory, group[0][0])
            return False
        self._read_ends.clear()
        new = swap.replace(self, old, size)
        self.segments[first : first + len(group)] = [new]
        return True

    def retention_is_due(self, now_ms: int) -> bool:
        """Whether `apply_retention` may find something; asked of a log that is not loaded.

        It stays so, but its configuration must be known.
        """
        return self._guarded(retention.is_due, self, now_ms)

    def apply_retention(self, now_ms: int) -> int:
        """Delete old segments as the topic's configuration says; how many."""
        return self._guarded(self._apply_retention, now_ms)

    def _apply_retention(self, now_ms: int) -> int:
        count = retention.expired(self, now_ms)
        if not count:
            return 0
        if count == len(self.segments):
            self._roll(self.log_end_offset, now_ms)
        gone, self.segments = self.segments[:count], self.segments[count:]
        self._read_ends.clear()
        retention.remove_later(self, gone)
        self.delete_records(self.segments[0].base_offset)
        return count

    def truncate_to(self, offset: int) -> None:
        """Drop the records from `offset` on."""
        if offset < self.log_end_offset:
            self._guarded(self._truncate_to, offset)

    def _truncate_to(self, offset: int) -> None:
        if offset <= self.segments[0].base_offset:
            return self._start_at(offset)
        self._read_ends.clear()
        number = self.segment_number(offset)
        if self.segments[number].base_offset == offset and number:
            number -= 1
        dropped = self.segments[number + 1 :]
        del self.segments[number + 1 :]
        retention.remove_now(self.directory, dropped)
        segment = self.segments[number]
        found = segment.find(offset)
        if found is not None:
            segment.truncate(found[0], offset - 1)
        self._ends_at(offset)
        loading.load_producers(self)
        return None

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the next record takes `offset`."""
        self._guarded(self._start_at, offset)

    def _start_at(self, offset: int) -> None:
        self._read_ends.clear()
        dropped, self.segments = self.segments, []
        retention.remove_now(self.directory, dropped)
        loading.remove_snapshots(self.directory)
        self._new_segment(offset, 0)
        self.log_start_offset = offset
        self.high_watermark = offset
        self.epochs.clear()
        self.producers = ProducerState(offset)
        self._ends_at(offset)

    def _ends_at(self, offset: int) -> None:
        self.log_end_offset = offset
        self.high_watermark = min(self.high_watermark, offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        with self.volume.mutex:
            self.cuts += 1
            self.recovery_point = min(self.recovery_point, offset)
        self.epochs.truncate_end(offset)
        self._write_epochs()

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that were silent for that long; how many."""
        return self.producers.expire(now_ms, expiration_ms)
