"""Topics as DataFrames: Spark's Kafka source, decoded by serdes.

A record that does not decode ends the query, is skipped, or becomes a dead letter: its bytes, and
headers that name its place and the reason, as Kafka Connect writes them.
"""

import enum
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from barnabas.pipeline.delivery.driver.spark_library import DataFrame, SparkSession
from barnabas.pipeline.delivery.plan import kafka_properties, task_failures
from barnabas.pipeline.delivery.plan.job_plan import OnTrim
from barnabas.pipeline.streams.serdes import Column, Serde, Step, functions
from barnabas.pipeline.streams.stream_columns import (
    HEADERS,
    KEPT,
    KEY,
    LETTER,
    OFFSET,
    PARTITION,
    PLACE,
    TIMESTAMP,
    TOPIC,
    VALUE,
    computed_here,
    evaluated,
)

HEADERS_TYPE: Final = "array<struct<key: string, value: binary>>"
_HEADER_PREFIX: Final = "__connect.errors."
_PLACES: Final = ("topic", "partition", "offset")
_NUMBERS: Final = ("byte", "short", "integer", "long", "float", "double")
_MILLIS_MIN: Final = -62_135_596_800_000
_MILLIS_MAX: Final = 253_402_300_799_999


class OnError(enum.StrEnum):
    """The outcome of a record that does not decode."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


@attrs.frozen(eq=False)
class TopicInput:
    """A topic as an app reads it."""

    topic: str
    key: Serde
    value: Serde
    time: str | Column | None
    """The time of a record instead of its timestamp: a timestamp, or milliseconds since 1970."""
    on_error: OnError
    dead_letters: str
    """The topic of dead letters."""
    start: str
    """The first position without a committed one, as Spark's `startingOffsets`."""
    records_max: int
    """Records of one batch."""
    client: Mapping[str, str] = attrs.field(factory=dict[str, str], repr=False)
    """The properties of the clients that read it."""


def starting_offsets(topic: str, start: str | Mapping[int, int]) -> str:
    """Return Spark's `startingOffsets`. Raises ValueError for what is neither word nor offsets."""
    if isinstance(start, str):
        if start not in ("earliest", "latest"):
            raise ValueError(
                f"start is earliest, latest, or an offset for each partition, not '{start}'"
            )
        return start
    return json.dumps({topic: dict(start)})


def source_options(client: Mapping[str, str], topic: TopicInput, on_trim: OnTrim) -> dict[str, str]:
    """Return the options of Spark's source for a topic. Raises ConfigError."""
    properties = {
        **kafka_properties.SPARK_READER,
        **client,
        "isolation.level": "read_committed",
    }
    return {
        **kafka_properties.for_spark(properties),
        "subscribe": topic.topic,
        "startingOffsets": topic.start,
        "failOnDataLoss": "true" if on_trim is OnTrim.FAIL else "false",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": str(topic.records_max),
    }


def read(
    session: SparkSession, client: Mapping[str, str], topic: TopicInput, on_trim: OnTrim
) -> DataFrame:
    """Return the records of a topic, with the columns of `stream_columns`."""
    options = source_options(client, topic, on_trim)
    return decoded(session.readStream.format("kafka").options(**options).load(), topic)


def decoded(source: DataFrame, topic: TopicInput) -> DataFrame:
    """Return the rows of a Kafka source with key and value decoded."""
    col = functions().col
    raw = source.select(
        *[col(name).alias(f"_raw_{name}") for name in (KEY, VALUE)],
        *[col(name).alias(f"_{name}") for name in (*_PLACES, "timestamp", "headers")],
        *[col(name).alias(f"_parsed_{name}") for name in (KEY, VALUE)],
    )
    parsed = _parsed(raw, {KEY: topic.key.steps(), VALUE: topic.value.steps()})
    key_error = _error(topic.key, KEY)
    value_error = _error(topic.value, VALUE)
    frame = parsed.select(
        topic.key.value(col("_parsed_key")).alias(KEY),
        topic.value.value(col("_parsed_value")).alias(VALUE),
        *(TOPIC, PARTITION, OFFSET, TIMESTAMP, HEADERS),
        "_raw_key",
        "_raw_value",
        functions().coalesce(key_error, value_error).alias("_error"),
    )
    return _marked(_timed(frame, topic), topic)


def _parsed(frame: DataFrame, sides: Mapping[str, Sequence[Step]]) -> DataFrame:
    """Return the frame with the steps of both sides, a projection for each, to end in the same."""
    count = max(map(len, sides.values()))
    for number in range(-count, 0):
        due = [
            (f"_parsed_{side}", steps[number])
            for side, steps in sides.items()
            if -number <= len(steps)
        ]
        made = {name: step(functions().col(name)) for name, step in due}
        if number == -1:
            made = {name: computed_here(column) for name, column in made.items()}
        frame = frame.withColumns(made)
    return frame


