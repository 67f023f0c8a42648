"""Reads the segments of one log."""

import os
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from barnabas.log.compaction.records import checked_batches
from barnabas.log.files import FileCache
from barnabas.log.segment import Segment
from barnabas.protocol.records.batch import CorruptBatch

_SEGMENT: Final = re.compile(r"[0-9]{20}\.log")
_READ_BYTES: Final = 1 << 18


class Checked(NamedTuple):
    """A segment that was read: its size in bytes, and what is wrong with it, if anything is."""

    path: str
    size: int
    fault: str | None


def check_log(
    directory: str, throttle: Callable[[int], object], *, with_active: bool
) -> Iterator[Checked]:
    """Read a log's segments, the one that is written to only `with_active`.

    `throttle` is told how many bytes were read. A node may be at work on the log: segments that
    went away are left out, and a fault counts if it is there at a second look. OSError when the
    directory cannot be listed.
    """
    names = sorted(name for name in os.listdir(directory) if _SEGMENT.fullmatch(name))
    for name in names if with_active else names[:-1]:
        checked = _check(directory, name, throttle)
        if checked is not None and checked.fault is not None:
            checked = _check(directory, name, throttle)
        if checked is not None:
            yield checked


def _check(directory: str, name: str, throttle: Callable[[int], object]) -> Checked | None:
    path = f"{directory}/{name}"
    fault, size = None, 0
    try:
        size = os.stat(path).st_size
        base = offset = int(name.partition(".")[0])
        segment = Segment(directory, base, FileCache(1, create=False), size)
        for _, header in checked_batches(segment, _READ_BYTES):
            throttle(header.size)
            if header.base_offset < offset or header.last_offset < header.base_offset:
                raise CorruptBatch(f"offset {header.base_offset} follows {offset}")
            offset = header.next_offset
    except FileNotFoundError:
        return None
    except (CorruptBatch, OSError) as error:
        fault = str(error)
    return Checked(path, size, fault)
