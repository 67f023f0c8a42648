"""Texts of headers and literals as typed values: `5` is an INT8, `[1,2]` an array, `x` a text.

The grammar is that of Connect's `Values.parseString`. Any text that is not a number, boolean,
date, array or map is a string, as it is.
"""

import re
from typing import Any, Final, TypeAlias

from barnabas.pipeline.data import connect_schema as schemas
from barnabas.pipeline.data.connect_errors import DataError, NumberTextError
from barnabas.pipeline.data.connect_schema import Schema, Type
from barnabas.pipeline.data.java_text import DATE_FORMAT, TIME_FORMAT, TIMESTAMP_FORMAT
from barnabas.pipeline.data.java_values import INT64_MAX, INT64_MIN, EpochMillis, Float32, narrowed
from barnabas.pipeline.data.value_conversion import (
    convert,
    decimal_of,
    double_of,
    exponent_of,
)

SchemaAndValue: TypeAlias = tuple[Schema | None, Any]

_TOKEN: Final = re.compile(r'[:,{}\[\]"]|(?:[^\\:,{}\[\]"]|\\.|\\\Z)+', re.S)
_TRIMMED: Final = "".join(map(chr, range(33)))
_TEMPORALS: Final = {
    13: (schemas.TIME, TIME_FORMAT),
    24: (schemas.TIMESTAMP, TIMESTAMP_FORMAT),
    10: (schemas.DATE, DATE_FORMAT),
}
_BIGGER_THAN_LONG: Final = 10**19
_TOKENS_OF_A_TIME: Final = 4
_INTEGERS: Final = ((8, schemas.INT8), (16, schemas.INT16), (32, schemas.INT32))
_NUMBER_ORDER: Final = (
    Type.INT8,
    Type.INT16,
    Type.INT32,
    Type.INT64,
    Type.FLOAT32,
    Type.FLOAT64,
)


def parse_string(text: str | None) -> SchemaAndValue:
    """Return the schema and the value of a text; (None, None) for null."""
    if text is None:
        return None, None
    if not text:
        return schemas.STRING, text
    return _ValueParser(text).parse(embedded=False) or (None, None)


