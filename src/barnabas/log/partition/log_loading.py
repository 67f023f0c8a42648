"""From a directory to a log: what a start reads, and what it repairs (Kafka's `LogLoader`).

After a clean stop no segment is read, but for what lies behind the last index entry. After a kill
all behind the recovery point is checked, and the log ends before the first batch that is not whole.
"""

import logging
import os
import time
from typing import TYPE_CHECKING, Final

from barnabas.log.checkpoints import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    CheckpointError,
    decode_epochs,
    decode_partition_metadata,
    encode_partition_metadata,
)
from barnabas.log.compaction import segment_swap
from barnabas.log.file_operations import remove_files, replace_file
from barnabas.log.partition import producer_loading, segment_recovery
from barnabas.log.partition.producer_loading import Replay
from barnabas.log.partition.segment_removal import DELETED, remove_now
from barnabas.log.segment.leader_epochs import LeaderEpochs
from barnabas.log.segment.log_segment import (
    OFFSET_NAME,
    Segment,
    sizes_on_disk,
)
from barnabas.protocol.types import Uuid

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog

logger = logging.getLogger(__name__)

_INDEXES: Final = (".index", ".timeindex", ".txnindex")
_CHECKPOINT: Final = ".checkpoint"  # the quorum's snapshots lie beside its log
_OTHER_FILES: Final = (PARTITION_METADATA, LEADER_EPOCHS, "quorum-state")
# Left by a kill in the middle of a replacement, a deletion or a cleaning.
_LEFTOVERS: Final = (".tmp", DELETED, ".cleaned")


def read_topic_id(directory: str) -> Uuid | None:
    """What `partition.metadata` says; None where it says nothing."""
    path = f"{directory}/{PARTITION_METADATA}"
    try:
        with open(path, "rb") as file:
            return decode_partition_metadata(file.read())
    except OSError:
        return None
    except CheckpointError as error:
        logger.warning("ignored file=%s reason=%s", path, error)
        return None


def size_on_disk(directory: str) -> int:
    """The size of the segments in a directory that nobody has opened; 0 if it is not there."""
    try:
        return sum(sizes_on_disk(directory).values())
    except FileNotFoundError:
        return 0


def create(log: "PartitionLog", topic_id: Uuid) -> None:
    """Begin a log in a directory of its own, which names its topic; OSError.

    A directory that is there already is loaded, whatever it holds.
    """
    try:
        os.mkdir(log.directory)
    except FileExistsError:
        write_topic_id(log, topic_id)
        load(log, recover=False)
        return
    write_topic_id(log, topic_id)
    log.segments = [_first_segment(log)]


def write_topic_id(log: "PartitionLog", topic_id: Uuid) -> None:
    """Name the topic in the log's directory; OSError."""
    path = f"{log.directory}/{PARTITION_METADATA}"
    replace_file(path, encode_partition_metadata(topic_id), sync=False)


def load(log: "PartitionLog", recover: bool) -> None:
    """Fill in a log from its directory; OSError."""
    started = time.monotonic()
    snapshots = _find_segments(log)
    lost, checked_from = 0, log.recovery_point
    replay: Replay | None = None
    epochs = _read_epochs(log)
    if not recover:
        active = log.segments[-1]
        log.log_end_offset, position = active.end()
        if position != active.size:
            logger.warning(
                "recovering log=%s reason=no whole batch at %d", active.path, log.log_end_offset
            )
            recover = True
    if recover:
        replay = producer_loading.begin(log, snapshots)
        lost = _recover(log, epochs, replay)
    epochs.truncate_end(log.log_end_offset)
    log.epochs = epochs
    first = log.segments[0].base_offset
    log.log_start_offset = min(max(log.log_start_offset, first), log.log_end_offset)
    log.epochs.truncate_start(log.log_start_offset)
    log.high_watermark = min(max(log.high_watermark, log.log_start_offset), log.log_end_offset)
    log.recovery_point = min(max(log.recovery_point, first), log.log_end_offset)
    producer_loading.finish(log, replay)
    if log.recovery_point < log.active.base_offset:
        log.volume.rolled.add(log)  # to be synced, so that the next start need not check it again
    if recover and log.log_end_offset > checked_from:
        logger.info(
            "recovered log=%s from=%d end=%d lost_bytes=%d ms=%.0f",
            log.directory,
            checked_from,
            log.log_end_offset,
            lost,
            (time.monotonic() - started) * 1000,
        )


