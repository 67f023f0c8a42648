"""Maps of entries, of which the last of a key wins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.pipeline.sql.functions.function_values import each, kept, spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.pipeline.sql.functions.function_values import Column


def each_entry(
    entries: Column, key: Callable[[Column], Column], value: Callable[[Column], Column]
) -> Column:
    """Return a map with `key` of each key and `value` of each value.

    Entries whose key becomes NULL are left out, and of those with the same key the last one stays.
    """
    f = spark()

    def changed(entry: Column) -> Column:
        return f.struct(key(entry["key"]).alias("key"), value(entry["value"]).alias("value"))

    return map_of_entries(each(f.map_entries(entries), changed))


def map_of_entries(entries: Column) -> Column:
    """Return the map of an array of structs (key, value); entries without a key are left out.

    No lambda uses the variable of another: Spark finds no Python function behind those.
    """
    f = spark()
    newest = kept(f.reverse(entries), lambda entry: entry["key"].isNotNull())
    keys = each(newest, lambda entry: entry["key"])
    values = each(newest, lambda entry: entry["value"])
    different = f.array_distinct(keys)

    def value(key: Column) -> Column:
        return f.element_at(values, f.array_position(keys, key).cast("int"))

    return f.map_from_arrays(f.reverse(different), f.reverse(each(different, value)))