class _Tokens:
    """The tokens of a text, with one token of look-ahead."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._at = 0
        self._next: str | None = None

    def mark(self) -> int:
        return self._at - len(self._next or "")

    def rewind(self, place: int) -> None:
        self._at = place
        self._next = None

    def has_next(self) -> bool:
        return self._next is not None or self._at < len(self.text)

    def next(self) -> str:
        token, self._next = self._next, None
        return self._consumed() if token is None else token

    def next_tokens(self, count: int) -> str | None:
        """Return the text of several tokens, None when there are fewer."""
        start = self.mark()
        for _ in range(count):
            if not self.has_next():
                self.rewind(start)
                return None
            self.next()
        return self.text[start : self._at]

    def can_consume(self, expected: str) -> bool:
        """Consume the next token that is not blank if it is the expected one."""
        if self._next is None:
            if not self.has_next():
                return False
            self._next = self._consumed()
        while not self._next.strip(_TRIMMED) and self._at < len(self.text):
            self._next = self._consumed()
        if self._next.strip(_TRIMMED) != expected:
            return False
        self._next = None
        return True

    def _consumed(self) -> str:
        match = _TOKEN.match(self.text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match[0]


class _ValueParser:
    def __init__(self, text: str) -> None:
        self._tokens = _Tokens(text)

    def parse(self, *, embedded: bool) -> SchemaAndValue | None:
        """Return the next value, None for null. Raises DataError when it is embedded and wrong."""
        tokens = self._tokens
        if not tokens.has_next():
            return None
        if embedded and tokens.can_consume('"'):
            return self._quoted_string()
        if self._is_literal("null", embedded=embedded):
            return None
        for literal, value in (("true", True), ("false", False)):
            if self._is_literal(literal, embedded=embedded):
                return schemas.BOOLEAN, value
        start = tokens.mark()
        try:
            if tokens.can_consume("["):
                return self._array()
            if tokens.can_consume("{"):
                return self._map()
        except DataError:
            tokens.rewind(start)
        token = tokens.next()
        if not token.strip(_TRIMMED):
            return schemas.STRING, token
        return self._simple(token.strip(_TRIMMED), embedded=embedded)

    def _is_literal(self, literal: str, *, embedded: bool) -> bool:
        start = self._tokens.mark()
        if self._tokens.can_consume(literal) and (embedded or not self._tokens.has_next()):
            return True
        self._tokens.rewind(start)
        return False

    def _simple(self, token: str, *, embedded: bool) -> SchemaAndValue:
        if token[0].isdecimal() and (temporal := self._temporal(token)) is not None:
            return temporal
        if token[0].isdecimal() or token[0] in "+-":
            try:
                return _number(token)
            except NumberTextError:
                pass
        if embedded:
            raise DataError("Failed to parse embedded value")
        return schemas.STRING, self._tokens.text

    def _temporal(self, token: str) -> SchemaAndValue | None:
        """Return a time or a timestamp, which are five tokens, or a date or escaped time."""
        start = self._tokens.mark()
        rest = self._tokens.next_tokens(_TOKENS_OF_A_TIME)
        if rest is not None and (found := _temporal(token + rest)) is not None:
            return found
        self._tokens.rewind(start)
        return _temporal(token)

    def _quoted_string(self) -> SchemaAndValue:
        parts: list[str] = []
        while self._tokens.has_next() and not self._tokens.can_consume('"'):
            parts.append(self._tokens.next())
        content = "".join(parts)
        return _temporal(content) or (schemas.STRING, content)

    def _array(self) -> SchemaAndValue:
        tokens = self._tokens
        merged = _CommonSchema()
        values: list[Any] = []
        while tokens.has_next():
            if tokens.can_consume("]"):
                schema = schemas.array_schema(merged.schema)
                if merged.schema is not None:
                    values = [convert(merged.schema, value) for value in values]
                return schema, values
            if tokens.can_consume(","):
                raise DataError(f"Unable to parse an empty array element: {tokens.text}")
            element = self.parse(embedded=True)
            merged.add(element)
            values.append(element[1] if element is not None else None)
            here = tokens.mark()
            if tokens.can_consume("]"):
                tokens.rewind(here)
            elif not tokens.can_consume(","):
                raise DataError("Array elements missing ',' delimiter")
        raise DataError(f"Array is missing terminating ']': {tokens.text}")

    def _map(self) -> SchemaAndValue:
        tokens = self._tokens
        keys, values = _CommonSchema(), _CommonSchema()
        entries: dict[Any, Any] = {}
        while tokens.has_next():
            if tokens.can_consume("}"):
                return self._finished_map(keys.schema, values.schema, entries)
            if tokens.can_consume(","):
                raise DataError(f"Unable to parse a map entry with no key or value: {tokens.text}")
            key = self.parse(embedded=True)
            if key is None or key[1] is None:
                raise DataError(f"Map entry may not have a null key: {tokens.text}")
            if isinstance(key[1], list | dict):
                raise DataError("arrays and maps are not supported as keys of a map")
            if not tokens.can_consume(":"):
                raise DataError(f"Map entry is missing ':' in {tokens.text}")
            value = self.parse(embedded=True)
            entries[key[1]] = value[1] if value is not None else None
            tokens.can_consume(",")
            keys.add(key)
            values.add(value)
        raise DataError(f"Map is missing terminating '}}': {tokens.text}")

    @staticmethod
    def _finished_map(
        key_schema: Schema | None, value_schema: Schema | None, entries: dict[Any, Any]
    ) -> SchemaAndValue:
        if key_schema is None:
            return schemas.map_schema(None, None), entries
        converted = {
            convert(key_schema, key): convert(value_schema, value) if value_schema else value
            for key, value in entries.items()
        }
        return schemas.map_schema(key_schema, value_schema), converted


def _number(token: str) -> SchemaAndValue:
    """Return the narrowest type of a number. Raises NumberTextError."""
    number = decimal_of(token)
    exponent = exponent_of(number)
    magnitude = number.copy_abs()
    is_small = magnitude <= _BIGGER_THAN_LONG and (magnitude >= 1 or not number)
    if is_small and number == (whole := int(number)) and INT64_MIN <= whole <= INT64_MAX:
        for bits, schema in _INTEGERS:
            if -(1 << (bits - 1)) <= whole < 1 << (bits - 1):
                return schema, whole
        return schemas.INT64, whole
    if exponent != 0:
        double = double_of(number)
        single = narrowed(double)
        if abs(single) != float("inf"):
            return schemas.FLOAT32, Float32(single)
        if abs(double) != float("inf"):
            return schemas.FLOAT64, double
    return schemas.decimal_schema(-exponent), number


def _temporal(token: str) -> SchemaAndValue | None:
    text = token.replace("\\:", ":")
    found = _TEMPORALS.get(len(text))
    if found is None:
        return None
    schema, date_format = found
    ms = date_format.parse(text)
    return None if ms is None else (schema, EpochMillis(ms))


class _CommonSchema:
    """The schema that fits all values of an array or a map, None when there is none."""

    def __init__(self) -> None:
        self.schema: Schema | None = None
        self._is_compatible = True

    def add(self, found: SchemaAndValue | None) -> None:
        if found is None or found[0] is None or not self._is_compatible:
            return
        if self.schema is None:
            self.schema = found[0]
        else:
            self.schema = _merged(self.schema, found[0])
            self._is_compatible = self.schema is not None


def _merged(first: Schema, second: Schema) -> Schema | None:
    if first.type is second.type:
        return first if first.optional else second
    if first.type not in _NUMBER_ORDER or second.type not in _NUMBER_ORDER:
        return None
    return max(first, second, key=lambda schema: _NUMBER_ORDER.index(schema.type))
