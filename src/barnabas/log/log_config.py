"""The part of a topic's configuration that its logs use."""

from typing import Final, Self

import attrs

from barnabas.config import TopicConfig
from barnabas.protocol.batches.compression import DEFAULT_MAX_BYTES, Codec

LONG_MAX: Final = (1 << 63) - 1

_CODECS: Final = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


@attrs.frozen(slots=True, kw_only=True)
class LogConfig:
    """Kafka's topic properties by name; times in ms, sizes in bytes, -1 for no limit.

    `codec` is the codec of stored batches, None for the producer's. `unpacked_max` is the size that
    a batch may unpack to when its records are examined. With `validate_records`, the records of
    every batch are examined.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1_048_588
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    flush_ms: int = LONG_MAX
    min_cleanable_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    delete_retention_ms: int = 86_400_000
    preallocate: bool = False
    is_compacted: bool = False
    is_deleted: bool = True
    log_append_time: bool = False
    timestamp_before_max_ms: int = LONG_MAX
    timestamp_after_max_ms: int = 3_600_000
    codec: Codec | None = None
    codec_level: int | None = None
    validate_records: bool = False
    unpacked_max: int = DEFAULT_MAX_BYTES

    @classmethod
    def from_topic(cls, topic: TopicConfig) -> Self:
        """Return the log's part of a topic's effective configuration."""
        codec = _CODECS[topic.compression_type]
        level: int | None = None
        if codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD):
            level = topic.get(f"compression.{topic.compression_type}.level")
            if codec is Codec.GZIP and level == -1:
                level = None  # the library's default
        return cls(
            segment_bytes=topic.segment_bytes,
            segment_ms=topic.segment_ms,
            segment_jitter_ms=topic.segment_jitter_ms,
            segment_index_bytes=topic.segment_index_bytes,
            index_interval_bytes=topic.index_interval_bytes,
            max_message_bytes=topic.max_message_bytes,
            retention_ms=topic.retention_ms,
            retention_bytes=topic.retention_bytes,
            file_delete_delay_ms=topic.file_delete_delay_ms,
            flush_ms=topic.flush_ms,
            min_cleanable_ratio=topic.get("min.cleanable.dirty.ratio"),
            min_compaction_lag_ms=topic.get("min.compaction.lag.ms"),
            max_compaction_lag_ms=topic.get("max.compaction.lag.ms"),
            delete_retention_ms=topic.get("delete.retention.ms"),
            preallocate=topic.get("preallocate"),
            is_compacted=topic.is_compacted,
            is_deleted=topic.is_deleted,
            log_append_time=topic.message_timestamp_type == "LogAppendTime",
            timestamp_before_max_ms=topic.message_timestamp_before_max_ms,
            timestamp_after_max_ms=topic.message_timestamp_after_max_ms,
            codec=codec,
            codec_level=level,
            validate_records=topic.validate_records,
            unpacked_max=topic.decompression_max_bytes,
        )
