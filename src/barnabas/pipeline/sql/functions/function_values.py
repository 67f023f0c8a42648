"""Functions as values: how a row of the table of functions is declared, and what a call becomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

from barnabas.pipeline.delivery.driver.spark_library import pyspark
from barnabas.pipeline.sql.sql_types import NULL, SqlType

Column: TypeAlias = Any
"""A `pyspark.sql.Column`; for a lambda a callable of columns, for a unit of time its name."""

Build: TypeAlias = Callable[..., Column]
"""Makes a column of the columns of the arguments."""


def call(name: str, *values: Column) -> Column:
    """Return a function of Spark of columns, for which PySpark takes constants only."""
    return spark().call_function(name, *values)


By: TypeAlias = (
    Callable[[], Column]
    | Callable[[Column], Column]
    | Callable[[Column, Column], Column]
    | Callable[[Column, Column, Column], Column]
    | Callable[[Column, Column, Column, Column], Column]
    | Callable[[Column, Column, Column, Column, Column], Column]
)
"""A `Build` as a row declares it: by the number of its columns."""

Types: TypeAlias = tuple[SqlType, ...]

ByTypes: TypeAlias = (
    Callable[[Types, Column], Column]
    | Callable[[Types, Column, Column], Column]
    | Callable[[Types, Column, Column, Column], Column]
    | Callable[[Types, Column, Column, Column, Column], Column]
)


Literals: TypeAlias = "tuple[str | int | float | bool | Decimal | None, ...]"
"""The values of the arguments of a call that are literals, None for the others."""

ByLiterals: TypeAlias = Callable[[Literals, Column, Column, Column], Column]


class ByMany(Protocol):
    """A `Build` that takes any number of columns."""

    def __call__(self, *values: Column) -> Column:
        """Return the column of the function."""
        ...


UNIT: Final = SqlType("UNIT")
"""The type of a bare unit of time, as in DATEADD(DAYS, 1, d)."""

A: Final = SqlType("A")
"""A type that is chosen at the call, as B, K and V are."""
B: Final = SqlType("B")
K: Final = SqlType("K")
V: Final = SqlType("V")
VARIABLES: Final = frozenset({"A", "B", "K", "V", "K2", "V2"})
ANY_DECIMAL: Final = SqlType("DECIMAL")
"""In a signature: a DECIMAL of any numbers."""
ANY_STRUCT: Final = SqlType("STRUCT")


def spark() -> Any:
    """Return Spark's functions of columns."""
    return pyspark("sql.functions")


def each(values: Column, by: Callable[[Column], Column]) -> Column:
    """Return an array with `by` of each element."""
    return spark().transform(values, by)


def kept(values: Column, by: Callable[[Column], Column]) -> Column:
    """Return an array without the elements of which `by` is not true."""
    return spark().filter(values, by)


@dataclass(frozen=True)
class Lambda:
    """A lambda as an argument: its number of parameters, and its type for types of these."""

    parameters: int
    returns: Callable[[tuple[SqlType, ...]], SqlType]


Argument: TypeAlias = SqlType | Lambda
"""The type of an argument at a call."""


@dataclass(frozen=True)
class LambdaParameter:
    """A lambda that a function takes, in a signature."""

    parameters: tuple[SqlType, ...]
    returns: SqlType

    def __str__(self) -> str:
        """Return the signature of the lambda: (K, V) => A."""
        return f"({', '.join(map(str, self.parameters))}) => {self.returns}"


Parameter: TypeAlias = SqlType | LambdaParameter
Returns: TypeAlias = SqlType | Callable[[tuple[SqlType, ...]], SqlType]
"""The type of a result, which may be computed from those of the arguments."""


@dataclass(frozen=True)
class Signature:
    """One form of a function.

    With `variadic`, the last parameter may be there any number of times, also never. With
    `by_types`, `build` has the types of the arguments as its first argument, with `by_literals` the
    values of those that are literals.
    """

    parameters: tuple[Parameter, ...]
    returns: Returns
    build: Build = field(compare=False)
    variadic: bool = False
    by_types: bool = False
    by_literals: bool = False

    def __str__(self) -> str:
        """Return the parameters and the type of the result."""
        texts = [str(each) for each in self.parameters]
        if self.variadic:
            texts[-1] += "..."
        result = "by its arguments" if callable(self.returns) else str(self.returns)
        return f"({', '.join(texts)}) -> {result}"


Kind = Literal["SCALAR", "AGGREGATE", "TABLE"]


@dataclass(frozen=True)
class Function:
    """One row of the table of functions; `since` is the version of ksqlDB that had it first."""

    name: str
    category: str
    description: str
    since: str
    signatures: tuple[Signature, ...]
    kind: Kind = "SCALAR"


@dataclass(frozen=True)
class ResolvedFunction:
    """A function for arguments of known types: the type of its result, and its column."""

    name: str
    returns: SqlType
    column: Build = field(compare=False)
    """Takes a column for each argument; for a lambda a callable of columns."""


def made(name: str, returns: SqlType, by: By) -> ResolvedFunction:
    """Return a function whose column is `by` of the columns of its arguments."""
    return ResolvedFunction(name, returns, cast(Build, by))


@dataclass(frozen=True)
class ResolvedAggregate:
    """An aggregate for arguments of known types.

    `column` makes an aggregate of Spark. Aggregates by offset read the frame's columns that
    `POSITION` names.
    """

    name: str
    returns: SqlType
    column: Build = field(compare=False)
    has_position: bool = False
    """True when the frame needs the columns of `POSITION`."""
    limit: int | None = None
    """The most values that COLLECT_LIST or COLLECT_SET keeps, None for all."""


POSITION: Final = ("_offset", "_timestamp", "_partition")
"""The columns that order the records of a group, for COLLECT_LIST and the aggregates by offset."""


def row(name: str, category: str, since: str, description: str, *signatures: Signature) -> Function:
    """Return the row of a scalar function."""
    return Function(name, category, description, since, signatures)


def takes(*parameters: Parameter, to: Returns, by: By) -> Signature:
    """Return a signature whose column is `by` of the columns of the arguments."""
    return Signature(parameters, to, cast(Build, by))


def takes_types(*parameters: Parameter, to: Returns, by: ByTypes) -> Signature:
    """Return a signature whose column is `by` of the types and the columns of the arguments."""
    return Signature(parameters, to, cast(Build, by), by_types=True)


def takes_literals(*parameters: Parameter, to: Returns, by: ByLiterals) -> Signature:
    """Return a signature whose column is `by` of the literals and the columns of the arguments."""
    return Signature(parameters, to, cast(Build, by), by_literals=True)


def takes_many(*parameters: Parameter, to: Returns, by: ByMany) -> Signature:
    """Return a signature whose last parameter repeats."""
    return Signature(parameters, to, by, variadic=True)


def first(types: tuple[SqlType, ...]) -> SqlType:
    """Return the type of the first argument."""
    return types[0] if types else NULL
