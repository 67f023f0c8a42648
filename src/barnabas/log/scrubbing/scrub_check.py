"""Check the batches in the segments of one log."""

import os
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from barnabas.log.helper_framing import Answer, Fields
from barnabas.log.scrubbing.direct_read import DirectFile
from barnabas.log.throttle import Throttle
from barnabas.protocol.batches.batch_header import BatchHeader, CorruptBatch, read_header
from barnabas.protocol.batches.batch_layout import HEADER_SIZE, MAGIC
from barnabas.protocol.batches.compression import Buffer
from barnabas.protocol.batches.crc import crc32c

_SEGMENT: Final = re.compile(r"[0-9]{20}\.log")
_CHECKED_AT: Final = 21  # where a batch's bytes under the crc begin


class Checked(NamedTuple):
    """A checked segment: its path, its size in bytes, and its fault, if any."""

    path: str
    size: int
    fault: str | None


def check_log(
    directory: str, throttle: Callable[[int], object], *, with_active: bool
) -> Iterator[Checked]:
    """Check a log's segments; the active segment only if `with_active`.

    `throttle` receives the number of bytes read. A node may be using the log, so deleted segments
    are skipped, and a fault is reported only if a second check finds it too. Raises OSError when
    the directory cannot be listed.
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
        with DirectFile(path) as file:
            size = os.stat(path).st_size
            position, offset = 0, int(name.partition(".")[0])
            while position < size:
                header = _checked_batch(file, position, size)
                throttle(header.size)
                if header.base_offset < offset or header.last_offset < header.base_offset:
                    raise CorruptBatch(
                        f"offset {header.base_offset} is below the expected {offset}"
                    )
                offset = header.next_offset
                position += header.size
    except FileNotFoundError:
        return None
    except (CorruptBatch, OSError) as error:
        fault = str(error)
    return Checked(path, size, fault)


def _checked_batch(file: DirectFile, position: int, file_size: int) -> BatchHeader:
    """Return the header of the batch at `position` after a crc check.

    Raises CorruptBatch, OSError.
    """
    header = read_header(file.read(position, HEADER_SIZE))
    end = position + header.size
    if header.magic != MAGIC or end > file_size:
        raise CorruptBatch(f"no valid batch at position {position}")
    crc, at = 0, position + _CHECKED_AT
    while at < end:
        part = file.read(at, end - at)
        if not part:
            raise CorruptBatch(f"the file ends inside the batch at position {position}")
        crc = crc32c(part, crc)
        at += len(part)
    if crc != header.crc:
        raise CorruptBatch(f"wrong crc in the batch at position {position}")
    return header


def run_scrub_job(fields: Fields, _: Buffer) -> Iterator[Answer]:
    """Check a log in the helper process; yield one answer with the bytes read and the faults.

    Raises OrphanedError.
    """
    bytes_read, faults = 0, list[tuple[str, str]]()
    try:
        throttle = Throttle(fields["bytes_per_second"])
        for each in check_log(fields["directory"], throttle, with_active=False):
            bytes_read += each.size
            if each.fault is not None:
                faults.append((each.path, each.fault))
    except FileNotFoundError:  # the log was deleted or moved to another directory
        pass
    except OSError as error:
        faults.append((fields["directory"], str(error)))
    yield Answer({"bytes": bytes_read, "faults": faults})
