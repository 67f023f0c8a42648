"""The layout of a record batch of magic 2: positions, sizes and attribute bits.

Source: KIP-98 and `org.apache.kafka.common.record.DefaultRecordBatch`. All integers are big-endian.
"""

import struct
from typing import Final

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""All header fields, in the order of `BatchHeader`."""

HEADER_START: Final = struct.Struct(">qiibI")
"""The header fields that the crc does not cover: base offset to crc."""

HEADER_CHECKED: Final = struct.Struct(">hiqqqhii")
"""The header fields that the crc covers: attributes to record count."""

HEADER_SIZE: Final = HEADER.size
LOG_OVERHEAD: Final = 12
"""Bytes of a batch that its length field does not count: base offset and length."""

LENGTH_MIN: Final = HEADER_SIZE - LOG_OVERHEAD
"""The smallest valid value of the length field: a batch without records."""

MAGIC: Final = 2

LENGTH: Final = struct.Struct(">i")
LENGTH_AT: Final = 8
LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC: Final = struct.Struct(">I")
CRC_AT: Final = 17
CHECKED_AT: Final = 21
"""Where the bytes that the crc covers begin; the attributes are the first of them."""
ATTRIBUTES_LOW_AT: Final = 22
"""The byte of the attributes that has the codec and all flags."""
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_AT: Final = 43
RECORD_COUNT_AT: Final = 57

PRODUCER: Final = struct.Struct(">qhi")
"""Producer id, producer epoch and base sequence, at `PRODUCER_AT`."""

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

CODEC_ID_MAX: Final = 4

RECORD_SIZE_MIN: Final = 7
"""The smallest record: length, attributes, two deltas, two sizes and the header count."""

NO_TIMESTAMP: Final = -1

LEGACY_MAGICS: Final = (0, 1)
LEGACY_HEADER: Final = struct.Struct(">qiIb")
"""Offset, length, crc and magic of a message of magic 0 or 1 (`LegacyRecord`)."""
LEGACY_CHECKED_AT: Final = 16
LEGACY_LENGTH_MIN: Final = 14
"""`LegacyRecord.RECORD_OVERHEAD_V0`."""
