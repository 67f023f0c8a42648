"""Messages of the formats 0 and 1, as Kafka wrote them before 0.11, are known, but not read.

Apache Kafka still serves them from a directory that has been upgraded ever since. Here they are no
batches, but no damage either: what holds them must neither be cut nor be passed over in silence.
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


def refuse(fd: int, position: int, end: int) -> None:
    """Raise CorruptBatch if a whole message of an old format lies at `position`; OSError.

    Its crc tells it from a torn batch.
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
            f"a message of format {magic} at position {position}: only Apache Kafka reads those, "
            "let it copy the topic first"
        )
