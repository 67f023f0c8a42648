"""Which form of a function a call means, by the types of its arguments.

Of the forms that fit, the one that converts the fewest arguments is taken; of equals the first in
the table. Scalar functions take a STRING for a time or BYTES, as a CAST would; forms that need it
come last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions.function_values import (
    ANY_DECIMAL,
    ANY_STRUCT,
    VARIABLES,
    Lambda,
    LambdaParameter,
)
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.sql_types import NULL, STRING, SqlType, as_decimal, widens, wider

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.pipeline.sql.functions.function_values import Argument, Parameter, Signature

_OF_TEXTS: Final = ("DATE", "TIME", "TIMESTAMP", "BYTES")
"""The types that a STRING is cast to where a scalar function has them."""
_CAST: Final = 1_000
"""The conversions that such a cast counts as, which are more than a call has arguments."""


@dataclass
class Match:
    """The fit of arguments to a signature: the types they are converted to, and its variables."""

    signature: Signature
    types: tuple[SqlType, ...] = ()
    """The type that each argument has after its conversion; for a lambda that of its result."""
    bound: dict[str, SqlType] = field(default_factory=dict[str, SqlType])
    lambdas: dict[int, SqlType] = field(default_factory=dict[int, SqlType])
    """The types of the lambdas' results, by the identity of the argument."""
    conversions: int = 0
    casts_texts: bool = False

    @property
    def returns(self) -> SqlType:
        """The type of the result."""
        returns = self.signature.returns
        return returns(self.types) if callable(returns) else substituted(returns, self.bound)


def matched(
    name: str,
    signatures: Sequence[Signature],
    arguments: Sequence[Argument],
    *,
    casts_texts: bool = False,
) -> Match:
    """Return how the arguments fit the best of the signatures.

    With `casts_texts` a STRING fits where a time or BYTES is needed.

    Raises UnresolvedError, which lists the signatures, when none fits.
    """
    fits = (_match(Match(each, casts_texts=casts_texts), arguments) for each in signatures)
    matches = [found for found in fits if found is not None]
    if not matches:
        given = ", ".join("lambda" if isinstance(each, Lambda) else str(each) for each in arguments)
        forms = "; ".join(f"{name}{each}" for each in signatures)
        raise UnresolvedError(f"{name} does not accept ({given}). It accepts: {forms}")
    return min(matches, key=lambda match: match.conversions)


def substituted(kind: SqlType, bound: dict[str, SqlType]) -> SqlType:
    """Return a type with its variables replaced; one without an argument is NULL."""
    if kind.name in VARIABLES:
        return bound.get(kind.name, NULL)
    if kind.elements:
        return SqlType(kind.name, tuple(substituted(each, bound) for each in kind.elements))
    if kind.fields:
        fields = tuple((name, substituted(each, bound)) for name, each in kind.fields)
        return SqlType(kind.name, fields=fields)
    return kind


def _match(match: Match, arguments: Sequence[Argument]) -> Match | None:
    """Return a match with the arguments bound, None when they do not fit."""
    parameters = _parameters(match.signature, len(arguments))
    if parameters is None:
        return None
    pairs = list(zip(parameters, arguments, strict=True))
    for parameter, argument in pairs:
        if isinstance(parameter, SqlType) and not (
            isinstance(argument, SqlType) and _bind(parameter, argument, match)
        ):
            return None
    for parameter, argument in pairs:  # lambdas last: their parameters have the types of the others
        if isinstance(parameter, LambdaParameter) and not _bind_lambda(parameter, argument, match):
            return None
    match.types = tuple(_converted(parameter, each, match) for parameter, each in pairs)
    return match


def _parameters(signature: Signature, number: int) -> tuple[Parameter, ...] | None:
    declared = signature.parameters
    if signature.variadic and number >= len(declared) - 1:
        return (*declared[:-1], *declared[-1:] * (number - len(declared) + 1))
    return declared if number == len(declared) else None


def _bind_lambda(parameter: LambdaParameter, argument: Argument, match: Match) -> bool:
    if not isinstance(argument, Lambda) or argument.parameters != len(parameter.parameters):
        return False
    before: tuple[SqlType, ...] = ()
    types = tuple(substituted(each, match.bound) for each in parameter.parameters)
    while types != before:  # a result may widen the type of a parameter, as REDUCE's state
        result = argument.returns(types)
        if not _bind(parameter.returns, result, match):
            return False
        match.lambdas[id(argument)] = result
        before, types = (
            types,
            tuple(substituted(each, match.bound) for each in parameter.parameters),
        )
    return True


def _bind(parameter: SqlType, argument: SqlType, match: Match) -> bool:
    """Note what the variables of a parameter are. Return False when the argument does not fit."""
    if parameter.name in VARIABLES:
        found = wider(match.bound.get(parameter.name, NULL), argument)
        if found is None:
            return False
        match.conversions += match.bound.get(parameter.name, found) != found
        match.bound[parameter.name] = found
        return True
    if argument == NULL:
        return True
    if parameter == ANY_DECIMAL:
        match.conversions += argument.name != "DECIMAL"
        return argument.name in ("DECIMAL", "INTEGER", "BIGINT")
    if parameter == ANY_STRUCT:
        return argument.name == "STRUCT"
    if parameter.elements and parameter.name == argument.name:
        pairs = zip(parameter.elements, argument.elements, strict=True)
        return all(_bind(*pair, match) for pair in pairs)
    if match.casts_texts and argument == STRING and parameter.name in _OF_TEXTS:
        match.conversions += _CAST
        return True
    match.conversions += parameter != argument
    return widens(argument, parameter)


def _converted(parameter: Parameter, argument: Argument, match: Match) -> SqlType:
    if isinstance(parameter, LambdaParameter):
        return substituted(parameter.returns, match.bound)
    if isinstance(argument, Lambda):
        return NULL
    if parameter == ANY_DECIMAL:
        return NULL if argument == NULL else as_decimal(argument)
    return argument if parameter == ANY_STRUCT else substituted(parameter, match.bound)
