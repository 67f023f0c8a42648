"""Connect's conversions between types: numbers, texts, and the logical types.

Numbers are cut to a narrower type as Java casts them. A text is read by `value_parsing`.
"""

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from barnabas.pipeline.data import logical_types
from barnabas.pipeline.data.connect_errors import DataError, NumberTextError
from barnabas.pipeline.data.connect_schema import DECIMAL_NAME, Schema, Struct, Type
from barnabas.pipeline.data.java_text import connect_text, plain_text
from barnabas.pipeline.data.java_values import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    EpochMillis,
    Float32,
    java_class_name,
    narrowed,
    wrapped,
)

_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_LONG_DIGITS: Final = 64  # 10**64 is a multiple of 2**64
_NO_NULL: Final = "Unable to convert a null value to a schema that requires a value"


def decimal_of(text: str) -> Decimal:
    """Return the decimal of a text as Java's `BigDecimal` reads it. Raises NumberTextError."""
    if _DECIMAL.fullmatch(text) is None:
        raise NumberTextError(f"{text!r} is not a number")
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise NumberTextError(f"{text!r} is out of range") from None
    if not -INT32_MAX <= exponent_of(number) <= -INT32_MIN:
        raise NumberTextError(f"{text!r} is out of range")
    return number if number else number.copy_abs()


def exponent_of(number: Decimal) -> int:
    """Return the exponent of a finite decimal: its scale, negated."""
    exponent = number.as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0


def long_of_decimal(number: Decimal) -> int:
    """Return the whole part of a decimal, cut to 64 bits."""
    if not number or number.adjusted() < 0 or exponent_of(number) >= _LONG_DIGITS:
        return 0
    return wrapped(int(number), 64)


def long_of_float(number: float, low: int = INT64_MIN, high: int = INT64_MAX) -> int:
    """Return the whole part of a number, the nearest limit beyond the range, 0 for NaN."""
    if math.isnan(number):
        return 0
    if math.isinf(number):
        return high if number > 0 else low
    return min(max(int(number), low), high)


def double_of(number: float | Decimal) -> float:
    """Return a number in double precision."""
    if isinstance(number, Float32):
        return number.widened
    try:
        return float(number)
    except OverflowError:
        return math.copysign(math.inf, number)


def as_long(value: Any, schema: Schema | None = None) -> int:
    """Return a number, a number's text or a logical value as a long. Raises DataError."""
    match value:
        case bool():
            pass
        case int():
            return int(value)
        case float():
            return long_of_float(double_of(value))
        case Decimal():
            return long_of_decimal(value)
        case str():
            try:
                return long_of_decimal(decimal_of(value))
            except NumberTextError:
                pass
        case EpochMillis() if schema is not None:
            number = logical_types.long_of(schema, value)
            if number is not None:
                return number
        case _:
            pass
    target = "a number" if schema is None else str(schema)
    raise DataError(f"Unable to convert {_shown(value)} to {target}")


def as_double(value: Any, schema: Schema | None = None) -> float:
    """Return a number, a number's text or a logical value as a double. Raises DataError."""
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return double_of(value)
    if isinstance(value, str):
        try:
            return float(decimal_of(value))
        except NumberTextError:
            pass
    return float(as_long(value, schema))


def _shown(value: Any) -> str:
    return f"{plain_text(value)} (class {java_class_name(value)})"


def _boolean(target: Schema, source: Schema | None, value: Any) -> bool:
    from barnabas.pipeline.data.value_parsing import parse_string

    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        parsed = parse_string(value)[1]
        if isinstance(parsed, bool):
            return parsed
    return as_long(value, source) != 0


def _integer(bits: int) -> "_Conversion":
    def converted(target: Schema, source: Schema | None, value: Any) -> int | EpochMillis:
        logical = logical_types.moment_conversion(target)
        if logical is not None:
            return logical(target, source, _parsed(value), as_long)
        return wrapped(as_long(value, source), bits)

    return converted


def _parsed(value: Any) -> Any:
    from barnabas.pipeline.data.value_parsing import parse_string

    return parse_string(value)[1] if isinstance(value, str) else value


def _float32(target: Schema, source: Schema | None, value: Any) -> Float32:
    if isinstance(value, Float32):
        return value
    return Float32(narrowed(as_double(value, source)))


def _float64(target: Schema, source: Schema | None, value: Any) -> float:
    if type(value) is float:
        return value
    return as_double(value, source)


def _text(target: Schema, source: Schema | None, value: Any) -> str:
    return connect_text(value)


def _bytes(target: Schema, source: Schema | None, value: Any) -> bytes | Decimal:
    if target.name == DECIMAL_NAME:
        return _decimal(target, value)
    if isinstance(value, bytes):
        return value
    if isinstance(value, Decimal):
        return logical_types.bytes_of_decimal(target, value)
    raise DataError(f"Unable to convert {_shown(value)} to {target}")


def _decimal(target: Schema, value: Any) -> Decimal:
    match value:
        case bytes():
            return logical_types.decimal_of_bytes(target, value)
        case Decimal():
            return value
        case int() | float() if not isinstance(value, bool):
            return Decimal(plain_text(double_of(value)))
        case str():
            return decimal_of(value)
        case _:
            raise DataError(f"Unable to convert {_shown(value)} to {target}")


def _composite(kind: type) -> "_Conversion":
    def converted(target: Schema, source: Schema | None, value: Any) -> Any:
        found = value if kind is Struct else _parsed(value)
        if isinstance(found, kind):
            return found
        raise DataError(f"Unable to convert {_shown(found)} to {target}")

    return converted


_Conversion = Callable[[Schema, Schema | None, Any], Any]

_CONVERSIONS: Final[Mapping[Type, _Conversion]] = {
    Type.BYTES: _bytes,
    Type.STRING: _text,
    Type.BOOLEAN: _boolean,
    Type.INT8: _integer(8),
    Type.INT16: _integer(16),
    Type.INT32: _integer(32),
    Type.INT64: _integer(64),
    Type.FLOAT32: _float32,
    Type.FLOAT64: _float64,
    Type.ARRAY: _composite(list),
    Type.MAP: _composite(dict),
    Type.STRUCT: _composite(Struct),
}


def convert(target: Schema, value: Any, source: Schema | None = None) -> Any:
    """Return a value converted to a schema. Raises DataError when that is not possible."""
    if value is None:
        if target.optional:
            return None
        raise DataError(_NO_NULL)
    return _CONVERSIONS[target.type](target, source, value)
