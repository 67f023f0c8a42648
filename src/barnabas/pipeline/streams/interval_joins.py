"""Joins of two streams by key within a time, and deduplication within a time, as kernels.

Spark has both, by a watermark that is one for the query: records of a partition that is behind
another would be late. Kernels have the time of each partition.
"""

import enum
from typing import TypeAlias

from barnabas.pipeline.delivery.driver.spark_library import DataFrame
from barnabas.pipeline.streams.joined_tables import kernel_pair, pairs_of
from barnabas.pipeline.streams.kernel_frames import (
    PARTITIONS,
    JoinedInputs,
    carried,
    check_keys,
    kernel_input,
    kernel_output,
    packed,
    unpacked,
)
from barnabas.pipeline.streams.kernels.kernel_rows import Side
from barnabas.pipeline.streams.kernels.stream_aggregates import Deduplicate
from barnabas.pipeline.streams.kernels.stream_joins import JoinWindows, StreamJoin
from barnabas.pipeline.streams.serdes import Column, functions
from barnabas.pipeline.streams.stream_columns import (
    HEADERS,
    KEY,
    TIMESTAMP,
    VALUE,
    evaluated,
)
from barnabas.pipeline.streams.window_specs import Duration, duration_ms

_BY = "_by"


Within: TypeAlias = Duration | tuple[Duration, Duration]
"""How far apart two records of a join may be, or how far before and how far after."""


def windows_of(within: Within, grace: Duration) -> JoinWindows:
    """Return the windows of a join. Raises ValueError."""
    before, after = within if isinstance(within, tuple) else (within, within)
    return JoinWindows(duration_ms(before), duration_ms(after), duration_ms(grace))


class JoinKind(enum.Enum):
    """The records of a join that come without a partner."""

    INNER = "inner"
    LEFT = "left"
    OUTER = "outer"


_ALONE = {
    JoinKind.INNER: frozenset[Side](),
    JoinKind.LEFT: frozenset({Side.LEFT}),
    JoinKind.OUTER: frozenset({Side.LEFT, Side.RIGHT}),
}


def joined(
    kind: JoinKind,
    left: DataFrame,
    right: DataFrame,
    *,
    windows: JoinWindows,
    is_eager: bool,
    value: str | None,
    has_new_keys: bool,
    inputs: JoinedInputs,
) -> DataFrame:
    """Return the pairs of two streams with one key, whose times fit the windows.

    Without new keys, both streams must have their keys in partitions of the same numbers. `inputs`
    are the topics of both. Raises KeyTypeError when keys have different types.
    """
    col = functions().col
    key_type = left.schema[KEY].dataType
    check_keys(key_type, right.schema[KEY].dataType)
    sides = [
        kernel_input(frame, packed({"v": col(VALUE)}), side)
        for frame, side in ((left, Side.LEFT), (right, Side.RIGHT))
    ]
    pairs = kernel_output(
        sides[0].unionByName(sides[1], allowMissingColumns=True),
        StreamJoin(kernel_pair, windows, _ALONE[kind], is_eager),
        key_type,
        partitions=PARTITIONS if has_new_keys else None,
        inputs=inputs,
    )
    return pairs_of(pairs, left, right, value).select(KEY, VALUE, TIMESTAMP)


def deduplicated(frame: DataFrame, by: Column, within_ms: int) -> DataFrame:
    """Return the records of which no other one with the same `by` came within a time."""
    col = functions().col
    # A struct has a serde for each type, and represents null by a text that no other key has.
    named = evaluated(frame, {_BY: functions().struct(by.alias("by"))})
    content = carried({"k": col(KEY), "v": col(VALUE)})
    rows = kernel_input(named, content, key=_BY)
    outputs = kernel_output(rows, Deduplicate(within_ms), named.schema[_BY].dataType)
    types = {"k": frame.schema[KEY].dataType, "v": frame.schema[VALUE].dataType}
    record = unpacked(col(VALUE), **types)
    return outputs.select(record["k"].alias(KEY), record["v"].alias(VALUE), TIMESTAMP, HEADERS)
