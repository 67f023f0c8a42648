"""Remove the files of segments: at once, or by a rename now and a deletion after a delay."""

import os
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.log.file_operations import remove_files
from barnabas.log.segment.log_segment import SUFFIXES, Segment, file_name

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog

DELETED: Final = ".deleted"
_ALL_SUFFIXES: Final = (*SUFFIXES, ".snapshot")


def remove_later(log: "PartitionLog", segments: Iterable[Segment]) -> None:
    """Rename the files now and delete them after file.delete.delay.ms. Raises OSError."""
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


def remove_now(directory: str, segments: Sequence[Segment]) -> None:
    """Delete the segments' files, the last segment first. Raises OSError.

    A kill in between leaves no gap between segments.
    """
    for segment in reversed(segments):
        segment.close()
        remove_files(
            f"{directory}/{file_name(segment.base_offset, suffix)}" for suffix in _ALL_SUFFIXES
        )
