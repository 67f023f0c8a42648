"""Functions that take lambdas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions.function_values import (
    A,
    B,
    Function,
    K,
    LambdaParameter,
    Signature,
    Types,
    V,
    row,
    spark,
    takes,
    takes_types,
)
from barnabas.pipeline.sql.functions.map_entries import map_of_entries
from barnabas.pipeline.sql.sql_types import BOOLEAN, SqlType, array, map_of, to_spark

if TYPE_CHECKING:
    from barnabas.pipeline.sql.functions.function_values import Build, Column

_K2: Final = SqlType("K2")
_V2: Final = SqlType("V2")


def _lambdas(name: str, description: str, *signatures: Signature) -> Function:
    return row(name, "Lambdas", "0.17.0", description, *signatures)


def _filtered(values: Column, condition: Build) -> Column:
    def is_kept(value: Column) -> Column:
        return condition(value)

    return spark().filter(values, is_kept)


def _filtered_map(entries: Column, condition: Build) -> Column:
    def is_kept(key: Column, value: Column) -> Column:
        return condition(key, value)

    return spark().map_filter(entries, is_kept)


def _transformed(values: Column, function: Build) -> Column:
    def result(value: Column) -> Column:
        return function(value)

    return spark().transform(values, result)


def _transformed_map(entries: Column, key: Build, value: Build) -> Column:
    """Return the map of new keys and values; NULL when two of the new keys are equal."""

    def entry(old: Column) -> Column:
        new_key, new_value = (by(old["key"], old["value"]) for by in (key, value))
        return spark().struct(new_key.alias("key"), new_value.alias("value"))

    found = spark().transform(spark().map_entries(entries), entry)
    keys = spark().transform(found, _key)
    is_map = spark().size(spark().array_distinct(keys)) == spark().size(entries)
    return spark().when(is_map, map_of_entries(found))


def _key(entry: Column) -> Column:
    return entry["key"]


def _reduced(types: Types, values: Column, state: Column, function: Build) -> Column:
    """Return the last state; NULL when the first one is, and the first one of no array."""
    kind = to_spark(types[1])

    def step(before: Column, value: Column) -> Column:
        return function(before, value).cast(kind)

    found = spark().aggregate(values, state.cast(kind), step)
    return spark().when(state.isNotNull(), spark().when(values.isNull(), state).otherwise(found))


def _reduced_map(types: Types, entries: Column, state: Column, function: Build) -> Column:
    def step(before: Column, entry: Column) -> Column:
        return function(before, entry["key"], entry["value"])

    return _reduced(types, spark().map_entries(entries), state, step)


ROWS: Final = (
    _lambdas(
        "FILTER",
        "The elements or entries for which a lambda is true.",
        takes(array(A), LambdaParameter((A,), BOOLEAN), to=array(A), by=_filtered),
        takes(map_of(K, V), LambdaParameter((K, V), BOOLEAN), to=map_of(K, V), by=_filtered_map),
    ),
    _lambdas(
        "REDUCE",
        "The result of a lambda that takes the state and each element or entry in turn.",
        takes_types(array(A), B, LambdaParameter((B, A), B), to=B, by=_reduced),
        takes_types(map_of(K, V), B, LambdaParameter((B, K, V), B), to=B, by=_reduced_map),
    ),
    _lambdas(
        "TRANSFORM",
        "A lambda's result for each element, or those of two lambdas for each entry.",
        takes(array(A), LambdaParameter((A,), B), to=array(B), by=_transformed),
        takes(
            map_of(K, V),
            LambdaParameter((K, V), _K2),
            LambdaParameter((K, V), _V2),
            to=map_of(_K2, _V2),
            by=_transformed_map,
        ),
    ),
)
