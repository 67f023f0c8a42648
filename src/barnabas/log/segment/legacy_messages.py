"""Recognise messages of formats 0 and 1, which Kafka wrote before 0.11.

Apache Kafka still serves them from directories that were upgraded from these versions. Barnabas
does not read them. They are not damage either, so a log with them must be neither cut nor skipped.
"""

import os
import zlib

from barnabas.protocol.batches.batch_header import CorruptBatch
from barnabas.protocol.batches.batch_layout import (
    LEGACY_CHECKED_AT,
    LEGACY_HEADER,
    LEGACY_LENGTH_MIN,
    LEGACY_MAGICS,
    LOG_OVERHEAD,
)


def refuse_legacy(fd: int, position: int, end: int) -> None:
    """Raise CorruptBatch if `position` has a complete message of format 0 or 1. Raises OSError.

    A valid crc distinguishes it from a damaged batch.
    """
    header = os.pread(fd, LEGACY_HEADER.size, position)
    if len(header) < LEGACY_HEADER.size:
        return
    _, length, crc, magic = LEGACY_HEADER.unpack(header)
    size = length + LOG_OVERHEAD
    if magic not in LEGACY_MAGICS or length < LEGACY_LENGTH_MIN or size > end - position:
        return
    if zlib.crc32(os.pread(fd, size - LEGACY_CHECKED_AT, position + LEGACY_CHECKED_AT)) == crc:
        raise CorruptBatch(
            f"a message of format {magic} at position {position}: barnabas does not read this "
            "format, copy the topic with Apache Kafka first"
        )
