"""Dates and times on the way to functions in Python, which have the years 1 to 9999.

PySpark ends the query of a row with another one before the function is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions.function_values import each, spark
from barnabas.pipeline.sql.functions.map_entries import each_entry
from barnabas.pipeline.sql.functions.units import DAY_MS

if TYPE_CHECKING:
    from barnabas.pipeline.sql.functions.function_values import Column
    from barnabas.pipeline.sql.sql_types import SqlType

_FIRST_DAY: Final = -719_162
_LAST_DAY: Final = 2_932_896
"""The first day of the year 1 and the last one of the year 9999, in days since 1970."""


def for_python(value: Column, kind: SqlType) -> Column:
    """Return a value whose dates and times are NULL where Python has none.

    Of timestamps those of the first and the last day are too, because of zones.
    """
    f = spark()
    if not kind.has("DATE", "TIMESTAMP"):
        return value
    if kind.name == "STRUCT":
        parts = [for_python(value.getField(name), one).alias(name) for name, one in kind.fields]
        return f.when(value.isNotNull(), f.struct(*parts))
    if kind.name == "ARRAY":
        return each(value, lambda one: for_python(one, kind.element))
    if kind.name == "MAP":
        key, element = kind.elements
        return each_entry(
            value, lambda one: for_python(one, key), lambda one: for_python(one, element)
        )
    if kind.name == "DATE":
        return f.when(f.unix_date(value).between(_FIRST_DAY, _LAST_DAY), value)
    days = f.unix_millis(value) / DAY_MS
    return f.when((days >= _FIRST_DAY + 1) & (days < _LAST_DAY), value)
