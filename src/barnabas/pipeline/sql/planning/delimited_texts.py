"""DELIMITED: columns between delimiters, as RFC 4180 quotes them. An empty text is NULL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.pipeline.delivery.driver.spark_library import pyspark
from barnabas.pipeline.sql.planning.json_texts import plain
from barnabas.pipeline.sql.planning.simple_texts import line_value
from barnabas.pipeline.streams.serdes import functions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.pipeline.sql.catalog.source_values import SourceColumn
    from barnabas.pipeline.streams.serdes import Column

CORRUPT: Final = "_corrupt_record"
_COLUMNS_MAX: Final = 20_000
"""Spark reads up to 20,480 columns, and ends the query at a line with more."""


def parsed(text: Column, number: int, delimiter: str) -> Column:
    """Return the columns of a line as texts c0, c1 .., with the line if their number is wrong.

    A line of more than 20,000 columns is null.
    """
    types: Any = pyspark("sql.types")
    fields = [types.StructField(f"c{index}", types.StringType()) for index in range(number)]
    options = {
        "sep": delimiter,
        "quote": '"',
        "escape": '"',
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": CORRUPT,
    }
    kind = types.StructType([*fields, types.StructField(CORRUPT, types.StringType())])
    return functions().from_csv(
        _readable(text, delimiter),
        kind.simpleString().removeprefix("struct<")[:-1].replace(":", " "),
        options,
    )


def _readable(text: Column, delimiter: str) -> Column:
    """Return a line; null for one with more columns than Spark reads."""
    f = functions()
    columns = f.length(text) - f.length(f.replace(text, f.lit(delimiter), f.lit("")))
    is_long = (f.length(text) > _COLUMNS_MAX) & (columns > _COLUMNS_MAX)
    return f.when(~is_long, text)


def values(found: Column, columns: Sequence[SourceColumn]) -> list[Column]:
    """Return the values of a parsed line."""
    return [
        line_value(found.getField(f"c{index}"), each.type) for index, each in enumerate(columns)
    ]


def line(value: Column, columns: Sequence[SourceColumn], delimiter: str) -> Column:
    """Return the line of a struct."""
    parts = [
        _quoted(plain(value.getField(each.name), each.type), delimiter, is_first=index == 0)
        for index, each in enumerate(columns)
    ]
    return functions().concat_ws(delimiter, *parts)


def _quoted(value: Column, delimiter: str, *, is_first: bool) -> Column:
    """Return a value in quotes where ksqlDB's writer has them.

    It quotes a first value that starts with no letter or digit, and others that start with a
    character up to #, which readers could take for a comment.
    """
    f = functions()
    text = value.cast("string")
    start = "^[^0-9A-Za-z]" if is_first else r"^[\x00-#]"
    needs = text.contains(delimiter) | text.rlike('["\r\n]') | text.rlike(rf"{start}|\s$")
    quote = f.lit('"')
    escaped = f.concat(quote, f.replace(text, quote, f.lit('""')), quote)
    return f.coalesce(f.when(needs, escaped).otherwise(text), f.lit(""))
