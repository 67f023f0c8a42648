"""Messages of the formats 0 and 1, as Kafka wrote them before 0.11, are known, but not read.

Apache Kafka still serves them from a directory that has been upgraded ever since. Here they are no
batches, but no damage either: what holds them must neither be cut nor be passed over in silence.
"""

import os
import zlib
from struct import Struct
from typing import Final

from barnabas.protocol.batches.batch import CorruptBatch

# Offset, length of what follows, crc (of all behind it), magic.
_HEADER: Final = Struct(">qiIb")
_LENGTH_AT: Final = 12
_CHECKED_AT: Final = 16
_FORMATS: Final = (0, 1)
_LENGTH_MIN: Final = 14  # `LegacyRecord.RECORD_OVERHEAD_V0`


def refuse(fd: int, position: int, end: int) -> None:
    """Raise CorruptBatch if a whole message of an old format lies at `position`; OSError.

    Its crc tells it from a torn batch.
    """
    header = os.pread(fd, _HEADER.size, position)
    if len(header) < _HEADER.size:
        return
    _, length, crc, magic = _HEADER.unpack(header)
    size = length + _LENGTH_AT
    if magic not in _FORMATS or length < _LENGTH_MIN or size > end - position:
        return
    if zlib.crc32(os.pread(fd, size - _CHECKED_AT, position + _CHECKED_AT)) == crc:
        raise CorruptBatch(
            f"a message of format {magic} at position {position}: only Apache Kafka reads those, "
            "let it copy the topic first"
        )
