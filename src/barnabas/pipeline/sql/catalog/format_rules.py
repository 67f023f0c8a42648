"""Formats: which types each takes, and which properties."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.sql_failures import UnresolvedError, nearest
from barnabas.pipeline.sql.sql_types import STRING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.pipeline.sql.catalog.source_values import Format, SourceColumn
    from barnabas.pipeline.sql.sql_types import SqlType

FORMATS: Final = (
    "KAFKA",
    "DELIMITED",
    "JSON",
    "AVRO",
    "PROTOBUF",
    "JSON_SR",
    "PROTOBUF_NOSR",
    "NONE",
)
REGISTRY_FORMATS: Final = ("AVRO", "PROTOBUF", "JSON_SR")
"""Formats whose schemas are in the registry, so columns can be left out."""
WRAPPING_FORMATS: Final = ("JSON", "AVRO", "JSON_SR")
"""Formats in which a single column is a field or the whole value, as WRAP_SINGLE_VALUE says."""

_KAFKA: Final = ("INTEGER", "BIGINT", "DOUBLE", "STRING", "BYTES")
_NESTED: Final = ("ARRAY", "MAP", "STRUCT")
_TEXT_KEYS: Final = ("JSON", "AVRO", "PROTOBUF", "JSON_SR", "PROTOBUF_NOSR")
_AVRO_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DELIMITERS: Final = {"SPACE": " ", "TAB": "\t"}


def format_name(written: str) -> str:
    """Return the name of a format. Raises UnresolvedError."""
    name = written.upper()
    if name not in FORMATS:
        hint = nearest(name, FORMATS)
        raise UnresolvedError(f"The format {written} is not known{hint}: use one of {_listed()}")
    return name


def _listed() -> str:
    return ", ".join(FORMATS)


def delimiter(text: str) -> str:
    """Return the character of a delimiter. Raises UnresolvedError."""
    found = _DELIMITERS.get(text.upper(), text)
    if len(found) != 1:
        raise UnresolvedError(f"A delimiter is one character, SPACE or TAB, and not '{text}'")
    return found


def check_columns(form: Format, columns: Sequence[SourceColumn], *, is_key: bool) -> None:
    """Raise UnresolvedError for columns that the format does not take."""
    side = "key" if is_key else "value"
    if form.name == "NONE" and columns:
        raise UnresolvedError(
            f"The format NONE is for a {side} without columns, and this one has "
            f"{_text(columns)}: name another format with {side.upper()}_FORMAT"
        )
    if form.name == "KAFKA" and len(columns) > 1:
        raise UnresolvedError(
            f"The format KAFKA takes one column, and the {side} has {_text(columns)}: "
            f"set {side.upper()}_FORMAT to JSON, for example"
        )
    for each in columns:
        _check_type(form.name, each.type, each.type)
        if is_key and each.type.has("MAP"):
            raise UnresolvedError(
                f"The key column {each} has a MAP, which has no fixed order: use a STRUCT"
            )
        if form.name == "AVRO":
            _check_avro_name(each.name)


def _check_type(form: str, kind: SqlType, whole: SqlType) -> None:
    if (form == "KAFKA" and kind.name not in _KAFKA) or (
        form == "DELIMITED" and kind.name in _NESTED
    ):
        raise UnresolvedError(f"The format {form} does not take the type {whole}: use JSON")
    if kind.name == "MAP" and form in _TEXT_KEYS and kind.elements[0] != STRING:
        raise UnresolvedError(
            f"The format {form} takes a MAP with keys of STRING only, and not {whole}"
        )
    for each in kind.elements:
        _check_type(form, each, whole)
    for name, each in kind.fields:
        if form == "AVRO":
            _check_avro_name(name)
        _check_type(form, each, whole)


def _check_avro_name(name: str) -> None:
    if not _AVRO_NAME.fullmatch(name):
        raise UnresolvedError(
            f"Avro takes names of letters, digits and _ that start with no digit, and not {name}"
        )


def _text(columns: Sequence[SourceColumn]) -> str:
    return ", ".join(map(str, columns))
