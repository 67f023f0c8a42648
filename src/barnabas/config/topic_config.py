"""A topic's effective configuration, and the validation of its overrides.

A topic property is the topic's own override, else what the broker's synonyms say
(`log.retention.minutes` for `retention.ms`), else its default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.config.mirror_topics import PROMOTED, SOURCE, Promotion
from barnabas.config.properties import TOPIC_PROPERTIES
from barnabas.config.schema import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.config.node_config import NodeConfig


def deciding_property(node: NodeConfig, name: str) -> tuple[str, Any, int] | None:
    """Return the broker property that decides a topic property, its value, and a factor.

    The factor makes the value one of the topic property: hours are 3,600,000 ms. The first property
    that has a value decides; None when none has.
    """
    for synonym, factor in TOPIC_PROPERTIES[name].synonyms:
        value = node.get(synonym)
        if value is not None:
            return synonym, value, factor
    return None


def broker_values(node: NodeConfig) -> dict[str, Any]:
    """Return the value of each topic property for a topic without overrides."""
    values: dict[str, Any] = {}
    for name, row in TOPIC_PROPERTIES.items():
        values[name] = row.default
        if (found := deciding_property(node, name)) is not None:
            _, value, factor = found
            values[name] = value * factor if factor != 1 else value
    if values["retention.ms"] < 0:
        values["retention.ms"] = -1  # any negative time means without limit
    return values


class TopicConfig:
    """The effective values of a topic. Times are in ms, sizes in bytes.

    `overrides` are the texts of the topic's own Config records; unknown names among them (of a
    later version's metadata, say) are kept and ignored.
    """

    __slots__ = (
        "_values",
        "compression_type",
        "decompression_max_bytes",
        "file_delete_delay_ms",
        "flush_messages",
        "flush_ms",
        "index_interval_bytes",
        "is_compacted",
        "is_deleted",
        "max_message_bytes",
        "message_timestamp_after_max_ms",
        "message_timestamp_before_max_ms",
        "message_timestamp_type",
        "min_insync_replicas",
        "mirror_promotion",
        "mirror_source",
        "overrides",
        "retention_bytes",
        "retention_ms",
        "segment_bytes",
        "segment_index_bytes",
        "segment_jitter_ms",
        "segment_ms",
        "validate_records",
    )

    def __init__(self, node: NodeConfig, overrides: Mapping[str, str] | None = None) -> None:
        self.overrides = dict(overrides or {})
        values = dict(node.topic_defaults)
        for name, text in self.overrides.items():
            row = TOPIC_PROPERTIES.get(name)
            if row is not None:
                values[name] = row.parse(text)
        self._values = values
        self.is_compacted = "compact" in values["cleanup.policy"]
        self.is_deleted = "delete" in values["cleanup.policy"]
        self.compression_type: str = values["compression.type"]
        self.file_delete_delay_ms: int = values["file.delete.delay.ms"]
        self.flush_messages: int = values["flush.messages"]
        self.flush_ms: int = values["flush.ms"]
        self.index_interval_bytes: int = values["index.interval.bytes"]
        self.max_message_bytes: int = values["max.message.bytes"]
        self.message_timestamp_after_max_ms: int = values["message.timestamp.after.max.ms"]
        self.message_timestamp_before_max_ms: int = values["message.timestamp.before.max.ms"]
        self.message_timestamp_type: str = values["message.timestamp.type"]
        self.min_insync_replicas: int = values["min.insync.replicas"]
        self.mirror_source: str = values[SOURCE]
        promoted: str = values[PROMOTED]
        self.mirror_promotion = Promotion.parse(promoted) if promoted else None
        self.retention_bytes: int = values["retention.bytes"]
        self.retention_ms: int = values["retention.ms"]
        # The internal property lets tests have segments below the minimum of segment.bytes.
        self.segment_bytes: int = values["internal.segment.bytes"] or values["segment.bytes"]
        self.segment_index_bytes: int = values["segment.index.bytes"]
        self.segment_jitter_ms: int = values["segment.jitter.ms"]
        self.segment_ms: int = values["segment.ms"]
        # Broker properties that decide what a log does with a batch.
        self.validate_records: bool = node.get("barnabas.validate.records")
        self.decompression_max_bytes: int = node.get("barnabas.decompression.max.bytes")

    def get(self, name: str) -> Any:
        """Return the effective value of a property, parsed. Raises KeyError for an unknown one."""
        return self._values[name]

    __getitem__ = get


def validate_topic_overrides(overrides: Mapping[str, str | None], node: NodeConfig) -> None:
    """Validate the overrides that a topic would have, as CreateTopics and AlterConfigs do.

    Raises `ConfigError` whose message is that of INVALID_CONFIG (`LogConfig.validate`).
    """
    missing = sorted(name for name, text in overrides.items() if text is None)
    if missing:
        raise ConfigError(f"Null value not supported for topic configs: {', '.join(missing)}")
    values: dict[str, Any] = dict(node.topic_defaults)
    for name, text in overrides.items():
        row = TOPIC_PROPERTIES.get(name)
        if row is None:
            raise ConfigError(f"Unknown topic config name: {name}", name=name)
        values[name] = row.parse(text or "")
    if values["min.compaction.lag.ms"] > values["max.compaction.lag.ms"]:
        raise ConfigError(
            "conflict topic config setting min.compaction.lag.ms "
            f"({values['min.compaction.lag.ms']}) > max.compaction.lag.ms "
            f"({values['max.compaction.lag.ms']})",
            name="min.compaction.lag.ms",
        )
    _check_tiering(values, node)


def _check_tiering(values: Mapping[str, Any], node: NodeConfig) -> None:
    if not values["remote.storage.enable"]:
        return
    if not node.get("remote.log.storage.system.enable"):
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured "
            "with remote log storage.",
            name="remote.storage.enable",
        )
    if values["cleanup.policy"] != ("delete",):
        raise ConfigError(
            "Remote log storage only supports topics with cleanup.policy=delete",
            name="cleanup.policy",
        )
    check_local_retention(values)


def check_local_retention(values: Mapping[str, Any], prefix: str = "") -> None:
    """Raise ConfigError when the local retention exceeds the whole one.

    `prefix` goes before the names of the topic properties.
    """
    for whole, local in (
        ("retention.ms", "local.retention.ms"),
        ("retention.bytes", "local.retention.bytes"),
    ):
        if values[local] == -2 or values[whole] == -1:
            continue
        if values[local] == -1 or values[local] > values[whole]:
            raise ConfigError(
                f"Value {values[local]} for configuration {prefix}{local} must not be more than "
                f"{prefix}{whole} = {values[whole]}",
                name=f"{prefix}{local}",
            )
