"""Create or load a log from its directory, and repair it after a kill (Kafka's `LogLoader`).

After a clean stop, only the batches after the last index entry are read. After a kill, all batches
above the recovery point are checked, and the log is cut before the first damaged one.
"""

import logging
import os
import time
from typing import TYPE_CHECKING, Final

from barnabas.log.checkpoints import (
    LEADER_EPOCHS,
    MIRROR_END,
    PARTITION_METADATA,
    CheckpointError,
    decode_epochs,
    decode_mirror_end,
    decode_partition_metadata,
    encode_partition_metadata,
)
from barnabas.log.file_operations import remove_files, replace_file
from barnabas.log.partition import producer_loading, segment_recovery, segment_swap
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
_CHECKPOINT: Final = ".checkpoint"  # the metadata log's directory holds its snapshots too
_OTHER_FILES: Final = (PARTITION_METADATA, LEADER_EPOCHS, MIRROR_END, "quorum-state")
# A kill during a replacement, a deletion or a cleaning leaves these files.
_LEFTOVERS: Final = (".tmp", DELETED, ".cleaned")


def read_topic_id(directory: str) -> Uuid | None:
    """Return the topic id in `partition.metadata`; None if the file is missing or damaged."""
    path = f"{directory}/{PARTITION_METADATA}"
    try:
        with open(path, "rb") as file:
            return decode_partition_metadata(file.read())
    except OSError:
        return None
    except CheckpointError as error:
        logger.warning("ignoring damaged file=%s reason=%s", path, error)
        return None


def size_on_disk(directory: str) -> int:
    """Return the size of the segments in a log directory; 0 if it does not exist."""
    try:
        return sum(sizes_on_disk(directory).values())
    except FileNotFoundError:
        return 0


def create(log: "PartitionLog", topic_id: Uuid) -> None:
    """Create the log's directory, the file with the topic's id, and a segment. Raises OSError.

    If the directory exists already, the log in it is loaded.
    """
    try:
        os.mkdir(log.directory)
    except FileExistsError:
        write_topic_id(log, topic_id)
        load(log, recover=False)
        return
    write_topic_id(log, topic_id)
    log.replace_segments(0, 0, [_first_segment(log)])


def write_topic_id(log: "PartitionLog", topic_id: Uuid) -> None:
    """Write the topic's id to `partition.metadata`. Raises OSError."""
    path = f"{log.directory}/{PARTITION_METADATA}"
    replace_file(path, encode_partition_metadata(topic_id), sync=False)


def load(log: "PartitionLog", recover: bool) -> None:
    """Load a log from its directory; with `recover` check its batches. Raises OSError."""
    started = time.monotonic()
    snapshots = _find_segments(log)
    lost, checked_from = 0, log.recovery_point
    replay: Replay | None = None
    epochs = _read_epochs(log)
    log.note_mirror_end(_read_mirror_end(log))
    end_offset, position = log.active.end() if not recover else (0, 0)
    if not recover and position != log.active.size:
        logger.warning(
            "recovering log=%s reason=no whole batch at offset %d", log.active.path, end_offset
        )
        recover = True
    if recover:
        replay = producer_loading.begin(log, snapshots)
        end_offset, lost = _recover(log, epochs, replay)
    log.finish_loading(epochs, end_offset)
    producer_loading.finish(log, replay)
    if log.recovery_point < log.active.base_offset:
        log.volume.rolled.add(log)  # sync it, so that the next start does not check it again
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
    """Find the segments, remove what a kill left, and create a segment if there is none.

    Return the offsets of the producer snapshots.
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
            logger.warning("ignoring unknown directory entry, not a file path=%s", entry.path)
        elif suffix in _LEFTOVERS:
            remove_files([entry.path])
        elif OFFSET_NAME.fullmatch(stem) is None:
            if entry.name not in _OTHER_FILES and _CHECKPOINT not in entry.name:
                logger.warning("ignoring unknown file=%s", entry.path)
        elif suffix == ".log":
            sizes[int(stem)] = entry.stat().st_size
        elif suffix == producer_loading.SNAPSHOT:
            snapshots.append(int(stem))
        elif suffix in _INDEXES:
            others.append((stem, entry.path))
    orphans = [path for stem, path in others if int(stem) not in sizes]
    for path in orphans:
        logger.warning("removing index without a segment file=%s", path)
    remove_files(orphans)
    files = log.volume.files
    segments = [Segment(log.directory, base, files, sizes[base]) for base in sorted(sizes)]
    log.replace_segments(0, len(log.segments), segments or [_first_segment(log)])
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


def _read_mirror_end(log: "PartitionLog") -> int:
    path = f"{log.directory}/{MIRROR_END}"
    try:
        with open(path, "rb") as file:
            return decode_mirror_end(file.read())
    except FileNotFoundError:
        return -1
    except CheckpointError as error:
        logger.warning("ignoring damaged file=%s reason=%s", path, error)
        return -1


def _recover(log: "PartitionLog", epochs: LeaderEpochs, replay: Replay) -> tuple[int, int]:
    """Check the batches above the recovery point and cut the log at the first damaged one.

    Return the log end offset and the number of bytes cut off.
    """
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
                "truncated log=%s offset=%d lost_bytes=%d reason=no whole batch at this offset",
                segment.path,
                next_offset,
                lost,
            )
            remove_now(log.directory, log.replace_segments(number + 1, len(following), []))
            break
        if following:
            segment.finish()
    return next_offset, lost


def _is_torn(log: "PartitionLog", next_offset: int, following: Segment) -> bool:
    """True when a segment lost its last batches although the next segment exists.

    Compaction leaves gaps between segments too, but only below the recovery point. Without the
    checkpoint file of the recovery points the two cases look alike, so the result is False.
    """
    base = following.base_offset
    return (
        next_offset < base
        and base > max(log.recovery_point, log.first_dirty_offset)
        and bool(log.volume.recovery_points)
    )
