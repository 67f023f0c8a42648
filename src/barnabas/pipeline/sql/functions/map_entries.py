"""Maps of entries, of which the last of a key wins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.pipeline.sql.functions.function_values import each, kept, spark

if TYPE_CHECKING:
    from barnabas.pipeline.sql.functions.function_values import Column


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
