"""JSON text of schemas: read with bounds, written as the Java registry writes it.

Stored text is hashed and compared byte by byte, so the form of numbers and escapes matters:
doubles as ``Double.toString`` prints them, big decimals as ``BigDecimal.toString`` does, control
characters as upper-case ``\\u001F``, all other characters as they are, no spaces.
"""

import json
import math
import re
import sys
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, TypeGuard

from barnabas.registry.formats.schema_format import SchemaError, SchemaTooComplexError

NESTING_MAX = 128

# Far beyond doubles, and small enough to compute with.
_EXPONENT_MAX = 400
_DIGITS_MAX = 1_000

# Strings (closed or not), comments and brackets: enough to measure nesting in one pass.
_TOKENS = re.compile(
    r'"[^"\\]*+(?:\\.?[^"\\]*+)*+"?|//[^\n\r]*+|/\*.*?(?:\*/|\Z)|[\[\]{}]', re.DOTALL
)

_ESCAPES = {code: f"\\u{code:04X}" for code in range(32)} | {
    ord("\b"): "\\b",
    ord("\t"): "\\t",
    ord("\n"): "\\n",
    ord("\f"): "\\f",
    ord("\r"): "\\r",
    ord('"'): '\\"',
    ord("\\"): "\\\\",
}


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """True when a value of JSON is an object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """True when a value of JSON is an array."""
    return isinstance(value, list)


def read_json(text: str, *, comments: bool = False, exact: bool = False) -> Any:
    """Return the value of a JSON text.

    ``comments`` allows ``//`` and ``/* */`` as Avro's parser does. ``exact`` reads fractions as
    Decimal, otherwise as float. Of a repeated key the last value counts.
    Raises SchemaError when the text is not JSON, SchemaTooComplexError when it nests too deep.
    """
    text = _measured(text, comments)
    read_fraction = _exact_fraction if exact else _fraction
    try:
        return json.loads(text, parse_float=read_fraction, parse_constant=_refuse_constant)
    except SchemaError:
        raise
    except ValueError as error:
        raise SchemaError(f"not valid JSON: {json_fault(error)}") from error
    except RecursionError as error:
        raise SchemaError("not valid JSON: nested too deep") from error


def json_fault(error: ValueError) -> str:
    """Return in one line what `json.loads` found wrong."""
    if isinstance(error, json.JSONDecodeError):
        return str(error)
    if isinstance(error, UnicodeError):
        return "the text is not UTF-8"
    return f"a number has more than {sys.get_int_max_str_digits()} digits"


def _measured(text: str, comments: bool) -> str:
    """Check the nesting of a text and return it with its comments blanked."""
    depth = 0
    blanked: list[tuple[int, int]] = []
    for match in _TOKENS.finditer(text):
        first = text[match.start()]
        if first in "[{":
            depth += 1
            if depth > NESTING_MAX:
                raise SchemaTooComplexError(f"nested deeper than {NESTING_MAX} levels")
        elif first in "]}":
            depth -= 1
        elif first == "/" and comments:
            blanked.append(match.span())
    if not blanked:
        return text
    parts: list[str] = []
    end = 0
    for start, stop in blanked:
        parts += (text[end:start], " ")
        end = stop
    return "".join((*parts, text[end:]))


def _fraction(literal: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise SchemaError(f"number out of range: {literal[:40]}")
    return value


def _exact_fraction(literal: str) -> Decimal:
    try:
        value = Decimal(literal)
    except InvalidOperation as error:
        raise SchemaError(f"number out of range: {literal[:40]}") from error
    if abs(value.adjusted()) > _EXPONENT_MAX or len(literal) > _DIGITS_MAX:
        raise SchemaError(f"number out of range: {literal[:40]}")
    return value


def _refuse_constant(literal: str) -> Any:
    raise SchemaError(f"not valid JSON: {literal}")


def write_json(value: Any) -> str:
    """Return the compact JSON text of a value.

    Raises SchemaError for a text that UTF-8 cannot hold (half of a surrogate pair).
    """
    parts: list[str] = []
    _write(value, parts.append, 0)
    text = "".join(parts)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SchemaError("a string holds half of a surrogate pair") from error
    return text


def _write(value: Any, emit: Callable[[str], None], depth: int) -> None:
    if isinstance(value, str):
        emit(f'"{value.translate(_ESCAPES)}"')
    elif is_object(value):
        _check_depth(depth)
        emit("{")
        for index, (key, item) in enumerate(value.items()):
            emit(f',"{key.translate(_ESCAPES)}":' if index else f'"{key.translate(_ESCAPES)}":')
            _write(item, emit, depth + 1)
        emit("}")
    elif is_array(value):
        _check_depth(depth)
        emit("[")
        for index, item in enumerate(value):
            if index:
                emit(",")
            _write(item, emit, depth + 1)
        emit("]")
    elif value is None:
        emit("null")
    elif isinstance(value, bool):
        emit("true" if value else "false")
    elif isinstance(value, float):
        emit(java_double(value))
    else:
        emit(str(value))


def _check_depth(depth: int) -> None:
    if depth >= NESTING_MAX:
        raise SchemaTooComplexError(f"nested deeper than {NESTING_MAX} levels")


def java_double(value: float) -> str:
    """Return a double as Java's ``Double.toString`` prints it, non-finite ones quoted."""
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        shortest = Decimal(repr(value))
        return f"{shortest:f}" if shortest.as_tuple().exponent != 0 else f"{shortest:f}.0"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    power = len(digits) + int(exponent) - 1
    fraction = "".join(map(str, digits[1:])).rstrip("0") or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{power}"
