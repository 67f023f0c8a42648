"""Functions of strings, and those that strings and bytes have alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions.bounds import SIZE_MAX
from barnabas.pipeline.sql.functions.function_values import (
    Function,
    Signature,
    call,
    each,
    kept,
    row,
    spark,
    takes,
    takes_many,
)
from barnabas.pipeline.sql.functions.map_entries import map_of_entries
from barnabas.pipeline.sql.sql_types import BYTES, INTEGER, STRING, array, map_of

if TYPE_CHECKING:
    from barnabas.pipeline.sql.functions.function_values import Column

_BLANKS: Final = "".join(map(chr, range(33)))
_ONE_BYTE: Final = "ISO-8859-1"
_UNICODE: Final = r"^(\\u[0-9a-fA-F]{4}){1,2}$"


def _strings(name: str, since: str, description: str, *signatures: Signature) -> Function:
    return row(name, "Strings", since, description, *signatures)


def _character(code: Column) -> Column:
    """Return the character of a code point; NULL when there is none."""
    f = spark()
    is_one = ((code >= 0) & (code < 0xD800)) | ((code > 0xDFFF) & (code <= 0x10FFFF))
    found = f.decode(f.unhex(f.lpad(f.hex(code.cast("bigint")), 8, "0")), "UTF-32")
    return f.when(is_one, found)


def _character_of(text: Column) -> Column:
    f = spark()
    data = f.unhex(f.replace(text, f.lit("\\u"), f.lit("")))
    return f.when(text.rlike(_UNICODE), f.decode(data, "UTF-16BE"))


def _joined(*values: Column) -> Column:
    return spark().concat_ws("", *values)


def _joined_bytes(*values: Column) -> Column:
    empty = spark().lit(b"")
    return spark().concat(*(spark().coalesce(value, empty) for value in values))


def _joined_by(separator: Column, *values: Column) -> Column:
    parts = kept(spark().array(*values), lambda value: value.isNotNull())
    return call("array_join", parts, separator)


def _joined_bytes_by(separator: Column, *values: Column) -> Column:
    decoded = [spark().decode(value, _ONE_BYTE) for value in (separator, *values)]
    return spark().encode(_joined_by(*decoded), _ONE_BYTE)


def _position(text: Column, part: Column) -> Column:
    return spark().instr(text, part)


def _position_from(text: Column, part: Column, start: Column) -> Column:
    return _position_of(text, part, start, spark().lit(1))


def _position_of(text: Column, part: Column, start: Column, number: Column) -> Column:
    """Return the place of an occurrence, counted from a place, or backward from one of the end."""
    f = spark()
    size = f.length(text)
    last = size - f.length(part) + 1
    places = f.when(last >= 1, f.sequence(f.lit(1), last)).otherwise(f.array().cast("array<int>"))
    found = kept(places, lambda at: f.substring(text, at, f.length(part)) == part)
    ahead = kept(found, lambda at: at >= start)
    behind = f.reverse(kept(found, lambda at: at <= size + start + 1))
    chosen = f.when(start > 0, ahead).when(start < 0, behind)
    nth = f.when(number > 0, f.try_element_at(chosen, number))
    is_known = text.isNotNull() & part.isNotNull()
    return f.when(is_known, f.coalesce(nth, f.lit(0)))


def _padded(side: str, value: Column, size: Column, padding: Column, empty: Column) -> Column:
    """Return a text or bytes of a length; NULL for one out of bounds, or an empty padding."""
    found = getattr(spark(), side)(value, size, padding)
    return spark().when(size.between(0, SIZE_MAX) & (padding != empty), found)


def _pad(side: str) -> tuple[Signature, Signature]:
    def text(value: Column, size: Column, padding: Column) -> Column:
        return _padded(side, value, size, padding, spark().lit(""))

    def data(value: Column, size: Column, padding: Column) -> Column:
        return _padded(side, value, size, padding, spark().lit(b""))

    return (
        takes(STRING, INTEGER, STRING, to=STRING, by=text),
        takes(BYTES, INTEGER, BYTES, to=BYTES, by=data),
    )


def _replaced(text: Column, part: Column, new: Column) -> Column:
    return spark().replace(text, part, new)


def _quoted(text: Column) -> Column:
    """Return a regular expression of exactly this text."""
    return spark().regexp_replace(text, r"[\\^$.|?*+()\[\]{}]", r"\\$0")


def _divided(text: Column, delimiter: Column) -> Column:
    """Return the parts between the delimiters, or the characters when it is empty."""
    f = spark()
    characters = f.split(text, "(?!^)(?!$)", -1)
    return f.when(delimiter == "", characters).otherwise(f.split(text, _quoted(delimiter), -1))


def _divided_bytes(data: Column, delimiter: Column) -> Column:
    parts = _divided(spark().decode(data, _ONE_BYTE), spark().decode(delimiter, _ONE_BYTE))
    return each(parts, lambda part: spark().encode(part, _ONE_BYTE))


def _divided_to_map(text: Column, between: Column, inside: Column) -> Column:
    """Return the map of a text; parts without the inner delimiter are left out."""
    f = spark()
    parts = kept(_divided(text, between), lambda part: f.contains(part, inside))

    def entry(part: Column) -> Column:
        key = call("substring_index", part, inside, f.lit(1))
        rest = f.substring(part, f.length(key) + f.length(inside) + 1, f.length(part))
        value = _divided(rest, inside)[0]
        return f.struct(key.alias("key"), value.alias("value"))

    return f.when((between != "") & (inside != ""), map_of_entries(each(parts, entry)))


def _rest(value: Column, start: Column) -> Column:
    return _part(value, start, spark().length(value))


def _part(value: Column, start: Column, size: Column) -> Column:
    """Return a part by its place, which counts from the end when it is negative."""
    f = spark()
    before_first = start < -f.length(value)
    place = f.when(before_first, f.lit(1)).otherwise(start)
    return f.when(size >= 0, f.substring(value, place, size))


def _title(text: Column) -> Column:
    return spark().initcap(text)


def _trimmed(text: Column) -> Column:
    """Return a text without blanks and control characters around it, as `String.trim` does."""
    return spark().btrim(text, spark().lit(_BLANKS))


def _element(number: Column, *texts: Column) -> Column:
    return spark().when(number > 0, spark().try_element_at(spark().array(*texts), number))


def _place(text: Column, *texts: Column) -> Column:
    found = spark().array_position(spark().array(*texts), text).cast("int")
    return spark().coalesce(found, spark().lit(0))


ROWS: Final = (
    _strings(
        "CHR",
        "0.10.0",
        "The character of a code, or of a text such as \\u004b.",
        takes(INTEGER, to=STRING, by=_character),
        takes(STRING, to=STRING, by=_character_of),
    ),
    _strings(
        "CONCAT",
        "0.1.0",
        "All values in one; NULL counts as empty.",
        takes_many(STRING, STRING, to=STRING, by=_joined),
        takes_many(BYTES, BYTES, to=BYTES, by=_joined_bytes),
    ),
    _strings(
        "CONCAT_WS",
        "0.10.0",
        "All values that are not NULL in one, the first argument between them.",
        takes_many(STRING, STRING, STRING, to=STRING, by=_joined_by),
        takes_many(BYTES, BYTES, BYTES, to=BYTES, by=_joined_bytes_by),
    ),
    _strings(
        "ELT",
        "0.6.0",
        "The text of this number among the other arguments, from 1.",
        takes_many(INTEGER, STRING, to=STRING, by=_element),
    ),
    _strings(
        "FIELD",
        "0.6.0",
        "The number of a text among the other arguments, from 1, or 0.",
        takes_many(STRING, STRING, to=INTEGER, by=_place),
    ),
    _strings(
        "INITCAP",
        "0.6.0",
        "Each word with its first letter in upper case and the others in lower case.",
        takes(STRING, to=STRING, by=_title),
    ),
    _strings(
        "INSTR",
        "0.10.0",
        "The place of a part in a text, or 0: from a place, and the n-th one.",
        takes(STRING, STRING, to=INTEGER, by=_position),
        takes(STRING, STRING, INTEGER, to=INTEGER, by=_position_from),
        takes(STRING, STRING, INTEGER, INTEGER, to=INTEGER, by=_position_of),
    ),
    _strings(
        "LCASE",
        "0.1.0",
        "In lower case.",
        takes(STRING, to=STRING, by=lambda text: spark().lower(text)),
    ),
    _strings(
        "LEN",
        "0.1.0",
        "The number of characters or bytes.",
        takes(STRING, to=INTEGER, by=lambda text: spark().length(text)),
        takes(BYTES, to=INTEGER, by=lambda data: spark().length(data)),
    ),
    _strings("LPAD", "0.10.0", "Filled from the left, or cut, to a length.", *_pad("lpad")),
    _strings(
        "REPLACE",
        "0.6.0",
        "All occurrences of a part replaced.",
        takes(STRING, STRING, STRING, to=STRING, by=_replaced),
    ),
    _strings("RPAD", "0.10.0", "Filled from the right, or cut, to a length.", *_pad("rpad")),
    _strings(
        "SPLIT",
        "0.6.0",
        "The parts between the delimiters.",
        takes(STRING, STRING, to=array(STRING), by=_divided),
        takes(BYTES, BYTES, to=array(BYTES), by=_divided_bytes),
    ),
    _strings(
        "SPLIT_TO_MAP",
        "0.10.0",
        "A map of a text: the delimiter of its entries, then that of keys and values.",
        takes(STRING, STRING, STRING, to=map_of(STRING, STRING), by=_divided_to_map),
    ),
    _strings(
        "SUBSTRING",
        "0.1.0",
        "A part from a place (from 1, or from the end with -1), of a length.",
        takes(STRING, INTEGER, to=STRING, by=_rest),
        takes(STRING, INTEGER, INTEGER, to=STRING, by=_part),
        takes(BYTES, INTEGER, to=BYTES, by=_rest),
        takes(BYTES, INTEGER, INTEGER, to=BYTES, by=_part),
    ),
    _strings(
        "TRIM", "0.1.0", "Without blanks at both ends.", takes(STRING, to=STRING, by=_trimmed)
    ),
    _strings(
        "UCASE",
        "0.1.0",
        "In upper case.",
        takes(STRING, to=STRING, by=lambda text: spark().upper(text)),
    ),
)