def _error(serde: Serde, side: str) -> Column:
    """Return the text that says why the bytes of one side do not decode, null where they do."""
    data, parsed = functions().col(f"_raw_{side}"), functions().col(f"_parsed_{side}")
    error = serde.error(data, parsed)
    if error is None:
        return functions().lit(None).cast("string")
    return functions().concat(functions().lit(f"the {side} "), error)


def _timed(frame: DataFrame, topic: TopicInput) -> DataFrame:
    """Return the frame with the times that the user's expression has for records with a value."""
    if topic.time is None:
        return frame
    given = functions().expr(topic.time) if isinstance(topic.time, str) else topic.time
    kind = evaluated(frame, {"_time": given}).schema["_time"].dataType.typeName()
    time = time_of(given, kind)
    col, lit = functions().col, functions().lit
    has_value = col(VALUE).isNotNull() & col("_error").isNull()
    text = functions().coalesce(
        functions().concat(lit(f"the time ({topic.time}) is not a time: "), given.cast("string")),
        lit(f"the time ({topic.time}) is null"),
    )
    return evaluated(
        frame,
        {
            TIMESTAMP: functions().when(has_value, time).otherwise(col(TIMESTAMP)),
            "_error": functions().when(has_value & time.isNull(), text).otherwise(col("_error")),
        },
    )  # fmt: skip


def time_of(given: Column, type_name: str) -> Column:
    """Return the time of a column of a type: of milliseconds, or of what casts to a timestamp."""
    return _of_millis(given) if _is_number(type_name) else given.try_cast("timestamp")


def _is_number(type_name: str) -> bool:
    return type_name in _NUMBERS or type_name.startswith("decimal")


def _of_millis(number: Column) -> Column:
    """Return the time of a number of milliseconds; null beyond the years 1 to 9999."""
    millis = number.try_cast("bigint")
    is_time = millis.between(_MILLIS_MIN, _MILLIS_MAX)
    return functions().when(is_time, functions().timestamp_millis(millis))


def _marked(frame: DataFrame, topic: TopicInput) -> DataFrame:
    """Return the frame with the marks of rows, without the bytes of records that decoded."""
    col = functions().col
    error = col("_error")
    is_good = error.isNull()
    if topic.on_error is OnError.FAIL:
        kept = functions().when(is_good, True).otherwise(functions().raise_error(_failure(error)))
    else:
        kept = is_good
    marks = [kept.cast("boolean").alias(KEPT)]
    if topic.on_error is OnError.DEAD_LETTER:
        letter = functions().struct(
            functions().lit(topic.dead_letters).alias("topic"),
            error.alias("error"),
            col("_raw_key").alias("key"),
            col("_raw_value").alias("value"),
        )
        marks.append(functions().when(~is_good, letter).alias(LETTER))
    cleaned = [functions().when(is_good, col(name)).alias(name) for name in (KEY, VALUE)]
    return frame.select(*cleaned, TOPIC, PARTITION, OFFSET, TIMESTAMP, HEADERS, *marks)


def _failure(error: Column) -> Column:
    """Return the line that `task_failures` reads: the error with the record's place."""
    col, lit, concat = functions().col, functions().lit, functions().concat
    names = (col(TOPIC), lit("-"), col(PARTITION).cast("string"), lit("@"))
    message = concat(lit("record "), *names, col(OFFSET).cast("string"), lit(": "), error)
    places = zip(PLACE, _PLACES, strict=True)
    fields = functions().struct(
        message.alias("message"),
        lit(True).alias("permanent"),
        functions().struct(*[col(name).alias(field) for name, field in places]).alias("record"),
        _stage(error).alias("stage"),
    )
    return concat(lit(f"{task_failures.MARK} "), functions().to_json(fields))


def _stage(error: Column) -> Column:
    """Return the stage that failed, by Connect's names."""
    is_key = error.startswith(f"the {KEY} ")
    return functions().when(is_key, "KEY_CONVERTER").otherwise("VALUE_CONVERTER")


def letter_headers(app: str) -> Column:
    """Return the headers of dead letters: the record's own, then where and why it failed."""
    col, lit = functions().col, functions().lit
    described: list[tuple[str, Any]] = [
        ("topic", col(TOPIC)),
        ("partition", col(PARTITION).cast("string")),
        ("offset", col(OFFSET).cast("string")),
        ("connector.name", lit(app)),
        ("stage", _stage(col(LETTER)["error"])),
        ("exception.message", col(LETTER)["error"]),
    ]
    added = functions().array(
        *[
            functions().struct(
                lit(_HEADER_PREFIX + name).alias("key"), text.cast("binary").alias("value")
            )
            for name, text in described
        ]
    )
    none = functions().array().cast(HEADERS_TYPE)
    return functions().concat(functions().coalesce(col(HEADERS), none), added)
