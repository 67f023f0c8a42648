"""Which segments a log may forget, and how their files go (Kafka's `deleteOldSegments`)."""

import logging
import os
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.log.files import remove_files
from barnabas.log.index import TimeIndex
from barnabas.log.segment import SUFFIXES, Segment, file_name

if TYPE_CHECKING:
    from barnabas.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

DELETED: Final = ".deleted"
_ALL_SUFFIXES: Final = (*SUFFIXES, ".snapshot")


def expired(log: "PartitionLog", now_ms: int) -> int:
    """How many of the first segments are to go.

    Below the log's start always; by age and by size under the delete policy, and only what is
    committed. OSError.
    """
    segments = log.segments
    count = _below_start(segments, log.log_start_offset)
    if log.config.is_deleted:
        count = max(count, _too_old(log, now_ms), _too_much(log))
    return count


def is_due(log: "PartitionLog", now_ms: int) -> bool:
    """Whether a log that is not loaded may have segments to go; OSError.

    Told from names, sizes and the end of one time index, so that the first round after a start
    opens no log in vain. After a clean stop that index ends with the segment's largest timestamp.
    """
    sizes: dict[str, int] = {}
    with os.scandir(log.directory) as entries:
        for entry in entries:
            stem, suffix = os.path.splitext(entry.name)
            if suffix == ".log":
                sizes[stem] = entry.stat().st_size
    stems = sorted(sizes)
    if len(stems) > 1 and int(stems[1]) <= log.log_start_offset:
        return True
    if not log.config.is_deleted or not any(sizes.values()):
        return False
    keep = log.config.retention_bytes
    if keep >= 0 and sum(sizes.values()) - sizes[stems[0]] >= keep:
        return True
    if log.config.retention_ms < 0:
        return False
    last = TimeIndex(f"{log.directory}/{stems[0]}.timeindex", log.volume.files).peek_last()
    return last is None or now_ms - last > log.config.retention_ms


def _below_start(segments: Sequence[Segment], log_start_offset: int) -> int:
    count = 0
    while count + 1 < len(segments) and segments[count + 1].base_offset <= log_start_offset:
        count += 1
    return count


def _committed(log: "PartitionLog", number: int) -> bool:
    """Whether all of the segment is below the high watermark, and it is not the empty last one."""
    segments = log.segments
    if number + 1 < len(segments):
        return segments[number + 1].base_offset <= log.high_watermark
    return segments[number].size > 0 and log.log_end_offset <= log.high_watermark


def _too_old(log: "PartitionLog", now_ms: int) -> int:
    if log.config.retention_ms < 0:
        return 0
    count = 0
    for number, segment in enumerate(log.segments):
        timestamp = segment.max_timestamp
        if timestamp < 0:
            timestamp = int(os.stat(segment.path).st_mtime * 1000)
        if now_ms - timestamp <= log.config.retention_ms or not _committed(log, number):
            break
        count += 1
    return count


def _too_much(log: "PartitionLog") -> int:
    if log.config.retention_bytes < 0:
        return 0
    excess = sum(segment.size for segment in log.segments) - log.config.retention_bytes
    count = 0
    for number, segment in enumerate(log.segments):
        excess -= segment.size
        if excess < 0 or not _committed(log, number):
            break
        count += 1
    return count


def remove_later(log: "PartitionLog", segments: Iterable[Segment]) -> None:
    """Rename the files at once, and remove them after file.delete.delay.ms; OSError."""
    for segment in segments:
        segment.close()
        paths = [
            f"{log.directory}/{file_name(segment.base_offset, suffix)}" for suffix in _ALL_SUFFIXES
        ]
        renamed: list[str] = []
        for path in paths:
            try:
                os.rename(path, path + DELETED)
            except FileNotFoundError:
                continue
            renamed.append(path + DELETED)
        log.volume.deletions.add(log.config.file_delete_delay_ms, partial(remove_files, renamed))


def remove_now(directory: str, segments: Iterable[Segment]) -> None:
    """Remove the segments' files; OSError."""
    for segment in segments:
        segment.close()
        remove_files(
            f"{directory}/{file_name(segment.base_offset, suffix)}" for suffix in _ALL_SUFFIXES
        )
