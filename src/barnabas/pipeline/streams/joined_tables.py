"""Joins with tables, as kernels: a stream with a table, and two tables."""

from barnabas.pipeline.delivery.spark_library import DataFrame
from barnabas.pipeline.streams.kernel_frames import (
    check_keys,
    kernel_input,
    kernel_output,
    packed,
    struct_type,
    unpacked,
)
from barnabas.pipeline.streams.kernels.kernel_rows import Side
from barnabas.pipeline.streams.kernels.stream_table_joins import StreamTableJoin
from barnabas.pipeline.streams.kernels.table_joins import JoinKind, TableJoin
from barnabas.pipeline.streams.serdes import Column, DataType, functions
from barnabas.pipeline.streams.stream_columns import HEADERS, KEY, TIMESTAMP, VALUE, evaluated

_ON = "_on"


def stream_with_table(
    stream: DataFrame, table: DataFrame, *, on: Column | None, is_left: bool, value: str | None
) -> DataFrame:
    """Return the records of a stream with the table's values of their key, or of `on`.

    Raises KeyTypeError.
    """
    col = functions().col
    key = KEY if on is None else _ON
    left = stream if on is None else evaluated(stream, {_ON: on})
    key_type = left.schema[key].dataType
    check_keys(key_type, table.schema[KEY].dataType)
    # A record keeps its key: it is not the one that the table is joined by.
    rows = kernel_input(left, packed({"k": col(KEY), "v": col(VALUE)}), Side.LEFT, key)
    changes = kernel_input(table, packed({"v": col(VALUE)}), Side.RIGHT)
    joined = kernel_output(
        rows.unionByName(changes, allowMissingColumns=True),
        StreamTableJoin(_pair, is_left),
        key_type,
    )
    types = _types(stream, table, k=stream.schema[KEY].dataType)
    pairs = joined.withColumn("_pair", unpacked(col(VALUE), **types))
    return _result(pairs, col("_pair")["l"]["k"], value)


def table_with_table(
    left: DataFrame, right: DataFrame, *, kind: JoinKind, value: str | None
) -> DataFrame:
    """Return the changes of the join of two tables. Raises KeyTypeError."""
    col = functions().col
    key_type = left.schema[KEY].dataType
    check_keys(key_type, right.schema[KEY].dataType)
    sides = [
        kernel_input(frame, packed({"v": col(VALUE)}), side)
        for frame, side in ((left, Side.LEFT), (right, Side.RIGHT))
    ]
    changes = sides[0].unionByName(sides[1], allowMissingColumns=True)
    joined = kernel_output(changes, TableJoin(_pair, kind), key_type)
    pairs = joined.withColumn("_pair", unpacked(col(VALUE), **_types(left, right)))
    return _result(pairs, col(KEY), value)


def _pair(key: bytes | None, left: bytes | None, right: bytes | None) -> bytes:
    """Return the JSON of two values that are JSON."""
    return b'{"l":%b,"r":%b}' % (left or b"null", right or b"null")


def _types(left: DataFrame, right: DataFrame, **carried: DataType) -> dict[str, DataType]:
    """Return the types of the fields of a pair."""
    own, other = left.schema[VALUE].dataType, right.schema[VALUE].dataType
    return {"l": struct_type(v=own, **carried), "r": struct_type(v=other)}


def _result(pairs: DataFrame, key: Column, value: str | None) -> DataFrame:
    """Return the records of pairs; `value` is an expression over `left` and `right`."""
    col, pair = functions().col, functions().col("_pair")
    named = pairs.select(
        key.alias(KEY),
        pair["l"]["v"].alias("left"),
        pair["r"]["v"].alias("right"),
        col(TIMESTAMP),
        col(HEADERS),
        pair.isNotNull().alias("_has_value"),
    )
    result = functions().expr(value or "struct(left, right)")
    return named.select(
        KEY,
        functions().when(col("_has_value"), result).alias(VALUE),
        TIMESTAMP,
        HEADERS,
    )
