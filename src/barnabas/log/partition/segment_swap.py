"""Replace segments by their cleaned version, in steps that a kill at any moment cannot corrupt.

The order is Kafka's (`LocalLog.replaceSegments`): `.cleaned` files, once complete, are renamed to
`.swap`; the old files are renamed to `.deleted`; then `.swap` files get their final names. At a
start, `complete` removes `.cleaned` files and finishes the steps for `.swap` files.
"""

import logging
import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.log.file_cache import FileCache
from barnabas.log.file_operations import remove_files, sync_path
from barnabas.log.partition.segment_removal import DELETED
from barnabas.log.segment.log_segment import SUFFIXES, Segment, file_name

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog

logger = logging.getLogger(__name__)

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
_SNAPSHOT: Final = ".snapshot"
# The log is last: once its `.swap` exists, all other `.swap` files of the segment exist.
_ORDER: Final = (*(suffix for suffix in SUFFIXES if suffix != ".log"), ".log")


def discard(directory: str, base_offset: int) -> None:
    """Remove the files of a cleaned segment that is not used. Raises OSError."""
    remove_files(f"{directory}/{file_name(base_offset, suffix)}{CLEANED}" for suffix in SUFFIXES)


def discard_all(directory: str) -> None:
    """Remove all files of a failed pass; they may be what fills the disk. Raises OSError."""
    names = os.listdir(directory)
    remove_files(f"{directory}/{name}" for name in names if name.endswith(CLEANED))


def cleaned_size(directory: str, base_offset: int) -> int:
    """Return the size of a cleaned segment; -1 if it does not exist. Raises OSError."""
    try:
        return os.stat(f"{directory}/{file_name(base_offset, '.log')}{CLEANED}").st_size
    except FileNotFoundError:
        return -1


def swap(log: "PartitionLog", group: Sequence[tuple[int, int]], size: int) -> bool:
    """See `PartitionLog.swap_cleaned`. Raises OSError."""
    base = group[0][0]
    first = log.segment_number(base)
    old = log.segments[first : first + len(group)]
    if (
        [(segment.base_offset, segment.size) for segment in old] != list(group)
        or old[-1] is log.active
        or cleaned_size(log.directory, base) != size  # the log moved to another directory
    ):
        discard(log.directory, base)
        return False
    log.replace_segments(first, len(group), [_swap_files(log, old, size)])
    return True


def _swap_files(log: "PartitionLog", old: Sequence[Segment], size: int) -> Segment:
    """Rename the files and return the segment that replaces `old`. Raises OSError."""
    directory, base = log.directory, old[0].base_offset
    for suffix in _ORDER:
        _rename(f"{directory}/{file_name(base, suffix)}", CLEANED, SWAP)
    sync_path(directory)
    removed: list[str] = []
    for segment in old:
        segment.close()
        suffixes = SUFFIXES if segment is old[0] else (*SUFFIXES, _SNAPSHOT)
        for suffix in suffixes:
            path = f"{directory}/{file_name(segment.base_offset, suffix)}"
            if _rename(path, "", DELETED):
                removed.append(path + DELETED)
    for suffix in _ORDER:
        _rename(f"{directory}/{file_name(base, suffix)}", SWAP, "")
    log.volume.deletions.add(log.config.file_delete_delay_ms, partial(remove_files, removed))
    return Segment(directory, base, log.volume.files, size)


def _rename(path: str, old_suffix: str, new_suffix: str) -> bool:
    try:
        os.rename(path + old_suffix, path + new_suffix)
    except FileNotFoundError:
        return False
    return True


def complete(directory: str) -> None:
    """Finish or undo a swap that a kill interrupted. Raises OSError.

    As `LogLoader.removeTempFilesAndCollectSwapFiles`: when a segment still has `.cleaned` files,
    its `.swap` files are incomplete.
    """
    names = os.listdir(directory)
    cleaned = {name.partition(".")[0] for name in names if name.endswith(CLEANED)}
    remove_files(f"{directory}/{name}" for name in names if name.endswith(CLEANED))
    swaps = [name for name in names if name.endswith(SWAP)]
    remove_files(f"{directory}/{name}" for name in swaps if name.partition(".")[0] in cleaned)
    swaps = [name for name in swaps if name.partition(".")[0] not in cleaned]
    for name in swaps:
        if name.endswith(f".log{SWAP}"):
            _remove_replaced(directory, name.removesuffix(SWAP), names)
    for name in sorted(swaps, key=lambda each: each.endswith(f".log{SWAP}")):
        logger.warning("completing interrupted compaction file=%s/%s", directory, name)
        os.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")


def _remove_replaced(directory: str, name: str, names: Sequence[str]) -> None:
    """Remove the old segments whose offsets the swapped segment covers."""
    base = int(name.partition(".")[0])
    swapped = _Swapped(directory, base, FileCache(4), os.stat(f"{directory}/{name}{SWAP}").st_size)
    end = base + 1
    for _, header in swapped.headers():
        end = header.next_offset
    swapped.close()
    for other in names:
        stem, _, suffix = other.partition(".")
        if stem.isdecimal() and f".{suffix}" in (*SUFFIXES, _SNAPSHOT):
            old = int(stem)
            if base <= old < end and not (old == base and f".{suffix}" == _SNAPSHOT):
                remove_files([f"{directory}/{other}"])


class _Swapped(Segment):
    """A segment with its temporary `.swap` name."""

    @property
    def path(self) -> str:
        """The `.log.swap` file."""
        return f"{self.directory}/{file_name(self.base_offset, '.log')}{SWAP}"
