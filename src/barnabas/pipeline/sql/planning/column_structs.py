"""Keys and values as structs, whose fields are the columns of a source."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from barnabas.pipeline.delivery.driver.spark_library import pyspark
from barnabas.pipeline.sql.sql_types import to_spark
from barnabas.pipeline.streams.serdes import functions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.pipeline.sql.catalog.source_values import SourceColumn
    from barnabas.pipeline.streams.serdes import Column, Step

EMPTY: Final = "_is_there"
"""The field of a struct that has no columns: Spark's formats have no empty struct."""


def struct_type(columns: Sequence[SourceColumn]) -> Any:
    """Return Spark's type of a struct with these columns."""
    types = pyspark("sql.types")
    fields = [types.StructField(each.name, to_spark(each.type)) for each in columns]
    return types.StructType(fields or [types.StructField(EMPTY, types.BooleanType())])


def each_of(array: Column, change: Callable[[Column], Column]) -> Column:
    """Return an array with each element changed."""
    return functions().transform(array, change)


def each_value_of(entries: Column, change: Callable[[Column], Column]) -> Column:
    """Return a map with each value changed."""

    def changed(key: Column, value: Column) -> Column:
        del key
        return change(value)

    return functions().transform_values(entries, changed)


def computed_once(value: Column, use: Callable[[Column], Column]) -> Column:
    """Return what `use` makes of a value. Spark computes the value once, also inside of lambdas."""
    f = functions()
    return f.get(f.transform(f.array(value), use), f.lit(0))


def in_one(steps: Sequence[Step]) -> Step:
    """Return the steps as one expression, which computes each of them once."""
    first, *rest = steps
    return lambda data: functools.reduce(computed_once, rest, first(data))


def those_of(array: Column, condition: Callable[[Column], Column]) -> Column:
    """Return the elements of an array for which a condition is true."""
    return functions().filter(array, condition)


def struct_of(fields: Sequence[tuple[str, Column]]) -> Column:
    """Return a struct of columns."""
    if not fields:
        return functions().struct(functions().lit(True).alias(EMPTY))
    return functions().struct(*[column.alias(name) for name, column in fields])
