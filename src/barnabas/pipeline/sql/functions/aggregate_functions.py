"""Aggregates, as Spark's, and table functions.

What Spark keeps for a group is bounded for COUNT, SUM, AVG, MIN, MAX, STDDEV_SAMP, CORRELATION,
COUNT_DISTINCT and for one value by offset. It keeps the different values for COLLECT_SET and
TOPKDISTINCT, and all values for the others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions.function_values import (
    ANY_DECIMAL,
    POSITION,
    A,
    B,
    Function,
    K,
    Signature,
    Types,
    V,
    call,
    each,
    first,
    kept,
    spark,
    takes,
    takes_types,
)
from barnabas.pipeline.sql.functions.operators import arithmetic
from barnabas.pipeline.sql.functions.whole_numbers import wrapped_int
from barnabas.pipeline.sql.sql_types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    STRING,
    SqlType,
    array,
    map_of,
    struct,
    to_spark,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.pipeline.sql.functions.function_values import Column, ResolvedAggregate

DISTINCT_MAX: Final = 1000
"""The most different values that HISTOGRAM counts."""
_ERROR: Final = 0.02


def _aggregate(name: str, since: str, description: str, *signatures: Signature) -> Function:
    return Function(name, "Aggregates", description, since, signatures, "AGGREGATE")


def _count(value: Column) -> Column:
    return spark().count(value)


def _count_rows() -> Column:
    return spark().count(spark().lit(1))


def _sum(value: Column) -> Column:
    """Return a sum; 0 without values, NULL where it is out of bounds."""
    nothing = spark().when(spark().count(value) == 0, spark().lit(0))
    return spark().coalesce(spark().try_sum(value), nothing)


def _sum_integers(value: Column) -> Column:
    return wrapped_int(_sum(value))


def _sum_decimals(types: Types, value: Column) -> Column:
    return _sum(value).try_cast(to_spark(types[0]))


def _sum_list(kind: SqlType) -> Callable[[Column], Column]:
    """Return the sum of the elements of arrays; those that are NULL count nothing.

    A sum of whole numbers in one array wraps around, as in Java.
    """

    plus = arithmetic("+", kind, kind)

    def add(total: Column, element: Column) -> Column:
        return plus.column(total, spark().coalesce(element, spark().lit(0)))

    def found(values: Column) -> Column:
        return _sum(spark().aggregate(values, spark().lit(0).cast(to_spark(kind)), add))

    return found


def _sum_integer_list(values: Column) -> Column:
    return wrapped_int(_sum_list(BIGINT)(values))


def _only_value(value: Column) -> Column:
    """Return the value that all rows of a group have, NULL where they differ."""
    row = spark().struct(value.alias("v"))
    smallest = spark().min(row)
    return spark().when(smallest == spark().max(row), smallest["v"])


def _average(value: Column) -> Column:
    return spark().coalesce(spark().avg(value), spark().lit(0.0))


def _deviation(value: Column) -> Column:
    return spark().coalesce(spark().stddev_samp(value), spark().lit(0.0))


def _variance(value: Column) -> Column:
    return spark().coalesce(spark().var_samp(value), spark().lit(0.0))


def _correlation(one: Column, other: Column) -> Column:
    return spark().coalesce(spark().corr(one, other), spark().lit(float("nan")))


def _different(value: Column) -> Column:
    return spark().approx_count_distinct(value, _ERROR)


def _position() -> Column:
    return spark().struct(*(spark().col(name) for name in POSITION))


def _ordered(value: Column) -> Column:
    """Return all values of a group in the order of their records, each as a struct with `v`."""
    found = spark().collect_list(spark().struct(_position().alias("at"), value.alias("v")))

    def by_position(one: Column, other: Column) -> Column:
        return (
            spark().when(one["at"] < other["at"], -1).when(one["at"] > other["at"], 1).otherwise(0)
        )

    return spark().array_sort(found, by_position)


def _values(entries: Column) -> Column:
    return each(entries, lambda entry: entry["v"])


def _list(value: Column) -> Column:
    return _values(_ordered(value))


def _set(value: Column) -> Column:
    """Return the different values in ascending order, a NULL last; folds have their order."""
    found = spark().collect_set(spark().struct(value.alias("v")))
    return spark().array_sort(_values(found))


def first_values(aggregate: ResolvedAggregate, limit: int) -> ResolvedAggregate:
    """Return an aggregate whose array has the first `limit` values alone."""

    def column(*arguments: Column) -> Column:
        return spark().slice(aggregate.column(*arguments), 1, limit)

    return replace(aggregate, column=column, limit=limit)


def _top(value: Column, number: Column) -> Column:
    """Return the largest values, the largest first."""
    found = spark().sort_array(spark().collect_list(value), asc=False)
    return spark().slice(found, spark().lit(1), spark().max(number))


def _top_different(value: Column, number: Column) -> Column:
    found = spark().sort_array(spark().collect_set(value), asc=False)
    return spark().slice(found, spark().lit(1), spark().max(number))


def _top_rows(types: Types, *values: Column) -> Column:
    """Return the rows of the largest values as structs, the largest first."""
    *columns, number = values
    names = ["sort_col", *(f"col{at}" for at in range(len(columns) - 1))]
    row = spark().struct(*(each.alias(name) for each, name in zip(columns, names, strict=True)))
    there = spark().when(columns[0].isNotNull(), row)

    def descending(one: Column, other: Column) -> Column:
        return (
            spark()
            .when(one["sort_col"] > other["sort_col"], -1)
            .when(one["sort_col"] < other["sort_col"], 1)
            .otherwise(0)
        )

    found = spark().array_sort(spark().collect_list(there), descending)
    return spark().slice(found, spark().lit(1), spark().max(number))


def _top_type(types: Types) -> SqlType:
    *columns, _ = types
    names = ["sort_col", *(f"col{at}" for at in range(len(columns) - 1))]
    return array(struct(zip(names, columns, strict=True)))


def _histogram(value: Column) -> Column:
    """Return a map of the different values with their numbers."""
    f = spark()
    values = f.collect_list(value)
    names = f.slice(f.array_distinct(values), 1, DISTINCT_MAX)

    def number(name: Column) -> Column:
        # Lambdas within lambdas keep Spark from finding a Python function behind the aggregate.
        return (f.size(values) - f.size(f.array_remove(values, name))).cast("bigint")

    return f.map_from_arrays(names, each(names, number))


def _by_offset(name: str) -> Callable[[Column], Column]:
    """Return the value of the record at one end; `name` is min_by or max_by."""

    def found(value: Column) -> Column:
        at = spark().when(value.isNotNull(), _position())
        return call(name, value, at)

    return found


def _with_nulls_by_offset(name: str) -> Callable[[Column, Column], Column]:
    def found(value: Column, ignores_nulls: Column) -> Column:
        at = spark().when(value.isNotNull() | ~ignores_nulls, _position())
        return call(name, spark().struct(value.alias("v")), at)["v"]

    return found


def _several_by_offset(*, is_latest: bool) -> Callable[..., Column]:
    """Return the values of the first or last records, in the order of the records."""

    def found(value: Column, number: Column, ignores_nulls: Column | None = None) -> Column:
        f = spark()
        ordered = _ordered(value)
        if ignores_nulls is None:
            chosen = kept(ordered, lambda entry: entry["v"].isNotNull())
        else:
            ignores = f.max(ignores_nulls)
            chosen = kept(ordered, lambda entry: entry["v"].isNotNull() | ~ignores)
        size = f.least(f.max(number), f.size(chosen))
        start = f.size(chosen) - size + 1 if is_latest else f.lit(1)
        return _values(f.slice(chosen, start, size))

    return found


def _offsets(name: str, since: str, description: str, spark_name: str) -> Function:
    several = _several_by_offset(is_latest=spark_name == "max_by")
    return _aggregate(
        name,
        since,
        description,
        takes(A, to=A, by=_by_offset(spark_name)),
        takes(A, BOOLEAN, to=A, by=_with_nulls_by_offset(spark_name)),
        takes(A, INTEGER, to=array(A), by=several),
        takes(A, INTEGER, BOOLEAN, to=array(A), by=several),
    )


def _combinations(values: Column) -> Column:
    """Return all arrays in which each element is itself or NULL; those that are equal once.

    An array of more than 20 elements, of which there are more than a million, is NULL.
    """
    f = spark()
    size = f.size(values)
    all_masks = f.sequence(f.lit(0), f.pow(f.lit(2), f.least(size, f.lit(20))).cast("int") - 1)

    def combination(mask: Column) -> Column:
        def element(value: Column, index: Column) -> Column:
            bit = call("shiftright", mask, size - 1 - index).bitwiseAND(1)
            return f.when(bit == 1, value)

        return f.transform(values, element)

    return f.when(size <= 20, f.array_distinct(f.transform(all_masks, combination)))


ROWS: Final = (
    _aggregate(
        "ATTR",
        "0.27.1",
        "The value that all rows have, NULL where they differ.",
        takes(A, to=A, by=_only_value),
    ),
    _aggregate(
        "AVG", "0.6.0", "The average; 0 without values.", takes(DOUBLE, to=DOUBLE, by=_average)
    ),
    _aggregate(
        "COLLECT_LIST",
        "0.1.0",
        "An array of all values, NULLs too, in the order of the records.",
        takes(A, to=array(A), by=_list),
    ),
    _aggregate(
        "COLLECT_SET",
        "0.1.0",
        "An array of the different values, in the order of the records.",
        takes(A, to=array(A), by=_set),
    ),
    _aggregate(
        "CORRELATION",
        "0.29.0",
        "The correlation of two columns, by Pearson.",
        takes(DOUBLE, DOUBLE, to=DOUBLE, by=_correlation),
    ),
    _aggregate(
        "COUNT",
        "0.1.0",
        "The number of rows, or of values that are not NULL.",
        takes(to=BIGINT, by=_count_rows),
        takes(A, to=BIGINT, by=_count),
    ),
    _aggregate(
        "COUNT_DISTINCT",
        "0.7.0",
        "The number of different values, to about 2 percent.",
        takes(A, to=BIGINT, by=_different),
    ),
    _offsets(
        "EARLIEST_BY_OFFSET",
        "0.10.0",
        "The first value, or the first n; with a last argument of false, NULLs count.",
        "min_by",
    ),
    _aggregate(
        "HISTOGRAM",
        "0.1.0",
        f"A map of texts with their numbers, of at most {DISTINCT_MAX} texts.",
        takes(STRING, to=map_of(STRING, BIGINT), by=_histogram),
    ),
    _offsets(
        "LATEST_BY_OFFSET",
        "0.8.0",
        "The last value, or the last n; with a last argument of false, NULLs count.",
        "max_by",
    ),
    _aggregate(
        "MAX", "0.1.0", "The largest value.", takes(A, to=A, by=lambda value: spark().max(value))
    ),
    _aggregate(
        "MIN", "0.1.0", "The smallest value.", takes(A, to=A, by=lambda value: spark().min(value))
    ),
    _aggregate(
        "STDDEV_SAMP",
        "0.16.0",
        "The square of the sample standard deviation, as ksqlDB computes it.",
        takes(DOUBLE, to=DOUBLE, by=_variance),
    ),
    _aggregate(
        "STDDEV_SAMPLE",
        "0.25.0",
        "The sample standard deviation.",
        takes(DOUBLE, to=DOUBLE, by=_deviation),
    ),
    _aggregate(
        "SUM",
        "0.1.0",
        "The sum; 0 without values.",
        takes(INTEGER, to=INTEGER, by=_sum_integers),
        takes(BIGINT, to=BIGINT, by=_sum),
        takes_types(ANY_DECIMAL, to=first, by=_sum_decimals),
        takes(DOUBLE, to=DOUBLE, by=_sum),
    ),
    _aggregate(
        "SUM_LIST",
        "0.9.0",
        "The sum of the elements of arrays; 0 without elements.",
        takes(array(INTEGER), to=INTEGER, by=_sum_integer_list),
        takes(array(BIGINT), to=BIGINT, by=_sum_list(BIGINT)),
        takes(array(DOUBLE), to=DOUBLE, by=_sum_list(DOUBLE)),
    ),
    _aggregate(
        "TOPK",
        "0.1.0",
        "An array of the k largest values, or of structs with other columns.",
        takes(A, INTEGER, to=array(A), by=_top),
        *(
            takes_types(A, *others, INTEGER, to=_top_type, by=_top_rows)
            for others in ((B,), (B, K), (B, K, V))
        ),
    ),
    _aggregate(
        "TOPKDISTINCT",
        "0.1.0",
        "An array of the k largest different values.",
        takes(A, INTEGER, to=array(A), by=_top_different),
    ),
    Function(
        "EXPLODE",
        "Table functions",
        "A row for each element of an array.",
        "0.6.0",
        (takes(array(A), to=A, by=lambda values: values),),
        "TABLE",
    ),
    Function(
        "CUBE_EXPLODE",
        "Table functions",
        "A row for each combination of the elements of an array, of which each may be NULL.",
        "0.7.0",
        (takes(array(A), to=array(A), by=_combinations),),
        "TABLE",
    ),
)
