"""Joins with tables, as kernels: a stream with a table, two tables, and those by a foreign key."""

import base64
import json

from barnabas.pipeline.delivery.driver.spark_library import DataFrame
from barnabas.pipeline.streams.kernel_frames import (
    PARTITIONS,
    JoinedInputs,
    check_keys,
    kernel_input,
    kernel_output,
    kernel_rows,
    key_serde,
    packed,
    struct_type,
    unpacked,
)
from barnabas.pipeline.streams.kernels.bucketed_query import completed
from barnabas.pipeline.streams.kernels.foreign_key_joins import (
    ForeignKeyLookup,
    ForeignKeyRespond,
    ForeignKeySubscribe,
)
from barnabas.pipeline.streams.kernels.kernel_protocol import RowKernel
from barnabas.pipeline.streams.kernels.kernel_rows import Side
from barnabas.pipeline.streams.kernels.stream_table_joins import StreamTableJoin
from barnabas.pipeline.streams.kernels.table_joins import JoinKind, TableJoin
from barnabas.pipeline.streams.serdes import Column, DataType, functions
from barnabas.pipeline.streams.stream_columns import (
    HEADERS,
    KEY,
    TIMESTAMP,
    VALUE,
    evaluated,
    readable_errors,
)

_ON = "_on"


def stream_with_table(
    stream: DataFrame,
    table: DataFrame,
    *,
    on: Column | None,
    is_left: bool,
    value: str | None,
    inputs: JoinedInputs,
) -> DataFrame:
    """Return the records of a stream with the table's values of their key, or of `on`.

    `inputs` are the topics of both. Raises KeyTypeError.
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
        StreamTableJoin(kernel_pair, is_left),
        key_type,
        inputs=inputs,
    )
    types = _types(stream, table, k=stream.schema[KEY].dataType)
    pairs = joined.withColumn("_pair", unpacked(col(VALUE), **types))
    return _result(pairs, col("_pair")["l"]["k"], value)


def table_with_table(
    left: DataFrame,
    right: DataFrame,
    *,
    kind: JoinKind,
    value: str | None,
    behind: RowKernel | None = None,
) -> DataFrame:
    """Return the changes of the join of two tables, or what `behind` makes of them.

    Raises KeyTypeError.
    """
    col = functions().col
    key_type = left.schema[KEY].dataType
    check_keys(key_type, right.schema[KEY].dataType)
    sides = [
        kernel_input(frame, packed({"v": col(VALUE)}), side)
        for frame, side in ((left, Side.LEFT), (right, Side.RIGHT))
    ]
    changes = sides[0].unionByName(sides[1], allowMissingColumns=True)
    joined = kernel_output(
        changes,
        TableJoin(kernel_pair, kind),
        key_type,
        behind=behind,
        partitions=_partitions(behind),
    )
    return pairs_of(joined, left, right, value)


def tables_by_foreign_key(
    left: DataFrame,
    right: DataFrame,
    *,
    on: Column,
    is_left: bool,
    value: str | None,
    behind: RowKernel | None = None,
) -> DataFrame:
    """Return the changes of the join of a table with the rows of another that `on` names.

    `behind` is a kernel that takes the changes. Raises KeyTypeError.
    """
    col = functions().col
    named = evaluated(left, {_ON: on})
    on_type = named.schema[_ON].dataType
    check_keys(on_type, right.schema[KEY].dataType)
    foreign = key_serde(on_type).encode(col(_ON))
    rows = kernel_input(named, packed({"f": foreign, "v": col(VALUE)}))
    changes = completed(kernel_input(right, packed({"v": col(VALUE)}), Side.RIGHT))
    asked = kernel_rows(rows, ForeignKeySubscribe(_foreign_key, is_left))
    answers = kernel_rows(asked.unionByName(changes), ForeignKeyLookup())
    joined = kernel_output(
        answers,
        ForeignKeyRespond(kernel_pair, is_left),
        left.schema[KEY].dataType,
        behind=behind,
        partitions=_partitions(behind),
    )
    return pairs_of(joined, left, right, value)


def _partitions(behind: RowKernel | None) -> int | None:
    """Return the partitions by key, which rows of two topics need for a kernel with time."""
    return None if behind is None else PARTITIONS


def _foreign_key(key: bytes, value: bytes) -> bytes | None:
    """Return the bytes of the foreign key of a left row."""
    found = json.loads(value)["f"]
    return None if found is None else base64.b64decode(found)


def pairs_of(joined: DataFrame, left: DataFrame, right: DataFrame, value: str | None) -> DataFrame:
    """Return the records of a kernel's pairs: `value` is an expression over `left` and `right`."""
    col = functions().col
    pairs = joined.withColumn("_pair", unpacked(col(VALUE), **_types(left, right)))
    return _result(pairs, col(KEY), value)


def kernel_pair(key: bytes | None, left: bytes | None, right: bytes | None) -> bytes:
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
    with readable_errors():
        return named.select(
            KEY,
            functions().when(col("_has_value"), result).alias(VALUE),
            TIMESTAMP,
            HEADERS,
        )
