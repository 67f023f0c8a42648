"""JSON by ksqlDB's rules: names of fields in any case, and values of other types converted.

Times are numbers: a DATE its days since 1970, a TIME its milliseconds, a TIMESTAMP the milliseconds
since 1970. BYTES are base64. Text is read twice for nested types: Spark's reader gives a map of
texts, of which each is read by its type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions.bounds import timestamp_of
from barnabas.pipeline.sql.functions.map_entries import map_of_entries
from barnabas.pipeline.sql.planning.column_structs import each_of, each_value_of, those_of
from barnabas.pipeline.sql.sql_types import SqlType, to_spark
from barnabas.pipeline.streams.serdes import functions

if TYPE_CHECKING:
    from barnabas.pipeline.streams.serdes import Column

_OBJECT: Final = "map<string,string>"
_LIST: Final = "array<string>"
ALONE: Final = "v"
"""The name of a value that is not in an object."""
_STRICT: Final = {
    "mode": "PERMISSIVE",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
"""What is JSON for Jackson as ksqlDB has it."""


def text_of(data: Column) -> Column:
    """Return the text of bytes; null where they are not UTF-8, as JSON is."""
    return functions().try_validate_utf8(data.cast("string"))


def object_of(text: Column) -> Column:
    """Return the fields of an object, as a map of texts; null for other JSON."""
    return functions().from_json(text, _OBJECT, _STRICT)


def alone(text: Column) -> Column:
    """Return a value that is not in an object as the field `ALONE` of a map; null for no JSON."""
    wrapped = functions().concat(functions().lit('{"v":'), text, functions().lit("}"))
    return object_of(wrapped)


def field_of(fields: Column, name: str) -> Column:
    """Return the text of a field by its name, in any case where the name itself is not there."""
    f = functions()
    same = those_of(f.map_keys(fields), lambda key: f.upper(key) == name.upper())
    return f.coalesce(
        f.try_element_at(fields, f.lit(name)), f.try_element_at(fields, f.get(same, f.lit(0)))
    )


def value_of(text: Column, kind: SqlType) -> Column:
    """Return the value of a text; null where the text does not fit the type."""
    f = functions()
    if kind.name == "STRUCT":
        fields = object_of(text)
        parts = [value_of(field_of(fields, name), each).alias(name) for name, each in kind.fields]
        return f.when(fields.isNotNull(), f.struct(*parts))
    if kind.name == "ARRAY":
        elements = f.from_json(text, _LIST, _STRICT)
        return each_of(elements, lambda each: value_of(each, kind.element))
    if kind.name == "MAP":
        newest = map_of_entries(f.map_entries(object_of(text)))
        return each_value_of(newest, lambda each: value_of(each, kind.element))
    return _simple(text, kind)


def _simple(text: Column, kind: SqlType) -> Column:
    f = functions()
    if kind.name == "STRING":
        return text
    if kind.name in ("INTEGER", "TIME"):
        return _whole(text, "int")
    if kind.name == "BIGINT":
        return _whole(text, "bigint")
    if kind.name == "DATE":
        return f.date_from_unix_date(_whole(text, "int"))
    if kind.name == "TIMESTAMP":
        return timestamp_of(_whole(text, "bigint"))
    if kind.name == "BYTES":
        return f.try_to_binary(text, f.lit("base64"))
    return f.trim(text).try_cast(to_spark(kind))


def _whole(text: Column, kind: str) -> Column:
    digits = functions().trim(text)
    cut = digits.try_cast("decimal(38,6)")
    is_number = digits.rlike(r"^[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?$")
    return functions().when(
        is_number, functions().coalesce(digits.try_cast(kind), cut.try_cast(kind))
    )


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