def _find_segments(log: "PartitionLog") -> list[int]:
    """The segments by their files, without what a kill left; one is made if there is none.

    Returns the offsets of the producer snapshots.
    """
    with os.scandir(log.directory) as entries:
        found = list(entries)
    if any(entry.name.endswith((segment_swap.SWAP, segment_swap.CLEANED)) for entry in found):
        segment_swap.complete(log.directory)
        with os.scandir(log.directory) as entries:
            found = list(entries)
    sizes: dict[int, int] = {}
    snapshots: list[int] = []
    others: list[tuple[str, str]] = []
    for entry in found:
        stem, suffix = os.path.splitext(entry.name)
        if not entry.is_file():
            logger.warning("ignored, it is no file path=%s", entry.path)
        elif suffix in _LEFTOVERS:
            remove_files([entry.path])
        elif OFFSET_NAME.fullmatch(stem) is None:
            if entry.name not in _OTHER_FILES and _CHECKPOINT not in entry.name:
                logger.warning("ignored, it is none of the log's file=%s", entry.path)
        elif suffix == ".log":
            sizes[int(stem)] = entry.stat().st_size
        elif suffix == producer_loading.SNAPSHOT:
            snapshots.append(int(stem))
        elif suffix in _INDEXES:
            others.append((stem, entry.path))
    orphans = [path for stem, path in others if int(stem) not in sizes]
    for path in orphans:
        logger.warning("removing an index without a segment file=%s", path)
    remove_files(orphans)
    files = log.volume.files
    log.segments = [Segment(log.directory, base, files, sizes[base]) for base in sorted(sizes)]
    if not log.segments:
        log.segments = [_first_segment(log)]
    return snapshots


def _first_segment(log: "PartitionLog") -> Segment:
    segment = Segment(log.directory, max(log.log_start_offset, 0), log.volume.files)
    segment.create(log.config.segment_bytes if log.config.preallocate else 0)
    return segment


def _read_epochs(log: "PartitionLog") -> LeaderEpochs:
    path = f"{log.directory}/{LEADER_EPOCHS}"
    try:
        with open(path, "rb") as file:
            return LeaderEpochs(decode_epochs(file.read()))
    except FileNotFoundError:
        return LeaderEpochs()
    except CheckpointError as error:
        logger.warning("rebuilding leader epochs file=%s reason=%s", path, error)
    epochs = LeaderEpochs()
    for segment in log.segments:
        for _, header in segment.headers():
            epochs.assign(header.partition_leader_epoch, header.base_offset)
    return epochs


def _recover(log: "PartitionLog", epochs: LeaderEpochs, replay: Replay) -> int:
    """Check what lies behind the recovery point and cut at the first fault; the bytes lost."""
    segments = log.segments
    offset = log.recovery_point
    first = log.segment_number(offset)
    replay.walk(segments[log.segment_number(replay.start) : first])
    next_offset, lost = segments[first].base_offset, 0
    for number in range(first, len(segments)):
        segment = segments[number]
        found = segment_recovery.recover(segment, offset, log.config.index_interval_bytes, replay)
        next_offset = found.next_offset
        for entry in found.epochs:
            epochs.assign(entry.epoch, entry.start_offset)
        following = segments[number + 1 :]
        if found.lost or (following and _is_torn(log, next_offset, following[0])):
            lost = found.lost + sum(each.size for each in following)
            logger.warning(
                "cut log=%s offset=%d lost_bytes=%d reason=no whole batch behind it",
                segment.path,
                next_offset,
                lost,
            )
            remove_now(log.directory, following)
            del segments[number + 1 :]
            break
        if following:
            segment.finish()
    log.log_end_offset = next_offset
    return lost


def _is_torn(log: "PartitionLog", next_offset: int, following: Segment) -> bool:
    """Whether a segment lost its end though the next one is there; compaction leaves holes too.

    It leaves them below the recovery point only: without the file of those nobody can tell.
    """
    base = following.base_offset
    return (
        next_offset < base
        and base > max(log.recovery_point, log.first_dirty_offset)
        and bool(log.volume.recovery_points)
    )
