"""Texts as values of simple types: those of JSON as Jackson takes them, those of lines as Java.

A text that does not fit its type is null. Numbers of JSON are cut to whole ones and wrap around,
those of lines are whole and in their bounds. A DECIMAL is not rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions.bounds import timestamp_of
from barnabas.pipeline.sql.functions.units import DAY_MS
from barnabas.pipeline.sql.functions.whole_numbers import wrapped_int, wrapped_long
from barnabas.pipeline.sql.planning.column_structs import computed_once
from barnabas.pipeline.sql.sql_types import PRECISION_MAX, SqlType, to_spark
from barnabas.pipeline.streams.serdes import functions

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.pipeline.streams.serdes import Column

_NUMBER: Final = r"^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$"


def json_value(text: Column, kind: SqlType) -> Column:
    """Return the value of a text of JSON: a number, true or false, or what was in quotes."""
    if kind.name == "BOOLEAN":
        return functions().when(text.isin("true", "false"), text == "true")
    if kind.name == "INTEGER":
        return _whole(text, "int")
    return _value(text, kind, lambda each: _whole(each, "bigint"))


def line_value(text: Column, kind: SqlType) -> Column:
    """Return the value of a text of a line."""
    if kind.name == "BOOLEAN":
        return functions().lower(text) == "true"
    if kind.name == "INTEGER":
        return text.try_cast("int")
    return _value(text, kind, lambda each: each.try_cast("bigint"))


def _value(text: Column, kind: SqlType, long: Callable[[Column], Column]) -> Column:
    f = functions()
    if kind.name == "STRING":
        return text
    if kind.name == "BIGINT":
        return long(text)
    if kind.name == "TIME":
        time = long(text)
        return f.when(time.between(0, DAY_MS), time.cast("int"))
    if kind.name == "DATE":
        return f.date_from_unix_date(long(text).try_cast("int"))
    if kind.name == "TIMESTAMP":
        return timestamp_of(long(text))
    if kind.name == "BYTES":
        return f.try_to_binary(text, f.lit("base64"))
    if kind.name == "DECIMAL":
        return _exact(text, kind)
    return text.try_cast(to_spark(kind))


def _exact(text: Column, kind: SqlType) -> Column:
    """Return the DECIMAL of a text; null where it would be rounded."""
    places = PRECISION_MAX - kind.precision + kind.scale
    found = text.try_cast(to_spark(kind))
    return functions().when(text.try_cast(f"decimal({PRECISION_MAX}, {places})") == found, found)


def _whole(text: Column, kind: str) -> Column:
    """Return the whole part of a number; what has too many bits keeps the lowest ones."""

    def cut(each: Column) -> Column:
        f = functions()
        number = each.try_cast("decimal(38, 6)")
        whole = f.when(number >= 0, f.floor(number)).otherwise(f.ceil(number))
        wide = each.try_cast("decimal(38, 0)")
        found = f.coalesce(wrapped_long(whole), wrapped_long(wide))
        return f.when(each.rlike(_NUMBER), wrapped_int(found) if kind == "int" else found)

    return functions().coalesce(text.try_cast(kind), computed_once(text, cut))
