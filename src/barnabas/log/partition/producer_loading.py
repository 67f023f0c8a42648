"""Rebuild the producer state when a log is loaded: from a snapshot and the batches after it.

After a kill, recovery reads all batches anyway and passes each to `Replay` (as Kafka's
`LogSegment.recover`). Otherwise the batch headers are read here.
"""

import logging
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.log.file_operations import remove_files
from barnabas.log.segment.log_segment import OFFSET_NAME, Segment, file_name
from barnabas.log.segment.producer_state import ProducerState, SnapshotError, read_marker
from barnabas.protocol.batches.batch_header import BatchHeader

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog

logger = logging.getLogger(__name__)

SNAPSHOT: Final = ".snapshot"
NO_MIRROR_END: Final = 1 << 63
"""An offset above all batches: none of them comes after a mirror."""


class Replay:
    """Applies the batches from `start` on, in the order of the log, to `state`.

    With `repair`, the transaction indexes are rebuilt from the markers found. The producers of a
    mirror end with it, at `mirror_end`.
    """

    def __init__(self, state: ProducerState, mirror_end: int, *, repair: bool) -> None:
        self.state = state
        self.start = state.end_offset
        self._repair = repair
        self._mirror_end = mirror_end if mirror_end >= self.start else NO_MIRROR_END

    def walk(self, segments: Iterable[Segment]) -> None:
        """Apply all batches of these segments. Raises CorruptBatch, OSError."""
        for segment in segments:
            self.begin(segment)
            self.walk_in(segment, segment.size)

    def begin(self, segment: Segment) -> None:
        """Prepare to apply the batches of a segment. Raises OSError."""
        if self._repair:
            segment.transaction_index.truncate(self.start)

    def walk_in(self, segment: Segment, end: int) -> None:
        """Apply the batches of a segment up to position `end`. Raises CorruptBatch, OSError."""
        found = segment.find(self.start) if end else None
        if found is not None and found[0] < end:
            for position, header in segment.headers(found[0], end):
                if header.producer_id >= 0 and header.base_offset >= self.start:
                    self.take(segment, position, header)

    def take(self, segment: Segment, position: int, header: BatchHeader) -> None:
        """Apply one batch with a producer id. Raises OSError."""
        if header.base_offset >= self._mirror_end:
            self._end_mirror()
        if not header.is_control:
            self.state.append(header, header.base_offset)
            return
        marker = read_marker(segment.read_batch(position, header), header)
        if marker is not None:
            aborted = self.state.end_transaction(header, header.base_offset, marker)
            if self._repair and aborted is not None:
                segment.transaction_index.append(aborted)

    def finish(self, log_end_offset: int) -> ProducerState:
        """Return the state after all batches."""
        if log_end_offset > self._mirror_end:
            self._end_mirror()
        self.state.end_offset = log_end_offset
        return self.state

    def _end_mirror(self) -> None:
        self.state.forget_idle()
        self._mirror_end = NO_MIRROR_END


def begin(log: "PartitionLog", snapshots: Sequence[int]) -> Replay:
    """Start a replay for recovery, from the last usable snapshot. Raises OSError.

    The snapshot must be at or below the first segment that recovery checks: a later one does not
    help to repair the transaction indexes, and unchecked batches must not be read. So whole
    segments are replayed (`UnifiedLog.recoverSegment`).
    """
    base = log.segments[log.segment_number(log.recovery_point)].base_offset
    usable = sorted(offset for offset in snapshots if offset <= base)
    return Replay(_from_snapshot(log, usable), log.mirror_end, repair=True)


def finish(log: "PartitionLog", replay: Replay | None) -> None:
    """Set the producer state from `replay`, or by reading batches if it is None. Raises OSError."""
    is_damaged = _transaction_index_is_damaged(log)
    if replay is None or is_damaged:
        read(log, repair=replay is not None or is_damaged)
        return
    _remove_unneeded(log)
    _set_producers(log, replay)


def read(log: "PartitionLog", *, repair: bool = False) -> None:
    """Set the producer state from the last usable snapshot and the batches after it.

    Raises CorruptBatch, OSError.
    """
    state = _from_snapshot(log, _remove_unneeded(log))
    replay = Replay(state, log.mirror_end, repair=repair)
    if replay.start < log.log_end_offset:
        replay.walk(log.segments[log.segment_number(replay.start) :])
    _set_producers(log, replay)


def _set_producers(log: "PartitionLog", replay: Replay) -> None:
    state = replay.finish(log.log_end_offset)
    state.high_watermark_advanced(log.high_watermark)
    log.replace_producers(state)


def _from_snapshot(log: "PartitionLog", snapshots: Sequence[int]) -> ProducerState:
    """Return the state in the last usable snapshot; an empty state when there is none."""
    state = ProducerState(log.segments[0].base_offset)
    for offset in reversed(snapshots):
        path = f"{log.directory}/{file_name(offset, SNAPSHOT)}"
        try:
            with open(path, "rb") as file:
                state.load(file.read(), offset)
            break
        except SnapshotError as error:
            logger.warning("removing damaged producer snapshot file=%s reason=%s", path, error)
            remove_files([path])
    return state


def _transaction_index_is_damaged(log: "PartitionLog") -> bool:
    """True when a transaction index is damaged, so that they must be rebuilt from there on."""
    for segment in log.segments:
        fault = segment.transaction_index.fault(segment.base_offset)
        if fault is not None:
            logger.warning("rebuilding transaction index segment=%s reason=%s", segment.path, fault)
            # Without the later snapshots, the replay starts at or before this segment.
            remove_files(
                f"{log.directory}/{file_name(offset, SNAPSHOT)}"
                for offset in _snapshot_offsets(log.directory)
                if offset > segment.base_offset
            )
            return True
    return False


def _remove_unneeded(log: "PartitionLog") -> list[int]:
    """Remove the snapshots that are not needed, and return the offsets of the others.

    Needed are one per segment and the last (`ProducerStateManager.removeStraySnapshots`).
    """
    snapshots = _snapshot_offsets(log.directory)
    bases = {segment.base_offset for segment in log.segments}
    inside = sorted(offset for offset in snapshots if offset <= log.log_end_offset)
    kept = {offset for offset in inside if offset in bases} | set(inside[-1:])
    remove_files(
        f"{log.directory}/{file_name(offset, SNAPSHOT)}"
        for offset in snapshots
        if offset not in kept
    )
    return [offset for offset in inside if offset in kept]


def _snapshot_offsets(directory: str) -> list[int]:
    found: list[int] = []
    for name in os.listdir(directory):
        stem, suffix = os.path.splitext(name)
        if suffix == SNAPSHOT and OFFSET_NAME.fullmatch(stem):
            found.append(int(stem))
    return found


def remove_snapshots(directory: str) -> None:
    """Remove all snapshots."""
    remove_files(
        f"{directory}/{file_name(offset, SNAPSHOT)}" for offset in _snapshot_offsets(directory)
    )
