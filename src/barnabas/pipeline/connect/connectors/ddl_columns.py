"""Columns in Spark's SQL, such as `id BIGINT, name STRING`, read without Spark.

A configuration is validated before Spark has started. The grammar is the one of Spark's
`StructType.fromDDL`; Spark reads the text again when the job starts.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Final

from barnabas.pipeline.definitions.config_types import ConfigValueError, ParsedValue

_TOKEN: Final = re.compile(
    r"\s*(?:`((?:[^`]|``)+)`|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(\w+)|([<>(),:.])|$)",
    re.ASCII,
)
_PLAIN: Final = (
    *("BOOLEAN", "TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "BIGINT", "LONG"),
    *("FLOAT", "REAL", "DOUBLE", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"),
    *("BINARY", "VOID", "VARIANT"),
)
_DECIMAL: Final = ("DECIMAL", "DEC", "NUMERIC")
_WITH_LENGTH: Final = ("CHAR", "CHARACTER", "VARCHAR")
_NESTED: Final = ("ARRAY", "MAP", "STRUCT")
_KNOWN: Final = (*_PLAIN, *_DECIMAL, *_WITH_LENGTH, *_NESTED, "STRING", "INTERVAL")
_INTERVALS: Final[Mapping[str, tuple[str, ...]]] = {
    "YEAR": ("MONTH",),
    "MONTH": (),
    "DAY": ("HOUR", "MINUTE", "SECOND"),
    "HOUR": ("MINUTE", "SECOND"),
    "MINUTE": ("SECOND",),
    "SECOND": (),
}
_PRECISION_MAX: Final = 38


class DdlError(ValueError):
    """A text is not a list of columns; the message says where and why."""


def column_names(text: str) -> list[str]:
    """Return the names of the columns. Raises DdlError."""
    return _Reader(text).columns()


def valid_columns(name: str, value: ParsedValue) -> None:
    """Raise ConfigValueError for a text that is not a list of columns; it may be empty."""
    if not isinstance(value, str) or not value:
        return
    try:
        column_names(value)
    except DdlError as error:
        raise ConfigValueError.of(name, value, str(error)) from error


class _Reader:
    """The tokens of a text, and the place in them."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            word = None if found is None else found[3]
            if found is None or (word and text[found.end() :][:1].isalnum()):
                raise DdlError(
                    f"cannot read it from '{text[at:].strip()}': a name with other characters than "
                    "letters of ASCII, digits and '_' needs backquotes"
                )
            at = found.end()
            quoted, literal, word, symbol = found.groups()
            if quoted is not None:
                self._tokens.append(("name", quoted.replace("``", "`")))
            elif literal is not None:
                self._tokens.append(("text", literal))
            elif word is not None:
                self._tokens.append(("word", word))
            elif symbol is not None:
                self._tokens.append(("symbol", symbol))
        self._at = 0

    def columns(self) -> list[str]:
        """Return the names of the columns at the top. Raises DdlError."""
        if self._peek() == "STRUCT" and self._peek(1) == "<":
            self._at = 2
            found = self._fields()
            self._expect(">")
        else:
            found = self._fields()
        if self._at < len(self._tokens):
            raise DdlError(f"',' is expected before '{self._tokens[self._at][1]}'")
        return found

    def _fields(self) -> list[str]:
        found = [self._field()]
        while self._takes(","):
            found.append(self._field())
        return found

    def _field(self) -> str:
        """Read a column: name, type, and what may follow them."""
        kind, name = self._next("the name of a column")
        if kind not in ("name", "word"):
            raise DdlError(f"the name of a column is expected, not '{name}'")
        self._takes(":")
        self._type(name)
        if self._takes("NOT"):
            self._expect("NULL")
        if self._takes("COMMENT"):
            kind, text = self._next("the text of a comment")
            if kind != "text":
                raise DdlError(f"the text of a comment is expected in quotes, not '{text}'")
        return name

    def _type(self, column: str) -> None:
        kind, given = self._next(f"the type of column {column}")
        name = given.upper()
        if kind != "word" or name not in _KNOWN:
            close = difflib.get_close_matches(name, _KNOWN, 1)
            hint = f"do you mean {close[0]}?" if close else f"types are {', '.join(sorted(_KNOWN))}"
            raise DdlError(f"'{given}' of column {column} is not a type of Spark: {hint}")
        if name in _DECIMAL:
            self._decimal(column)
        elif name in _WITH_LENGTH:
            self._expect("(")
            self._number(column)
            self._expect(")")
        elif name == "STRING" and self._takes("COLLATE"):
            self._next("a collation")
            while self._takes("."):
                self._next("a collation")
        elif name == "INTERVAL":
            self._interval()
        elif name in _NESTED:
            self._nested(name, column)

    def _nested(self, name: str, column: str) -> None:
        self._expect("<")
        if name == "STRUCT":
            if not self._takes(">"):
                self._fields()
                self._expect(">")
            return
        self._type(column)
        if name == "MAP":
            self._expect(",")
            self._type(column)
        self._expect(">")

    def _decimal(self, column: str) -> None:
        if not self._takes("("):
            return
        precision = self._number(column)
        scale = self._number(column) if self._takes(",") else 0
        self._expect(")")
        if precision > _PRECISION_MAX or scale > precision:
            raise DdlError(
                f"column {column} is DECIMAL({precision}, {scale}): the precision is at most "
                f"{_PRECISION_MAX}, and the scale at most the precision"
            )

    def _interval(self) -> None:
        """Read the units of an interval, which may be left out."""
        first = self._peek()
        if first not in _INTERVALS:
            return
        self._at += 1
        if self._takes("TO"):
            _, last = self._next("the last unit of an interval")
            if last.upper() not in _INTERVALS[first]:
                raise DdlError(f"there is no INTERVAL {first} TO {last.upper()}")

    def _number(self, column: str) -> int:
        _, text = self._next(f"a number in the type of column {column}")
        if not text.isdecimal():
            raise DdlError(f"a number is expected in the type of column {column}, not '{text}'")
        return int(text)

    def _peek(self, ahead: int = 0) -> str:
        """Return a word in upper case, or a symbol; an empty text for other tokens and the end."""
        at = self._at + ahead
        kind, text = self._tokens[at] if at < len(self._tokens) else ("", "")
        return text.upper() if kind in ("word", "symbol") else ""

    def _takes(self, expected: str) -> bool:
        """True when the next token is this one, which is read then."""
        is_next = self._peek() == expected
        self._at += is_next
        return is_next

    def _expect(self, expected: str) -> None:
        if not self._takes(expected):
            found = self._tokens[self._at][1] if self._at < len(self._tokens) else "the end"
            raise DdlError(f"'{expected}' is expected, not '{found}'")

    def _next(self, what: str) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise DdlError(f"{what} is missing at the end")
        self._at += 1
        return self._tokens[self._at - 1]
