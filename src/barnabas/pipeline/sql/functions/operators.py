"""Operators for operands of known types, by ksqlDB's rules.

Arithmetic with NULL is NULL. A comparison with NULL is false, except IS [NOT] DISTINCT FROM. A
division of whole numbers or decimals by zero is NULL, one of DOUBLE is infinite, as in Java. Whole
numbers wrap around. The digits of DECIMALs are those of ksqlDB, bounded to 38 as Spark bounds them.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any, Final

from barnabas.pipeline.sql.functions.casts import cast
from barnabas.pipeline.sql.functions.function_values import made, spark
from barnabas.pipeline.sql.functions.whole_numbers import divided, remainder, whole
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.sql_types import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    NULL,
    PRECISION_MAX,
    STRING,
    SqlType,
    as_decimal,
    decimal,
    to_spark,
    wider,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.pipeline.sql.functions.function_values import By, Column, ResolvedFunction

_FRACTION_MIN: Final = 6
_ARITHMETIC: Final = ("+", "-", "*", "/", "%")
_EXACTLY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "IS DISTINCT FROM": lambda one, other: ~one.eqNullSafe(other),
    "IS NOT DISTINCT FROM": lambda one, other: one.eqNullSafe(other),
}
_DISTINCT: Final = ("IS DISTINCT FROM", "IS NOT DISTINCT FROM")
_EQUALITY: Final = ("=", "<>", *_DISTINCT)
_TEMPORAL: Final = ("DATE", "TIME", "TIMESTAMP")
_UNORDERED: Final = ("BOOLEAN", "ARRAY", "MAP", "STRUCT")


def operation(sign: str, *types: SqlType) -> ResolvedFunction:
    """Return an operator: a sign, NOT, AND, OR, NEGATE, IS NULL, IS [NOT] DISTINCT FROM, [] ....

    Raises UnresolvedError when it does not take operands of these types.
    """
    if sign in _COMPARISONS:
        return comparison(sign, *types)
    if sign == "||" or (sign == "+" and STRING in types):
        return _concatenation(sign, *types)
    if sign in _ARITHMETIC:
        return arithmetic(sign, *types)
    if sign in ("AND", "OR", "NOT"):
        return _logic(sign, types)
    if sign == "NEGATE":
        return _negation(*types)
    if sign == "[]":
        return subscript(*types)
    raise UnresolvedError(f"There is no operator {sign}")


def arithmetic(sign: str, one: SqlType, other: SqlType) -> ResolvedFunction:
    """Return +, -, *, / or % of two numbers."""
    if NULL in (one, other):
        one, other = wider(one, other) or NULL, wider(one, other) or NULL
    if not (one.is_number and other.is_number):
        raise _not_for(sign, one, other)
    wide = wider(one, other) or DOUBLE
    if wide.name == "DECIMAL":
        return _decimal_arithmetic(sign, as_decimal(one), as_decimal(other), (one, other))

    def column(left: Column, right: Column) -> Column:
        left, right = cast(left, one, wide), cast(right, other, wide)
        if wide == DOUBLE:
            return _double(sign, left, right)
        return _whole(sign, left, right, is_long=wide != INTEGER)

    return made(sign, wide, column)


def _whole(sign: str, one: Column, other: Column, *, is_long: bool) -> Column:
    if sign == "/":
        return divided(one, other, is_long=is_long)
    if sign == "%":
        return remainder(one, other)
    attempts = {"+": spark().try_add, "-": spark().try_subtract, "*": spark().try_multiply}
    return whole(one, other, is_long=is_long, try_it=attempts[sign], exactly=_EXACTLY[sign])


def _double(sign: str, one: Column, other: Column) -> Column:
    if sign in _EXACTLY:
        return _EXACTLY[sign](one, other)
    nan = spark().lit(float("nan"))
    if sign == "%":
        return spark().when(other != 0, one % other).when(one.isNotNull() & (other == 0), nan)
    infinity = spark().lit(float("inf"))
    by_zero = spark().when(one > 0, infinity).when(one < 0, -infinity).when(one.isNotNull(), nan)
    return spark().when(other != 0, one / other).when(other == 0, by_zero)


def _decimal_arithmetic(
    sign: str, one: SqlType, other: SqlType, written: tuple[SqlType, SqlType]
) -> ResolvedFunction:
    returns = decimal_result(sign, one, other)

    def column(left: Column, right: Column) -> Column:
        left, right = cast(left, written[0], one), cast(right, written[1], other)
        attempts = {
            "+": spark().try_add,
            "-": spark().try_subtract,
            "*": spark().try_multiply,
            "/": spark().try_divide,
            "%": spark().try_mod,
        }
        return attempts[sign](left, right).try_cast(to_spark(returns))

    return made(sign, returns, column)


def decimal_result(sign: str, one: SqlType, other: SqlType) -> SqlType:
    """Return the type of arithmetic of two DECIMALs."""
    whole_digits = max(one.precision - one.scale, other.precision - other.scale)
    scale = max(one.scale, other.scale)
    if sign in ("+", "-"):
        return _bounded(whole_digits + 1 + scale, scale)
    if sign == "*":
        return _bounded(one.precision + other.precision + 1, one.scale + other.scale)
    if sign == "/":
        scale = max(_FRACTION_MIN, one.scale + other.precision + 1)
        return _bounded(one.precision - one.scale + other.scale + scale, scale)
    digits = min(one.precision - one.scale, other.precision - other.scale)
    return _bounded(digits + scale, scale)


def _bounded(precision: int, scale: int) -> SqlType:
    """Return a DECIMAL that Spark has: digits after the point are lost first, down to 6."""
    if precision <= PRECISION_MAX:
        return decimal(precision, scale)
    kept = max(PRECISION_MAX - (precision - scale), min(scale, _FRACTION_MIN))
    return decimal(PRECISION_MAX, kept)


def _negation(kind: SqlType) -> ResolvedFunction:
    if not kind.is_number:
        raise UnresolvedError(f"The operator - does not take {kind}, only numbers")
    if kind.name in ("DOUBLE", "DECIMAL"):
        return made("NEGATE", kind, lambda value: -value)
    subtraction = arithmetic("-", kind, kind)
    return made("NEGATE", kind, lambda value: subtraction.column(spark().lit(0), value))


def _concatenation(sign: str, one: SqlType, other: SqlType) -> ResolvedFunction:
    if any(kind not in (STRING, NULL) for kind in (one, other)):
        raise _not_for(sign, one, other)
    return made(sign, STRING, lambda left, right: spark().concat(left, right))


def comparison(sign: str, one: SqlType, other: SqlType) -> ResolvedFunction:
    """Return a comparison, which is false when an operand is NULL, or IS [NOT] DISTINCT FROM."""
    common = _comparable(sign, one, other)
    compare = _COMPARISONS[sign]

    def column(left: Column, right: Column) -> Column:
        left, right = _compared(left, one, common), _compared(right, other, common)
        found = compare(left, right)
        return found if sign in _DISTINCT else spark().coalesce(found, spark().lit(False))

    return made(sign, BOOLEAN, column)


def _comparable(sign: str, one: SqlType, other: SqlType) -> SqlType:
    common = wider(one, other)
    if STRING in (one, other) and (one.name in _TEMPORAL or other.name in _TEMPORAL):
        common = other if one == STRING else one
    elif {one.name, other.name} == {"DATE", "TIMESTAMP"}:
        common = one if one.name == "TIMESTAMP" else other
    if common is None or (common.name in _UNORDERED and sign not in _EQUALITY):
        raise _not_for(sign, one, other)
    return common


def _compared(value: Column, kind: SqlType, common: SqlType) -> Column:
    """Return an operand for a comparison: maps, which Spark does not compare, as sorted entries."""
    found = cast(value, kind, common)
    if common.name == "MAP":
        return spark().array_sort(spark().map_entries(found))
    return found


def _logic(sign: str, types: Sequence[SqlType]) -> ResolvedFunction:
    if any(kind not in (BOOLEAN, NULL) for kind in types):
        raise UnresolvedError(f"{sign} takes BOOLEAN, and not {' and '.join(map(str, types))}")
    columns: dict[str, By] = {
        "AND": lambda one, other: _true(one) & _true(other),
        "OR": lambda one, other: _true(one) | _true(other),
        "NOT": lambda value: ~_true(value),
    }
    return made(sign, BOOLEAN, columns[sign])


def _true(value: Column) -> Column:
    return value.cast("boolean")


def subscript(kind: SqlType, index: SqlType) -> ResolvedFunction:
    """Return the element of an array, from 1 or from its end with -1, or the value of a map's key.

    It is NULL when there is none.
    """
    if kind.name == "ARRAY":
        if index.name not in ("INTEGER", "BIGINT", "NULL"):
            raise UnresolvedError(f"The index of an array is an INTEGER, and not {index}")

        def element(value: Column, at: Column) -> Column:
            at = at.try_cast("int")
            # Spark has no distance from the end for the lowest int, and reads foreign memory.
            is_place = (at != 0) & (at > -(2**31))
            return spark().when(is_place, spark().try_element_at(value, at))

        return made("[]", kind.element, element)
    if kind.name == "MAP":
        if wider(index, kind.elements[0]) != kind.elements[0]:
            raise UnresolvedError(f"The keys of the map are {kind.elements[0]}, and not {index}")
        return made(
            "[]",
            kind.element,
            lambda value, key: spark().try_element_at(value, cast(key, index, kind.elements[0])),
        )
    raise UnresolvedError(f"[] takes an ARRAY or a MAP, and not {kind}")


def field(kind: SqlType, name: str) -> ResolvedFunction:
    """Return the field of a struct, which is NULL when the struct is."""
    for known, returns in kind.fields:
        if known == name:
            return made("->", returns, lambda value: value.getField(name))
    if kind.name != "STRUCT":
        raise UnresolvedError(f"-> takes a STRUCT, and not {kind}")
    raise UnresolvedError(f"The struct has no field {name}: it is {kind}")


def like(value: SqlType, pattern: SqlType, escape: str | None = None) -> ResolvedFunction:
    """Return LIKE; a comparison with NULL is false. Without ESCAPE no character escapes."""
    if any(kind not in (STRING, NULL) for kind in (value, pattern)):
        raise _not_for("LIKE", value, pattern)
    if escape is not None and len(escape) != 1:
        raise UnresolvedError(f"ESCAPE is one character, and not {escape!r}")

    def column(text: Column, wanted: Column) -> Column:
        found = spark().rlike(text, _regular_expression(wanted, escape))
        return spark().coalesce(found, spark().lit(False))

    return made("LIKE", BOOLEAN, column)


def _regular_expression(pattern: Column, escape: str | None) -> Column:
    """Return the regular expression of a pattern of LIKE."""
    f = spark()
    escaped = {"%": "\ue000", "_": "\ue001"} | ({escape: "\ue002"} if escape else {})
    if escape:
        for sign, stand_in in escaped.items():
            pattern = f.replace(pattern, f.lit(escape + sign), f.lit(stand_in))
    found = f.regexp_replace(pattern, r"[\\^$.|?*+()\[\]{}]", r"\\$0")
    for sign, part in (("%", ".*"), ("_", ".")):
        found = f.replace(found, f.lit(sign), f.lit(part))
    for sign, stand_in in escaped.items():
        found = f.replace(found, f.lit(stand_in), f.lit(re.escape(sign)))
    return f.concat(f.lit("(?s)^"), found, f.lit("$"))


def _not_for(sign: str, one: SqlType, other: SqlType) -> UnresolvedError:
    return UnresolvedError(
        f"The operator {sign} does not take {one} and {other}; use CAST on one of them"
    )
