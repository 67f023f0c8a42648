"""JSON by ksqlDB's rules: names of fields in any case, and values of other types converted.

Times are numbers: a DATE its days since 1970, a TIME its milliseconds, a TIMESTAMP the milliseconds
since 1970. BYTES are base64. Text is read twice for nested types: Spark's reader gives a map of
texts, of which each is read by its type. That reader gives a number with a point the digits of a
DOUBLE; where a DECIMAL is wanted, the reader of variants comes first, which has all 38.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions.map_entries import map_of_entries
from barnabas.pipeline.sql.planning import field_texts
from barnabas.pipeline.sql.planning.column_structs import (
    computed_once,
    each_of,
    each_value_of,
    in_one,
    those_of,
)
from barnabas.pipeline.sql.planning.simple_texts import json_value
from barnabas.pipeline.streams.serdes import functions

if TYPE_CHECKING:
    from barnabas.pipeline.sql.sql_types import SqlType
    from barnabas.pipeline.streams.serdes import Column, Step

ALONE: Final = "v"
"""The name of a value that is not in an object."""


def text_of(data: Column) -> Column:
    """Return the text of bytes; null where they are not UTF-8, as JSON is."""
    return functions().try_validate_utf8(data.cast("string"))


def wrapped(text: Column) -> Column:
    """Return the text of an object with a value that is not in one as its field `ALONE`."""
    return functions().concat(functions().lit('{"v":'), text, functions().lit("}"))


def value_of(text: Column, kind: SqlType) -> Column:
    """Return the value of a text; null where it, or a value inside it, does not fit its type."""
    if kind.name == "STRUCT":
        return in_one(struct_steps(kind))(text)
    is_exact = kind.has("DECIMAL")
    if kind.name == "ARRAY":
        elements = field_texts.read(text, field_texts.LIST, is_exact=is_exact)
        return computed_once(elements, lambda each: _array(each, kind.element))
    if kind.name == "MAP":
        fields = field_texts.read(text, field_texts.OBJECT, is_exact=is_exact)
        return computed_once(fields, lambda each: _map(each, kind.element))
    return json_value(text, kind)


def struct_steps(kind: SqlType) -> tuple[Step, ...]:
    """Return the steps from a text to a STRUCT, each of which reads the result of the one before
    several times: the texts of its fields, their values, both compared.
    """
    f, names = functions(), range(len(kind.fields))

    def values(texts: Column) -> Column:
        parts = [texts.getField(f"t{n}") for n in names]
        made = [value_of(part, each) for part, (_, each) in zip(parts, kind.fields, strict=True)]
        named = [value.alias(f"v{n}") for n, value in enumerate(made)]
        return f.when(texts.isNotNull(), f.struct(texts.alias("texts"), *named))

    def checked(both: Column) -> Column:
        fits = both.isNotNull()
        for n in names:
            text = both.getField("texts").getField(f"t{n}")
            fits = fits & (text.isNull() | both.getField(f"v{n}").isNotNull())
        parts = [both.getField(f"v{n}").alias(name) for n, (name, _) in enumerate(kind.fields)]
        return f.when(fits, f.struct(*parts))

    return *field_texts.field_steps(kind), values, checked


def _array(texts: Column, element: SqlType) -> Column:
    """Return an ARRAY of the texts of its elements."""
    if element.name == "STRING":
        return texts
    f = functions()
    values = each_of(texts, lambda each: value_of(each, element))
    both = f.struct(texts.alias("texts"), values.alias("values"))

    def checked(both: Column) -> Column:
        texts, values = both.getField("texts"), both.getField("values")
        return f.when(_nulls(texts) == _nulls(values), values)

    return computed_once(both, checked)


def _map(fields: Column, element: SqlType) -> Column:
    """Return a MAP of texts by their keys, of which the last one counts."""
    f = functions()
    keys = f.map_keys(fields)
    is_plain = f.size(f.array_distinct(keys)) == f.size(keys)
    texts = f.when(is_plain, fields).otherwise(map_of_entries(f.map_entries(fields)))
    if element.name == "STRING":
        return texts

    def both(texts: Column) -> Column:
        values = each_value_of(texts, lambda each: value_of(each, element))
        return f.struct(texts.alias("texts"), values.alias("values"))

    def checked(both: Column) -> Column:
        texts, values = both.getField("texts"), both.getField("values")
        return f.when(_nulls(f.map_values(texts)) == _nulls(f.map_values(values)), values)

    return computed_once(computed_once(texts, both), checked)


def _nulls(array: Column) -> Column:
    return functions().size(those_of(array, lambda each: each.isNull()))


def plain(value: Column, kind: SqlType) -> Column:
    """Return a value as JSON has it: times as numbers, bytes as base64."""
    f = functions()
    if kind.name == "STRUCT":
        parts = [plain(value.getField(name), each).alias(name) for name, each in kind.fields]
        return f.when(value.isNotNull(), f.struct(*parts)) if parts else value
    if kind.name == "ARRAY":
        return each_of(value, lambda each: plain(each, kind.element))
    if kind.name == "MAP":
        return each_value_of(value, lambda each: plain(each, kind.element))
    if kind.name == "DATE":
        return f.unix_date(value)
    if kind.name == "TIMESTAMP":
        return f.unix_millis(value)
    if kind.name == "BYTES":
        return f.base64(value)
    return value


def text_alone(value: Column, kind: SqlType) -> Column:
    """Return the JSON of a value that is not in an object."""
    f = functions()
    whole = f.to_json(f.struct(plain(value, kind).alias(ALONE)), {"ignoreNullFields": "false"})
    # The text without {"v": and }.
    inside = f.substring(whole, f.lit(6), f.length(whole) - 6)
    return f.when(value.isNotNull(), inside)
