"""Values that Java has and Python lacks, and the names of Java's classes for all values.

Without a schema only the class of a value says what it is, and Connect's rules differ by class: a
byte overflows at 128, a float prints fewer digits than a double. `Int8`, `Int16` and `Int32` mark
such numbers; a plain `int` is Java's `Long` and a plain `float` its `Double`. With a schema,
integers are plain, since the schema has the type.
"""

import struct
from collections.abc import Iterable
from decimal import Decimal
from typing import Final, Self, TypeVar

import attrs

_FLOAT32: Final = struct.Struct(">f")
_FLOAT32_DIGITS: Final = 9
_PLAIN_MAX: Final = 1e5
_HASH_SLOTS: Final = 16
_Name = TypeVar("_Name", bound=str | None)


class Int8(int):
    """A number of 8 bits without a schema."""

    __slots__ = ()


class Int16(int):
    """A number of 16 bits without a schema."""

    __slots__ = ()


class Int32(int):
    """A number of 32 bits without a schema."""

    __slots__ = ()


class Float32(float):
    """A number in single precision, with or without a schema.

    It equals the shortest decimal that denotes the single: `Float32(0.1)` is 0.1 and prints so.
    `widened` is the value of the single itself.
    """

    __slots__ = ()

    def __new__(cls, number: float) -> Self:
        """Return the single that is nearest to a number."""
        return super().__new__(cls, _shortest(number))

    @property
    def widened(self) -> float:
        """The exact value of the single, 0.10000000149011612 for 0.1."""
        return narrowed(self)


def narrowed(number: float) -> float:
    """Return the nearest value in single precision, infinite beyond its range."""
    try:
        return _FLOAT32.unpack(_FLOAT32.pack(number))[0]
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _shortest(number: float) -> float:
    single = narrowed(number)
    if single != single or single in (float("inf"), float("-inf"), 0.0):
        return single
    if abs(single) < _PLAIN_MAX and round(single, 1) == single:
        return single
    for digits in range(1, _FLOAT32_DIGITS):
        shown = float(f"{single:.{digits}g}")
        if narrowed(shown) == single:
            return shown
    return float(f"{single:.{_FLOAT32_DIGITS}g}")


@attrs.frozen(slots=True, order=True)
class EpochMillis:
    """A point in time as milliseconds since 1970-01-01 UTC: the value of Connect's logical types.

    It is not a datetime, since Java's range is wider than Python's.
    """

    ms: int


def wrapped(number: int, bits: int) -> int:
    """Return a number cut to a width as Java casts it: the low bits, as a signed number."""
    half = 1 << (bits - 1)
    return ((number + half) & ((1 << bits) - 1)) - half


INT32_MIN: Final = -(1 << 31)
INT32_MAX: Final = (1 << 31) - 1
INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1

_JAVA_CLASSES: dict[type, str] = {
    bool: "java.lang.Boolean",
    Int8: "java.lang.Byte",
    Int16: "java.lang.Short",
    Int32: "java.lang.Integer",
    int: "java.lang.Long",
    Float32: "java.lang.Float",
    float: "java.lang.Double",
    str: "java.lang.String",
    bytes: "[B",
    Decimal: "java.math.BigDecimal",
    EpochMillis: "java.util.Date",
    list: "java.util.ArrayList",
    dict: "java.util.HashMap",
    type(None): "null",
}


def hash_order(names: Iterable[_Name]) -> tuple[_Name, ...]:
    """Return names in the order in which a Java HashMap with these keys iterates.

    Connect's classes keep some settings in hash maps, so this order decides which of two failures
    is reported, and which of two renames to one name counts.
    """
    keys = list(dict.fromkeys(names))
    slots = _HASH_SLOTS
    while len(keys) * 4 > slots * 3:
        slots *= 2
    return tuple(sorted(keys, key=lambda name: _spread_hash(name) & (slots - 1)))


def _spread_hash(name: str | None) -> int:
    if name is None:
        return 0
    code = 0
    for (unit,) in struct.iter_unpack(">H", name.encode("utf-16-be", "surrogatepass")):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code ^ code >> 16


def java_class_name(value: object) -> str:
    """Return the name of Java's class of a value, Python's for a value that Java lacks."""
    kind = type(value)
    known = _JAVA_CLASSES.get(kind)
    if known is not None:
        return known
    return getattr(kind, "java_class", f"{kind.__module__}.{kind.__qualname__}")
