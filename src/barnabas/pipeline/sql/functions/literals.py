"""Literals: their types, and the types to which they are coerced among other expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Final, TypeAlias

from barnabas.pipeline.sql.functions.casts import cast
from barnabas.pipeline.sql.functions.function_values import spark
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.sql_types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    NULL,
    STRING,
    SqlType,
    decimal,
    to_spark,
    wider,
)

if TYPE_CHECKING:
    from sqlglot import expressions as exp

    from barnabas.pipeline.sql.functions.function_values import Column

LiteralValue: TypeAlias = str | int | float | bool | Decimal
Names: TypeAlias = "Callable[[exp.Column], Column]"
"""Gives the column of Spark for the name of a column or of a lambda's parameter."""

_INTEGER_MAX: Final = 2**31 - 1
_BIGINT_MAX: Final = 2**63 - 1
_NUMBER: Final = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_TRUE: Final = ("true", "yes")
_FALSE: Final = ("false", "no")
_TEMPORAL: Final = ("DATE", "TIME", "TIMESTAMP")


@dataclass(frozen=True)
class TypedExpression:
    """An expression with its type; `column` makes the column of Spark, given those of the names."""

    type: SqlType
    column: Callable[[Names], Column] = field(compare=False)
    literal: LiteralValue | None = None
    """The value of a literal."""

    def converted(self, to: SqlType) -> TypedExpression:
        """Return the expression as one of another type."""
        return TypedExpression(to, lambda names: cast(self.column(names), self.type, to))


def literal(value: LiteralValue) -> TypedExpression:
    """Return the expression of a value, of the narrowest type that has it.

    Raises UnresolvedError for a number that no type has.
    """
    kind = _literal_type(value)
    if kind.name == "DECIMAL":
        return TypedExpression(
            kind, lambda names: spark().lit(str(value)).cast(to_spark(kind)), value
        )
    return TypedExpression(kind, lambda names: spark().lit(value), value)


def _literal_type(value: LiteralValue) -> SqlType:
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, str):
        return STRING
    if isinstance(value, float):
        return DOUBLE
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        scale = max(-int(exponent), 0)
        return decimal(max(len(digits), scale), scale)
    if abs(value) > _BIGINT_MAX:
        raise UnresolvedError(f"The number {value} is too large for a BIGINT")
    return INTEGER if abs(value) <= _INTEGER_MAX else BIGINT


def number(text: str) -> LiteralValue:
    """Return the value of a number as it is written: with an exponent a DOUBLE, else exact.

    Raises UnresolvedError for a DOUBLE out of its bounds.
    """
    if "e" in text.lower():
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise UnresolvedError(f"The number {text} is too large for a DOUBLE")
        return value
    return Decimal(text) if "." in text else int(text)


def common_list(expressions: Sequence[TypedExpression]) -> tuple[SqlType, list[TypedExpression]]:
    """Return the type that all expressions have in common, and the expressions as ones of it.

    The first that is not NULL decides; literals follow it, also from a string.
    Raises UnresolvedError.
    """
    common = NULL
    fitted: list[TypedExpression] = []
    for each in expressions:
        found = _fitted(each, common)
        wide = wider(common, found.type)
        if wide is None:
            raise UnresolvedError(
                f"{common} and {found.type} have no type in common; use CAST on one of them"
            )
        common = wide
        fitted.append(found)
    return common, [each.converted(common) for each in fitted]


def _fitted(expression: TypedExpression, common: SqlType) -> TypedExpression:
    """Return a literal as one of a type that widens to `common`, where there is a way."""
    value = expression.literal
    if value is None or common == NULL:
        return expression
    if common == STRING and not isinstance(value, str):
        return literal(str(value).lower() if isinstance(value, bool) else str(value))
    if not isinstance(value, str) or common == STRING:
        return expression
    if common.is_number:
        return _number_of(value, common)
    if common == BOOLEAN:
        return _boolean_of(value)
    return expression.converted(common) if common.name in _TEMPORAL else expression


def _number_of(text: str, common: SqlType) -> TypedExpression:
    if not _NUMBER.fullmatch(text):
        raise UnresolvedError(f"The text {text!r} is not of type {common}")
    value = number(text.strip())
    if isinstance(value, int) and abs(value) > _BIGINT_MAX:
        value = Decimal(value)
    return literal(value)


def _boolean_of(text: str) -> TypedExpression:
    lowered = text.lower()
    for words, value in ((_TRUE, True), (_FALSE, False)):
        if lowered and any(word.startswith(lowered) for word in words):
            return literal(value)
    raise UnresolvedError(f"The text {text!r} is not a BOOLEAN: write true, false, yes or no")
