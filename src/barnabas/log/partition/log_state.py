"""The state of one partition's log, and the only code that changes it.

Any module may read the attributes of a log; only the methods here and in `PartitionLog` assign
them (a test holds that). Every change keeps

    log start offset <= high watermark <= log end offset

A call that would break this order is a defect in barnabas, not a fault of a client or a disk. It
changes nothing, is logged, and fails the log: from then on each operation on it raises
KAFKA_STORAGE_ERROR until a restart recovers it. Other partitions and the node continue.
"""

import logging
from collections.abc import Sequence

from barnabas.log.log_config import LogConfig
from barnabas.log.segment.leader_epochs import LeaderEpochs
from barnabas.log.segment.log_segment import Segment
from barnabas.log.segment.producer_state import ProducerState
from barnabas.log.volume import Volume
from barnabas.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

ReadEnds = dict[int, tuple[Segment, int]]
"""By the offset at which a read reached the log's end: the segment and position of that end."""


class InvalidLogStateError(KafkaError):
    """A change would break the order of a log's offsets: a defect in barnabas."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class LogState:
    """Offsets, segments, leader epochs and producers of one partition's log.

    Offsets are named as in Kafka; `log_end_offset` is the offset of the next record.
    """

    __slots__ = (
        "config",
        "cuts",
        "directory",
        "epochs",
        "error",
        "first_dirty_offset",
        "flushed_ms",
        "high_watermark",
        "is_gone",
        "is_loaded",
        "log_end_offset",
        "log_start_offset",
        "mirror_end",
        "mirror_end_epoch",
        "name_changes",
        "partition",
        "producers",
        "read_ends",
        "recovery_point",
        "segments",
        "synced_name_changes",
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
        self.is_gone = False  # deleted; its directory may already belong to a new log
        self.error: KafkaError | None = None  # raised by every operation once it is set
        self.segments: list[Segment] = []
        self.epochs = LeaderEpochs()
        self.producers = ProducerState()
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.recovery_point = 0
        self.first_dirty_offset = 0  # the log is compacted below this offset
        self.mirror_end = -1  # where the log stopped to be a mirror; -1 if it never did
        self.mirror_end_epoch = -1  # leader epochs below it are a mirror's; -1 if it never was one
        self.flushed_ms = 0  # when flush.ms was last checked or applied
        self.cuts = 0  # how often the log end moved back
        self.name_changes = 0  # how often files of the directory were created or replaced
        self.synced_name_changes = 0  # how many of these changes are durable
        self.read_ends: ReadEnds = {}

    # Checks

    def fail(self, reason: str) -> InvalidLogStateError:
        """Log a defect, fail this log, and return the error to raise."""
        error = InvalidLogStateError(f"internal error in {self.topic}-{self.partition}: {reason}")
        if self.error is None:
            self.error = error
        logger.error(
            "log failed by an internal error log=%s reason=%s start=%d high_watermark=%d end=%d",
            self.directory,
            reason,
            self.log_start_offset,
            self.high_watermark,
            self.log_end_offset,
        )
        return error

    # Loading

    def restore_checkpoints(
        self,
        *,
        recovery_point: int = 0,
        high_watermark: int = 0,
        log_start_offset: int = 0,
        first_dirty_offset: int = 0,
    ) -> None:
        """Take over the offsets in the directory's checkpoints, before the log is loaded."""
        if self.is_loaded:
            raise self.fail("checkpoints restored in a loaded log")
        self.recovery_point = recovery_point
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        self.first_dirty_offset = first_dirty_offset

    def finish_loading(self, epochs: LeaderEpochs, log_end_offset: int) -> None:
        """Set the log end that the files have, and bound the checkpointed offsets by the files.

        After a power loss the log may end below them. The directory's checkpoints must be written
        before the next append then: a start after a kill would take the offsets of lost records for
        those of the records that replaced them.
        """
        checkpointed = self._checkpointed_offsets()
        first = self.segments[0].base_offset
        if log_end_offset < first:
            raise self.fail(f"the log ends at {log_end_offset}, before its first segment {first}")
        epochs.truncate_end(log_end_offset)
        self.epochs = epochs
        self.log_end_offset = log_end_offset
        self.log_start_offset = min(max(self.log_start_offset, first), log_end_offset)
        epochs.truncate_start(self.log_start_offset)
        self.high_watermark = min(max(self.high_watermark, self.log_start_offset), log_end_offset)
        self.recovery_point = min(max(self.recovery_point, first), log_end_offset)
        if self._is_below(checkpointed):
            self.volume.note_lost_offsets()

    def replace_producers(self, producers: ProducerState) -> None:
        """Use a producer state that was rebuilt from snapshots and batches."""
        self.producers = producers

    # Offsets

    def advance_log_end(self, offset: int) -> None:
        """Records were appended up to `offset`."""
        if offset <= self.log_end_offset:
            raise self.fail(f"an append moves the log end to {offset}")
        self.log_end_offset = offset

    def advance_high_watermark(self, offset: int) -> None:
        """All in-sync replicas have the records below `offset`."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise self.fail(f"high watermark {offset} is outside the log")
        self.high_watermark = offset
        if self.producers.has_transactions:
            self.producers.high_watermark_advanced(offset)

    def advance_log_start(self, offset: int) -> None:
        """Remove the records below `offset` from the log; retention deletes their segments later.

        Nothing changes when the log already starts there or above.
        """
        if offset <= self.log_start_offset:
            return
        if offset > self.high_watermark:
            raise self.fail(f"log start offset {offset} is above the high watermark")
        self.log_start_offset = offset
        self.epochs.truncate_start(offset)
        self.producers.advance_log_start(offset)

    def cut_log_end(self, offset: int) -> bool:
        """Records from `offset` on were removed. Return True when a checkpointed offset moved back.

        The checkpoints must be written before the next append then.
        """
        if offset > self.log_end_offset:
            raise self.fail(f"truncation moves the log end forward to {offset}")
        checkpointed = self._checkpointed_offsets()
        self.log_end_offset = offset
        self.high_watermark = min(self.high_watermark, offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        with self.volume.mutex:
            self.cuts += 1
            self.recovery_point = min(self.recovery_point, offset)
        self.epochs.truncate_end(offset)
        return self._is_below(checkpointed)

    def restart_at(self, offset: int) -> bool:
        """All records were removed; the next one gets `offset`. Return as `cut_log_end`."""
        checkpointed = self._checkpointed_offsets()
        self.epochs.clear()
        self.producers = ProducerState(offset)
        self.log_end_offset = max(self.log_end_offset, offset)
        self.log_start_offset = self.high_watermark = offset
        self.cut_log_end(offset)
        return self._is_below(checkpointed)

    def _checkpointed_offsets(self) -> tuple[int, int, int]:
        return self.recovery_point, self.high_watermark, self.log_start_offset

    def _is_below(self, earlier: tuple[int, int, int]) -> bool:
        pairs = zip(self._checkpointed_offsets(), earlier, strict=True)
        return any(now < before for now, before in pairs)

    def advance_recovery_point(self, offset: int, *, cuts: int, name_changes: int) -> None:
        """Records below `offset` are durable, unless the log end moved back since `cuts`.

        For the thread that synced them; `name_changes` is how many of those are durable too.
        """
        with self.volume.mutex:
            self.synced_name_changes = max(self.synced_name_changes, name_changes)
            if cuts == self.cuts:
                self.recovery_point = max(self.recovery_point, offset)

    def mark_cleaned(self, offset: int) -> None:
        """Compaction cleaned the log up to `offset`."""
        self.first_dirty_offset = offset
        self.volume.cleaner_offsets[self.topic, self.partition] = offset

    # Mirrors

    def note_mirror_epochs(self, epoch: int) -> None:
        """Batches of leader epochs below `epoch` are mirrored; -1: the log never was a mirror."""
        self.mirror_end_epoch = epoch

    def note_mirror_end(self, offset: int) -> None:
        """The batches below `offset` are a mirror's, and those from there on are not."""
        self.mirror_end = offset

    # Files

    def replace_segments(self, first: int, count: int, new: Sequence[Segment]) -> list[Segment]:
        """Replace `count` segments from number `first` on by `new`; return the replaced ones."""
        replaced = self.segments[first : first + count]
        self.segments[first : first + count] = new
        self.read_ends.clear()
        return replaced

    def add_segment(self, segment: Segment) -> None:
        """Append to `segment` from now on."""
        if self.segments and segment.base_offset <= self.segments[-1].base_offset:
            raise self.fail(f"a segment at {segment.base_offset} does not follow the last one")
        self.segments.append(segment)
        self.note_name_change()

    def note_name_change(self) -> None:
        """A file of the directory was created or replaced: the next flush syncs the directory."""
        self.name_changes += 1

    def note_flush(self, now_ms: int) -> None:
        """flush.ms is satisfied at `now_ms`."""
        self.flushed_ms = now_ms

    def mark_deleted(self) -> None:
        """The log was deleted or quarantined: each operation raises UNKNOWN_TOPIC_OR_PARTITION."""
        self.is_gone = True
        self.error = KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic}-{self.partition} was deleted"
        )

    def move_to(
        self, volume: Volume, directory: str, segments: list[Segment], synced_to: int
    ) -> None:
        """Use a copy of the files in another data directory, which is durable below `synced_to`."""
        with volume.mutex, self.volume.mutex:
            self.volume, self.directory, self.segments = volume, directory, segments
            self.name_changes += 1
            # Last, because a flush that began earlier synced the old files.
            self.cuts += 1
            self.recovery_point = min(self.recovery_point, synced_to)
        self.read_ends.clear()
