"""Functions of JSON in strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions.casts import time_text
from barnabas.pipeline.sql.functions.function_values import (
    A,
    Column,
    Function,
    Signature,
    Types,
    call,
    each,
    row,
    spark,
    takes,
    takes_many,
    takes_types,
)
from barnabas.pipeline.sql.functions.map_entries import each_entry
from barnabas.pipeline.sql.sql_types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    STRING,
    SqlType,
    array,
    map_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_TIMESTAMPS: Final = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSS", "ignoreNullFields": "false"}


def _json(name: str, since: str, description: str, *signatures: Signature) -> Function:
    return row(name, "JSON", since, description, *signatures)


def _is_json(text: Column) -> Column:
    """True for a text that is one JSON value."""
    return text.isNotNull() & spark().try_parse_json(text).isNotNull()


def _starts_with(text: Column, sign: str) -> Column:
    return _is_json(text) & spark().ltrim(text).startswith(sign)


def _items(text: Column) -> Column:
    """Return the elements of a JSON array as JSON, NULL for another text."""
    found = spark().from_json(text, "array<string>")
    return spark().when(_starts_with(text, "["), found)


def _quoted_items(text: Column) -> Column:
    """Return the elements of a JSON array as JSON: strings are in quotes."""
    f = spark()
    parsed = f.try_parse_json(text).cast("array<variant>")
    return f.when(_starts_with(text, "["), each(parsed, lambda item: f.to_json(item)))


def _records(text: Column) -> Column:
    found = spark().from_json(text, "map<string, string>")
    return spark().when(_starts_with(text, "{"), found)


def _keys(text: Column) -> Column:
    return spark().when(_starts_with(text, "{"), spark().json_object_keys(text))


def _length(text: Column) -> Column:
    return spark().when(_starts_with(text, "["), spark().json_array_length(text))


def _contains(as_json: Callable[[Column], Column]) -> Callable[[Column, Column], Column]:
    def contains(text: Column, wanted: Column) -> Column:
        found = spark().array_contains(_quoted_items(text), as_json(wanted))
        return spark().coalesce(found, spark().lit(False))

    return contains


def _as_it_is(value: Column) -> Column:
    return spark().coalesce(value.cast("string"), spark().lit("null"))


def _as_text(value: Column) -> Column:
    return spark().coalesce(_written(value), spark().lit("null"))


def _written(value: Column) -> Column:
    """Return any value as JSON, by way of an array of it, as Spark writes no single values."""
    text = spark().to_json(spark().array(value), _TIMESTAMPS)
    return spark().substring(text, spark().lit(2), spark().length(text) - 2)


def _to_json(types: Types, value: Column) -> Column:
    return _written(_with_texts(value, types[0]))


def _with_texts(value: Column, kind: SqlType) -> Column:
    """Return a value with its TIMEs as texts."""
    if "TIME" not in str(kind).replace("TIMESTAMP", ""):
        return value
    if kind.name == "TIME":
        return time_text(value)
    if kind.name == "ARRAY":
        return each(value, lambda element: _with_texts(element, kind.element))
    if kind.name == "MAP":
        return each_entry(
            value,
            lambda key: _with_texts(key, kind.elements[0]),
            lambda element: _with_texts(element, kind.element),
        )
    fields = [_with_texts(value.getField(name), each).alias(name) for name, each in kind.fields]
    return spark().when(value.isNotNull(), spark().struct(*fields))


def _joined(*texts: Column) -> Column:
    """Return objects as one object, or else all values as one array."""
    f = spark()
    are_json, are_objects = f.lit(True), f.lit(True)
    for text in texts:
        are_json, are_objects = are_json & _is_json(text), are_objects & _starts_with(text, "{")
    return f.when(are_json, f.when(are_objects, _merged(texts)).otherwise(_appended(texts)))


def _appended(texts: tuple[Column, ...]) -> Column:
    f = spark()
    lists = [
        f.coalesce(_quoted_items(text), f.array(f.to_json(f.try_parse_json(text))))
        for text in texts
    ]
    return f.concat(f.lit("["), f.array_join(f.concat(*lists), ","), f.lit("]"))


def _merged(texts: tuple[Column, ...]) -> Column:
    f = spark()
    objects = [f.try_parse_json(text).cast("map<string, variant>") for text in texts]
    found = objects[0]
    for other in objects[1:]:
        found = f.map_concat(f.map_filter(found, _is_not_in(other)), other)
    parts = each(
        f.map_entries(found),
        lambda pair: f.concat(
            _written(pair["key"]), f.lit(":"), f.coalesce(f.to_json(pair["value"]), f.lit("null"))
        ),
    )
    return f.concat(f.lit("{"), f.array_join(parts, ","), f.lit("}"))


def _is_not_in(entries: Column) -> Callable[[Column, Column], Column]:
    def is_not_in(key: Column, _: Column) -> Column:
        return ~spark().map_contains_key(entries, key)

    return is_not_in


def _extracted(text: Column, path: Column) -> Column:
    return call("get_json_object", text, path)


ROWS: Final = (
    _json(
        "EXTRACTJSONFIELD",
        "0.11.0",
        "The value at a JSON path, as a text.",
        takes(STRING, STRING, to=STRING, by=_extracted),
    ),
    _json(
        "IS_JSON_STRING",
        "0.24.0",
        "True for a valid JSON value.",
        takes(STRING, to=BOOLEAN, by=_is_json),
    ),
    _json(
        "JSON_ARRAY_CONTAINS",
        "0.6.0",
        "True when a JSON array has a value.",
        takes(STRING, INTEGER, to=BOOLEAN, by=_contains(_as_it_is)),
        takes(STRING, BIGINT, to=BOOLEAN, by=_contains(_as_it_is)),
        takes(STRING, DOUBLE, to=BOOLEAN, by=_contains(_as_it_is)),
        takes(STRING, BOOLEAN, to=BOOLEAN, by=_contains(_as_it_is)),
        takes(STRING, STRING, to=BOOLEAN, by=_contains(_as_text)),
    ),
    _json(
        "JSON_ARRAY_LENGTH",
        "0.24.0",
        "The number of elements of a JSON array.",
        takes(STRING, to=INTEGER, by=_length),
    ),
    _json(
        "JSON_CONCAT",
        "0.24.0",
        "JSON objects as one object, or any JSON values as one array.",
        takes_many(STRING, STRING, to=STRING, by=_joined),
    ),
    _json(
        "JSON_ITEMS",
        "0.29.0",
        "The elements of a JSON array, as JSON.",
        takes(STRING, to=array(STRING), by=_items),
    ),
    _json(
        "JSON_KEYS",
        "0.24.0",
        "The names in a JSON object.",
        takes(STRING, to=array(STRING), by=_keys),
    ),
    _json(
        "JSON_RECORDS",
        "0.24.0",
        "The names and values of a JSON object.",
        takes(STRING, to=map_of(STRING, STRING), by=_records),
    ),
    _json("TO_JSON_STRING", "0.24.0", "Any value as JSON.", takes_types(A, to=STRING, by=_to_json)),
)
