"""Rules for broker properties that their rows cannot state: they concern several properties.

`KafkaConfig.validateValues` has the same ones; a start and a change by clients are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.config.schema import ConfigError
from barnabas.config.topic_config import deciding_property

if TYPE_CHECKING:
    from barnabas.config.node_config import NodeConfig

_CLEANER_BYTES_MIN = 1 << 20


def check_values(config: NodeConfig) -> None:
    """Raises ConfigError when a value deletes every record, or lets no client connect."""
    name, retention = _effective(config, "retention.ms")
    _refuse_if(retention == 0, name, retention, "be -1 (unlimited) or at least 1")
    name, roll = _effective(config, "segment.ms")
    _refuse_if(roll < 1, name, roll, "be at least 1")
    name, jitter = _effective(config, "segment.jitter.ms")
    _refuse_if(jitter < 0, name, jitter, "be at least 0")
    name, threads = "log.cleaner.dedupe.buffer.size", "log.cleaner.threads"
    most, cleaners = config.get_int(name), config.get_int(threads)
    too_small = cleaners > 0 and most // cleaners <= _CLEANER_BYTES_MIN
    _refuse_if(too_small, name, most, f"be above {_CLEANER_BYTES_MIN} for each of {threads}")
    limit, exceptions = "max.connections.per.ip", "max.connections.per.ip.overrides"
    no_client = config.get(limit) == 0 and not config.get(exceptions)
    _refuse_if(no_client, limit, 0, f"be at least 1, or {exceptions} must name the other addresses")


def _refuse_if(wrong: bool, name: str, value: int, must: str) -> None:
    if wrong:
        raise ConfigError(
            f"Invalid value {value} for configuration {name}: it must {must}", name=name
        )


def _effective(config: NodeConfig, topic_property: str) -> tuple[str, int]:
    """Return the broker property that decides a topic property, and its value."""
    found = deciding_property(config, topic_property)
    if found is None:
        raise LookupError(topic_property)
    return found[:2]
