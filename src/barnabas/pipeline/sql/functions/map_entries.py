"""Maps of entries, of which the last of a key wins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.pipeline.sql.functions.function_values import spark

if TYPE_CHECKING:
    from barnabas.pipeline.sql.functions.function_values import Column


def map_of_entries(entries: Column) -> Column:
    """Return the map of an array of structs (key, value); entries without a key are left out."""
    f = spark()

    def is_last(entry: Column, index: Column) -> Column:
        def has_key(other: Column) -> Column:
            return other["key"] == entry["key"]

        later = f.slice(entries, index + 2, f.greatest(f.size(entries), f.lit(1)))
        return entry["key"].isNotNull() & ~f.exists(later, has_key)

    return f.map_from_entries(f.filter(entries, is_last))
