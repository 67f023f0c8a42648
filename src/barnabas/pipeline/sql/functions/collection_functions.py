"""Functions of arrays and maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions.casts import as_string
from barnabas.pipeline.sql.functions.function_values import (
    A,
    Function,
    K,
    Signature,
    Types,
    V,
    call,
    each,
    kept,
    row,
    spark,
    takes,
    takes_types,
)
from barnabas.pipeline.sql.functions.map_entries import map_of_entries
from barnabas.pipeline.sql.functions.operators import comparison
from barnabas.pipeline.sql.sql_types import (
    BOOLEAN,
    INTEGER,
    NULL,
    STRING,
    SqlType,
    array,
    map_of,
    struct,
)

if TYPE_CHECKING:
    from barnabas.pipeline.sql.functions.function_values import Column

_ENTRY: Final = array(struct((("K", K), ("V", V))))


def _collections(name: str, since: str, description: str, *signatures: Signature) -> Function:
    return row(name, "Arrays and maps", since, description, *signatures)


def _concatenated(one: Column, other: Column) -> Column:
    return spark().coalesce(spark().concat(one, other), one, other)


def _contains(types: Types, values: Column, wanted: Column) -> Column:
    """True when an array has a value, which may be NULL."""
    same = comparison("IS NOT DISTINCT FROM", types[0].element, types[1])

    def is_wanted(value: Column) -> Column:
        return same.column(value, wanted)

    return spark().coalesce(spark().exists(values, is_wanted), spark().lit(False))


def _different(types: Types, values: Column) -> Column:
    """Return the different elements; Spark has no order of maps, so those are compared in pairs."""
    if "MAP<" not in str(types[0]):
        return spark().array_distinct(values)
    same = comparison("IS NOT DISTINCT FROM", types[0].element, types[0].element)

    def is_first(value: Column, index: Column) -> Column:
        def is_same(other: Column) -> Column:
            return same.column(other, value)

        return ~spark().exists(spark().slice(values, spark().lit(1), index), is_same)

    return spark().filter(values, is_first)


def _without(types: Types, values: Column, unwanted: Column) -> Column:
    differs = comparison("IS DISTINCT FROM", types[0].element, types[1])
    return kept(values, lambda value: differs.column(value, unwanted))


def _joined(types: Types, values: Column) -> Column:
    return _joined_by(types, values, spark().lit(","))


def _joined_by(types: Types, values: Column, delimiter: Column) -> Column:
    kind = types[0].element
    null = spark().lit("null")
    texts = each(values, lambda value: spark().coalesce(as_string(value, kind), null))
    return call("array_join", texts, spark().coalesce(delimiter, spark().lit("")))


def _sorted_by(values: Column, order: Column) -> Column:
    """Return a sorted array, NULLs last; NULL for an order that is not ASC or DESC."""
    f = spark()
    descending = f.concat(
        f.reverse(f.sort_array(kept(values, lambda value: value.isNotNull()))),
        kept(values, lambda value: value.isNull()),
    )
    word = f.upper(order)
    return f.when(word.isin("ASC", "ASCENDING"), f.array_sort(values)).when(
        word.isin("DESC", "DESCENDING"), descending
    )


def _map_of_lists(keys: Column, values: Column) -> Column:
    pairs = spark().arrays_zip(keys.alias("key"), values.alias("value"))
    entries = each(
        pairs,
        lambda pair: spark().struct(pair["key"].alias("key"), pair["value"].alias("value")),
    )
    size = spark().least(spark().size(keys), spark().size(values))
    return map_of_entries(spark().slice(entries, 1, size))


def _union(one: Column, other: Column) -> Column:
    """Return the entries of both maps, of which those of the second win."""

    def is_not_in_other(key: Column, _: Column) -> Column:
        return ~spark().map_contains_key(other, key)

    both = spark().map_concat(spark().map_filter(one, is_not_in_other), other)
    return spark().coalesce(both, one, other)


def _entries(entries: Column, is_sorted: Column) -> Column:
    found = each(
        spark().map_entries(entries),
        lambda pair: spark().struct(pair["key"].alias("K"), pair["value"].alias("V")),
    )

    def by_key(one: Column, other: Column) -> Column:
        return spark().when(one["K"] < other["K"], -1).when(one["K"] > other["K"], 1).otherwise(0)

    return spark().when(is_sorted, spark().array_sort(found, by_key)).otherwise(found)


def _sliced(values: Column, start: Column, end: Column) -> Column:
    """Return the elements from a place to another; NULL when a place is not in the array."""
    f = spark()
    first = f.coalesce(start, f.lit(1))
    last = f.coalesce(end, f.size(values))
    fits = (first >= 1) & (first <= last) & (last <= f.size(values))
    return f.when(fits, f.slice(values, first, last - first + 1))


def _element(types: Types) -> SqlType:
    return types[0].element if types[0] != NULL else NULL


ROWS: Final = (
    _collections(
        "ARRAY_CONCAT",
        "0.21.0",
        "The elements of both arrays; NULL counts as empty.",
        takes(array(A), array(A), to=array(A), by=_concatenated),
    ),
    _collections(
        "ARRAY_CONTAINS",
        "0.6.0",
        "True when an array has a value.",
        takes_types(array(A), A, to=BOOLEAN, by=_contains),
    ),
    _collections(
        "ARRAY_DISTINCT",
        "0.10.0",
        "The different elements, in the order in which they are there first.",
        takes_types(array(A), to=array(A), by=_different),
    ),
    _collections(
        "ARRAY_EXCEPT",
        "0.10.0",
        "The different elements of the first array that are not in the second.",
        takes(
            array(A), array(A), to=array(A), by=lambda one, other: spark().array_except(one, other)
        ),
    ),
    _collections(
        "ARRAY_INTERSECT",
        "0.10.0",
        "The different elements that are in both arrays, in the order of the first.",
        takes(
            array(A),
            array(A),
            to=array(A),
            by=lambda one, other: spark().array_intersect(one, other),
        ),
    ),
    _collections(
        "ARRAY_JOIN",
        "0.10.0",
        "The elements as one text, with a comma or another delimiter between them.",
        takes_types(array(A), to=STRING, by=_joined),
        takes_types(array(A), STRING, to=STRING, by=_joined_by),
    ),
    _collections(
        "ARRAY_LENGTH",
        "0.8.0",
        "The number of elements.",
        takes(
            array(A),
            to=INTEGER,
            by=lambda values: spark().when(values.isNotNull(), spark().size(values)),
        ),
    ),
    _collections(
        "ARRAY_MAX",
        "0.10.0",
        "The largest element that is not NULL.",
        takes(array(A), to=_element, by=lambda values: spark().array_max(values)),
    ),
    _collections(
        "ARRAY_MIN",
        "0.10.0",
        "The smallest element that is not NULL.",
        takes(array(A), to=_element, by=lambda values: spark().array_min(values)),
    ),
    _collections(
        "ARRAY_REMOVE",
        "0.11.0",
        "The elements that do not equal a value, which may be NULL.",
        takes_types(array(A), A, to=array(A), by=_without),
    ),
    _collections(
        "ARRAY_SORT",
        "0.10.0",
        "The elements in order, ASC or DESC, NULLs at the end.",
        takes(array(A), to=array(A), by=lambda values: spark().array_sort(values)),
        takes(array(A), STRING, to=array(A), by=_sorted_by),
    ),
    _collections(
        "ARRAY_UNION",
        "0.10.0",
        "The different elements of both arrays.",
        takes(
            array(A), array(A), to=array(A), by=lambda one, other: spark().array_union(one, other)
        ),
    ),
    _collections(
        "AS_MAP",
        "0.6.0",
        "A map of an array of keys and one of values.",
        takes(array(STRING), array(V), to=map_of(STRING, V), by=_map_of_lists),
    ),
    _collections(
        "ENTRIES",
        "0.6.0",
        "The entries of a map as structs of K and V, sorted by key if the second argument is true.",
        takes(map_of(K, V), BOOLEAN, to=_ENTRY, by=_entries),
    ),
    _collections(
        "MAP_KEYS",
        "0.10.0",
        "The keys of a map.",
        takes(map_of(K, V), to=array(K), by=lambda entries: spark().map_keys(entries)),
    ),
    _collections(
        "MAP_UNION",
        "0.10.0",
        "The entries of both maps; of a key in both, that of the second.",
        takes(map_of(K, V), map_of(K, V), to=map_of(K, V), by=_union),
    ),
    _collections(
        "MAP_VALUES",
        "0.10.0",
        "The values of a map.",
        takes(map_of(K, V), to=array(V), by=lambda entries: spark().map_values(entries)),
    ),
    _collections(
        "SLICE",
        "0.6.0",
        "The elements from a place to another, both from 1 and both included.",
        takes(array(A), INTEGER, INTEGER, to=array(A), by=_sliced),
    ),
)
