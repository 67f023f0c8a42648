"""The texts of an object's fields by their names, in any case where the name itself is not there.

Of fields with the same name the last one counts, as in ksqlDB. Most records name each field once,
as the column or in lower case, and their texts are looked up. Only those of another kind have all
their names compared in upper case, which Spark does not compile.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.planning.column_structs import computed_once, each_of, struct_of
from barnabas.pipeline.streams.serdes import functions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from barnabas.pipeline.sql.sql_types import SqlType
    from barnabas.pipeline.streams.serdes import Column, Step

OBJECT: Final = "map<string,string>"
LIST: Final = "array<string>"
_STRICT: Final = {
    "mode": "PERMISSIVE",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
"""What is JSON for Jackson as ksqlDB has it."""


def read(text: Column, kind: str, *, is_exact: bool) -> Column:
    """Return an object or a list as texts; exact ones have all digits of a DECIMAL."""
    f = functions()
    found = f.from_json(text, kind, _STRICT)
    if not is_exact:
        return found
    # Null where a field is there twice.
    return f.coalesce(f.try_variant_get(f.try_parse_json(text), "$", kind), found)


def field_steps(kind: SqlType) -> tuple[Step, ...]:
    """Return the steps from the text of an object to a struct of the texts of its fields, `t0` and
    so on; null for what is not an object.
    """
    names = [name for name, _ in kind.fields]

    def fields(text: Column) -> Column:
        return read(text, OBJECT, is_exact=kind.has("DECIMAL"))

    def texts(fields: Column) -> Column:
        return _texts(fields, names)

    return fields, _parts, texts


def _parts(fields: Column) -> Column:
    f = functions()
    return f.struct(f.map_keys(fields).alias("names"), f.map_values(fields).alias("texts"))


def _texts(fields: Column, names: Sequence[str]) -> Column:
    f = functions()
    found = fields.getField("names")
    spelled = [(name, name.lower()) for name in names]
    others = f.array_except(found, _array(chain.from_iterable(spelled)))
    of_others = f.arrays_overlap(each_of(others, f.upper), _array(map(str.upper, names)))
    is_plain = f.size(f.array_distinct(found)) == f.size(found)
    is_plain &= (f.size(others) == 0) | ~of_others
    texts = fields.getField("texts")
    quick = [_first_of(texts, (found, name), (found, lower)) for name, lower in spelled]

    def in_any_case(each: Column) -> Column:
        own, upper, texts = (each.getField(name) for name in ("names", "upper", "texts"))
        return _struct(_first_of(texts, (own, name), (upper, name.upper())) for name in names)

    slow = computed_once(_reversed(fields), in_any_case)
    return f.when(found.isNotNull(), f.when(is_plain, _struct(quick)).otherwise(slow))


def _array(names: Iterable[str]) -> Column:
    return functions().array(*map(functions().lit, dict.fromkeys(names)))


def _struct(texts: Iterable[Column]) -> Column:
    return struct_of([(f"t{n}", text) for n, text in enumerate(texts)])


def _reversed(fields: Column) -> Column:
    f = functions()
    names, texts = (f.reverse(fields.getField(name)) for name in ("names", "texts"))
    upper = each_of(names, f.upper)
    return f.struct(names.alias("names"), upper.alias("upper"), texts.alias("texts"))


def _first_of(texts: Column, own: tuple[Column, str], other: tuple[Column, str]) -> Column:
    """Return the text whose place a name has in its array, or else the other name in its own."""
    f = functions()
    place = f.array_position(*own)
    place = f.when(place > 0, place).otherwise(f.array_position(*other))
    return f.get(texts, place.cast("int") - 1)
