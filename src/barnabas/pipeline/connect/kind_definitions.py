"""The properties of all sinks, of all sources, and of barnabas's engine.

Names, types, defaults, order and groups of the first two are those of Apache Kafka 4.3. Java's
Connect ignores the third.
"""

from typing import Any, Final

from barnabas.pipeline.definitions.config_def import ConfigKey, Importance, Validator, Width
from barnabas.pipeline.definitions.config_types import ConfigType, ParsedValue
from barnabas.pipeline.definitions.config_validators import (
    InRange,
    OneOf,
    distinct_aliases,
    distinct_items,
    non_empty,
    regex,
)

BARNABAS: Final = "Barnabas"
"""The group of the engine's properties."""

DEAD_LETTER_PREFIX: Final = "errors.deadletterqueue."

_COMMON: Final = "Common"
_ERRORS: Final = "Error Handling"
_TOPIC_CREATION: Final = "Topic Creation"
_EXACTLY_ONCE: Final = "Exactly Once Support"
_OFFSETS_TOPIC: Final = "offsets.topic"

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_LEVELS: Final = ("REQUESTED", "REQUIRED")
_BOUNDARIES: Final = ("POLL", "INTERVAL", "CONNECTOR")

_Row = tuple[str, ConfigType, Any, Importance, str, str, int, Width, str, Validator | None]
_EngineRow = tuple[str, ConfigType, Any, Importance, str, int, str, Validator]


def _interval(name: str, value: ParsedValue) -> None:
    if value is not None:
        InRange(0)(name, value)


_SINK_ROWS: Final[tuple[_Row, ...]] = (
    (
        "topics",
        ConfigType.LIST,
        [],
        _HIGH,
        "Topics",
        _COMMON,
        4,
        Width.LONG,
        "The topics to read, separated by commas.",
        distinct_items,
    ),
    (
        "topics.regex",
        ConfigType.STRING,
        "",
        _HIGH,
        "Topics regex",
        _COMMON,
        4,
        Width.LONG,
        "A regular expression that whole names of topics match. Set this or topics.",
        regex,
    ),
    (
        f"{DEAD_LETTER_PREFIX}topic.name",
        ConfigType.STRING,
        "",
        _MEDIUM,
        "Dead Letter Queue Topic Name",
        _ERRORS,
        6,
        Width.MEDIUM,
        "The topic for records that cannot be processed; none when it is empty.",
        None,
    ),
    (
        f"{DEAD_LETTER_PREFIX}topic.replication.factor",
        ConfigType.SHORT,
        3,
        _MEDIUM,
        "Dead Letter Queue Topic Replication Factor",
        _ERRORS,
        7,
        Width.MEDIUM,
        "The replication factor of that topic when it is created.",
        None,
    ),
    (
        f"{DEAD_LETTER_PREFIX}context.headers.enable",
        ConfigType.BOOLEAN,
        False,
        _MEDIUM,
        "Enable Error Context Headers",
        _ERRORS,
        8,
        Width.MEDIUM,
        "True adds headers with the cause and the place of the failure: __connect.errors.*",
        None,
    ),
)


def sink_keys() -> list[ConfigKey]:
    """Return the properties of all sinks, beyond those of all connectors."""
    return [_row(*row) for row in _SINK_ROWS]


def _row(
    name: str,
    kind: ConfigType,
    default: Any,
    importance: Importance,
    display_name: str,
    group: str,
    order: int,
    width: Width,
    documentation: str,
    validator: Validator | None,
) -> ConfigKey:
    return ConfigKey(
        name,
        kind,
        default,
        importance,
        documentation,
        validator=validator,
        group=group,
        order_in_group=order,
        width=width,
        display_name=display_name,
    )


_SOURCE_ROWS: Final[tuple[_Row, ...]] = (
    (
        "topic.creation.groups",
        ConfigType.LIST,
        [],
        _LOW,
        "Topic Creation Groups",
        _TOPIC_CREATION,
        1,
        Width.LONG,
        "The names of groups of topics that the connector creates with other settings.",
        distinct_aliases,
    ),
    (
        "exactly.once.support",
        ConfigType.STRING,
        "requested",
        _MEDIUM,
        "Exactly once support",
        _EXACTLY_ONCE,
        2,
        Width.SHORT,
        "requested, or required: refuse the connector unless it delivers exactly once.",
        OneOf(_LEVELS, ignores_case=True),
    ),
    (
        "transaction.boundary",
        ConfigType.STRING,
        "poll",
        _MEDIUM,
        "Transaction Boundary",
        _EXACTLY_ONCE,
        3,
        Width.SHORT,
        "Where a transaction ends. This runner ends one after each slice, for any value.",
        OneOf(_BOUNDARIES, ignores_case=True),
    ),
    (
        "transaction.boundary.interval.ms",
        ConfigType.LONG,
        None,
        _LOW,
        "Transaction boundary interval",
        _EXACTLY_ONCE,
        4,
        Width.SHORT,
        "The length of a slice in ms.",
        _interval,
    ),
    (
        "offsets.storage.topic",
        ConfigType.STRING,
        None,
        _LOW,
        "Offsets topic",
        _OFFSETS_TOPIC,
        1,
        Width.LONG,
        "The topic for this connector's offsets; the runner's when it is not set.",
        non_empty,
    ),
)


def source_keys() -> list[ConfigKey]:
    """Return the properties of all sources, beyond those of all connectors."""
    return [_row(*row) for row in _SOURCE_ROWS]


_ISOLATIONS: Final = ("shared", "own")

_ENGINE_ROWS: Final[tuple[_EngineRow, ...]] = (
    (
        "delivery",
        ConfigType.STRING,
        "exactly-once",
        _MEDIUM,
        "Delivery",
        1,
        "exactly-once, or at-least-once: faster, and records may repeat after a failure.",
        OneOf(("exactly-once", "at-least-once")),
    ),
    (
        "on.trim",
        ConfigType.STRING,
        "fail",
        _LOW,
        "On trim",
        2,
        "fail or skip: the outcome when retention deleted records before they were read.",
        OneOf(("fail", "skip")),
    ),
    (
        "trigger.ms",
        ConfigType.INT,
        100,
        _LOW,
        "Trigger",
        3,
        "The shortest time in ms from the start of a batch to the start of the next.",
        InRange(0),
    ),
    (
        "batch.records.max",
        ConfigType.INT,
        500_000,
        _LOW,
        "Batch records max",
        4,
        "The largest number of records of one batch, over all partitions.",
        InRange(1),
    ),
    (
        "slice.ms",
        ConfigType.INT,
        2_000,
        _LOW,
        "Slice",
        5,
        "The longest time in ms for which a source is read before its records are committed.",
        InRange(1),
    ),
    (
        "records.per.second.max",
        ConfigType.INT,
        0,
        _LOW,
        "Records per second max",
        6,
        "The largest rate of the job in records a second; 0 for none.",
        InRange(0),
    ),
    (
        "isolation",
        ConfigType.STRING,
        "shared",
        _LOW,
        "Isolation",
        7,
        "shared, or own: a Spark application for this job, with properties application.spark.*",
        OneOf(_ISOLATIONS),
    ),
)


def engine_keys() -> list[ConfigKey]:
    """Return the properties of barnabas's engine."""
    return [
        _row(name, kind, default, importance, title, BARNABAS, order, Width.SHORT, text, validator)
        for name, kind, default, importance, title, order, text, validator in _ENGINE_ROWS
    ]
