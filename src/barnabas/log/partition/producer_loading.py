"""The producers of a log at its start: a snapshot, and what the batches behind it say.

After a kill recovery walks over the batches anyway, and shows each to `Replay` on its way (as
Kafka's `LogSegment.recover` does); otherwise their headers are read here.
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


class Replay:
    """Is shown the batches from `start` on in the order of the log, and keeps `state` with them.

    With `repair` the transaction indexes are brought in step with the markers found.
    """

    def __init__(self, state: ProducerState, *, repair: bool) -> None:
        self.state = state
        self.start = state.end_offset
        self._repair = repair

    def walk(self, segments: Iterable[Segment]) -> None:
        """Read the headers of these segments; CorruptBatch, OSError."""
        for segment in segments:
            self.begin(segment)
            self.walk_in(segment, segment.size)

    def begin(self, segment: Segment) -> None:
        """Batches of this segment are shown next; OSError."""
        if self._repair:
            segment.transaction_index.truncate(self.start)

    def walk_in(self, segment: Segment, end: int) -> None:
        """Read the headers of a segment up to the position `end`; CorruptBatch, OSError."""
        found = segment.find(self.start) if end else None
        if found is not None and found[0] < end:
            for position, header in segment.headers(found[0], end):
                if header.producer_id >= 0 and header.base_offset >= self.start:
                    self.take(segment, position, header)

    def take(self, segment: Segment, position: int, header: BatchHeader) -> None:
        """A batch of a producer; OSError."""
        if not header.is_control:
            self.state.append(header, header.base_offset)
            return
        marker = read_marker(segment.read_batch(position, header), header)
        if marker is not None:
            aborted = self.state.end_transaction(header, header.base_offset, marker)
            if self._repair and aborted is not None:
                segment.transaction_index.append(aborted)


def begin(log: "PartitionLog", snapshots: Sequence[int]) -> Replay:
    """Begin where recovery does, or before, with the last sound snapshot up to there; OSError.

    Later ones tell nothing of what a kill left of the transaction indexes, and what is not checked
    yet must not be read: so whole segments are gone over (`UnifiedLog.recoverSegment`).
    """
    base = log.segments[log.segment_number(log.recovery_point)].base_offset
    usable = sorted(offset for offset in snapshots if offset <= base)
    return Replay(_from_snapshot(log, usable), repair=True)


def finish(log: "PartitionLog", replay: Replay | None) -> None:
    """Know the producers: by `replay`, which saw the log to its end, or by reading; OSError."""
    is_damaged = _transaction_index_is_damaged(log)
    if replay is None or is_damaged:
        read(log, repair=replay is not None or is_damaged)
        return
    _drop_unneeded(log)
    _know(log, replay.state)


def read(log: "PartitionLog", *, repair: bool = False) -> None:
    """Know the producers from the last sound snapshot, and the batches behind it; OSError."""
    replay = Replay(_from_snapshot(log, _drop_unneeded(log)), repair=repair)
    if replay.start < log.log_end_offset:
        replay.walk(log.segments[log.segment_number(replay.start) :])
    _know(log, replay.state)


def _know(log: "PartitionLog", state: ProducerState) -> None:
    state.end_offset = log.log_end_offset
    state.high_watermark_advanced(log.high_watermark)
    log.producers = state


def _from_snapshot(log: "PartitionLog", snapshots: Sequence[int]) -> ProducerState:
    """What the last sound one of these says; without any, nothing is known of the first segment."""
    state = ProducerState(log.segments[0].base_offset)
    for offset in reversed(snapshots):
        path = f"{log.directory}/{file_name(offset, SNAPSHOT)}"
        try:
            with open(path, "rb") as file:
                state.load(file.read(), offset)
            break
        except SnapshotError as error:
            logger.warning("removing a damaged snapshot file=%s reason=%s", path, error)
            remove_files([path])
    return state


def _transaction_index_is_damaged(log: "PartitionLog") -> bool:
    """Whether the transaction indexes are to be made again; then from the first bad one on."""
    for segment in log.segments:
        fault = segment.transaction_index.fault(segment.base_offset)
        if fault is not None:
            logger.warning("rebuilding transaction index segment=%s reason=%s", segment.path, fault)
            # Without the later snapshots, producers are replayed from before this segment on.
            remove_files(
                f"{log.directory}/{file_name(offset, SNAPSHOT)}"
                for offset in _snapshot_offsets(log.directory)
                if offset > segment.base_offset
            )
            return True
    return False


def _drop_unneeded(log: "PartitionLog") -> list[int]:
    """The offsets of the snapshots within the log; those that no segment needs are removed.

    One for each segment, and the last one (`ProducerStateManager.removeStraySnapshots`).
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
    """Remove all snapshots: the log begins anew."""
    remove_files(
        f"{directory}/{file_name(offset, SNAPSHOT)}" for offset in _snapshot_offsets(directory)
    )
