"""Joins of two streams by key within a time, in Spark's own join with its watermarks."""

import enum

from barnabas.pipeline.delivery.driver.spark_library import DataFrame
from barnabas.pipeline.streams.kernel_frames import check_keys
from barnabas.pipeline.streams.serdes import functions
from barnabas.pipeline.streams.stream_columns import KEY, TIMESTAMP, VALUE, readable_errors


class JoinKind(enum.Enum):
    """The records of a join that come without a partner."""

    INNER = "inner"
    LEFT = "left"
    OUTER = "outer"


_SPARK_NAMES = {JoinKind.INNER: "inner", JoinKind.LEFT: "leftOuter", JoinKind.OUTER: "fullOuter"}


def joined(
    kind: JoinKind,
    left: DataFrame,
    right: DataFrame,
    *,
    within_ms: int,
    grace_ms: int,
    value: str | None,
) -> DataFrame:
    """Return the pairs of two streams with one key, whose times differ by `within_ms` at most.

    Raises KeyTypeError when keys have different types, which Spark would cast for each record.
    """
    check_keys(left.schema[KEY].dataType, right.schema[KEY].dataType)
    sides = _side(left, "left", grace_ms), _side(right, "right", grace_ms)
    condition = functions().expr(
        "_left_key = _right_key"
        f" AND _right_time >= _left_time - INTERVAL {within_ms} MILLISECONDS"
        f" AND _right_time <= _left_time + INTERVAL {within_ms} MILLISECONDS"
    )
    pairs = sides[0].join(sides[1], condition, _SPARK_NAMES[kind])
    col = functions().col
    with readable_errors():
        return pairs.select(
            functions().coalesce(col("_left_key"), col("_right_key")).alias(KEY),
            functions().expr(value or "struct(left, right)").alias(VALUE),
            functions().greatest("_left_time", "_right_time").alias(TIMESTAMP),
        )


def _side(frame: DataFrame, name: str, grace_ms: int) -> DataFrame:
    """Return the records of one side, which have a value, under the names of the side."""
    col = functions().col
    renamed = frame.filter(col(VALUE).isNotNull()).select(
        col(KEY).alias(f"_{name}_key"),
        col(VALUE).alias(name),
        col(TIMESTAMP).alias(f"_{name}_time"),
    )
    return renamed.withWatermark(f"_{name}_time", f"{grace_ms} milliseconds")
