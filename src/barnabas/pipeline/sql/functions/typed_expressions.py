"""Expressions of the parser with their types, and their columns of Spark.

`typed` reads an expression once, without Spark, and gives its type; `column` of the result makes
its column. A `Scope` knows the types of the names; the columns of the names are given at the end:

    found = typed(item.expression, scope)
    found.type
    found.column(lambda name: F.col(...))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from sqlglot import expressions as exp

from barnabas.pipeline.sql.functions import operators
from barnabas.pipeline.sql.functions.casts import check_cast, parsed_timestamp
from barnabas.pipeline.sql.functions.function_values import UNIT, Lambda, spark
from barnabas.pipeline.sql.functions.literals import (
    Names,
    TypedExpression,
    common_list,
    literal,
    number,
)
from barnabas.pipeline.sql.functions.map_entries import map_of_entries
from barnabas.pipeline.sql.functions.operators import operation
from barnabas.pipeline.sql.functions.resolution import scalar, takes_unit
from barnabas.pipeline.sql.functions.units import UNITS
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError
from barnabas.pipeline.sql.sql_types import (
    BIGINT,
    BOOLEAN,
    NULL,
    STRING,
    SqlType,
    array,
    map_of,
    resolved,
    struct,
    to_spark,
    wider,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.pipeline.sql.functions.function_values import (
        Argument,
        Column,
        Literals,
        ResolvedFunction,
    )


class Scope(Protocol):
    """The names that an expression may use."""

    def type_of(self, column: exp.Column) -> SqlType:
        """Return the type of a column. Raises UnresolvedError for an unknown name."""
        ...

    @property
    def declared(self) -> Mapping[str, SqlType]:
        """The types of CREATE TYPE, by their names."""
        ...


@dataclass(frozen=True)
class _LambdaScope:
    """The names outside a lambda, and its parameters."""

    outer: Scope
    parameters: Mapping[str, SqlType]

    def type_of(self, column: exp.Column) -> SqlType:
        if not column.table and column.name in self.parameters:
            return self.parameters[column.name]
        return self.outer.type_of(column)

    @property
    def declared(self) -> Mapping[str, SqlType]:
        return self.outer.declared


def typed(node: exp.Expr, scope: Scope) -> TypedExpression:
    """Return an expression with its type.

    Raises SqlError, with the line and the column in the statement, where it is wrong.
    """
    try:
        return _typed(node, scope)
    except UnresolvedError as error:
        raise SqlError(str(error), *position_of(node)) from None


def position_of(node: exp.Expr) -> tuple[int, int]:
    """Return the line and the column of an expression's first name, from 1."""
    places = [each.meta for each in node.walk() if "line" in each.meta]
    found = ((at["line"], at["col"] - at["end"] + at["start"]) for at in places)
    return min(found, default=(1, 1))


def _typed(node: exp.Expr, scope: Scope) -> TypedExpression:
    for kind in type(node).__mro__:
        if kind in _READERS:
            return _READERS[kind](node, scope)
    raise UnresolvedError(f"This expression is not supported: {node.sql()}")


def _column(node: exp.Expr, scope: Scope) -> TypedExpression:
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        raise UnresolvedError("* stands for columns, and not for a value")
    return TypedExpression(scope.type_of(node), lambda names: names(node))


def _literal(node: exp.Expr, scope: Scope) -> TypedExpression:
    return literal(node.name if node.is_string else number(node.name))


_OF_NULL: Final = ("AND", "OR", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
"""Operators that take the word NULL."""


def _null(node: exp.Expr, scope: Scope) -> TypedExpression:
    return TypedExpression(NULL, lambda names: spark().lit(None))


def _boolean(node: exp.Expr, scope: Scope) -> TypedExpression:
    return literal(bool(node.this))


def _applied(found: ResolvedFunction, *operands: TypedExpression) -> TypedExpression:
    return TypedExpression(
        found.returns, lambda names: found.column(*(each.column(names) for each in operands))
    )


def _operator(node: exp.Expr, scope: Scope) -> TypedExpression:
    operands = _with_times(typed(node.this, scope), typed(node.expression, scope), node)
    sign = _SIGNS[type(node)]
    if sign not in _OF_NULL and any(each.type == NULL for each in operands):
        raise UnresolvedError(
            f"The operator {sign} takes no NULL: use IS NULL, or CAST(NULL AS ..) for a value"
        )
    return _applied(operation(sign, *(each.type for each in operands)), *operands)


def _with_times(
    one: TypedExpression, other: TypedExpression, node: exp.Expr
) -> list[TypedExpression]:
    """Return operands of which a text beside ROWTIME or a window's bound is milliseconds."""
    operands = [one, other]
    for at, side in enumerate((node.this, node.args.get("expression"))):
        if isinstance(side, exp.Column) and side.name in _TIMES:
            text = operands[1 - at]
            if isinstance(text.literal, str):
                operands[1 - at] = _milliseconds(text)
    return operands


def _milliseconds(text: TypedExpression) -> TypedExpression:
    return TypedExpression(
        BIGINT, lambda names: spark().unix_millis(parsed_timestamp(text.column(names)))
    )


def _not(node: exp.Expr, scope: Scope) -> TypedExpression:
    value = typed(node.this, scope)
    return _applied(operation("NOT", value.type), value)


def _negated(node: exp.Expr, scope: Scope) -> TypedExpression:
    value = typed(node.this, scope)
    if value.literal is not None and not isinstance(value.literal, str | bool):
        return literal(-value.literal)
    return _applied(operation("NEGATE", value.type), value)


def _inside(node: exp.Expr, scope: Scope) -> TypedExpression:
    return typed(node.this, scope)


def _is(node: exp.Expr, scope: Scope) -> TypedExpression:
    if not isinstance(node.expression, exp.Null):
        raise UnresolvedError("IS is followed by [NOT] NULL or by [NOT] DISTINCT FROM")
    value = typed(node.this, scope)
    return TypedExpression(BOOLEAN, lambda names: value.column(names).isNull())


def _in(node: exp.Expr, scope: Scope) -> TypedExpression:
    wanted = [typed(each, scope) for each in node.expressions]
    if not wanted:
        raise UnresolvedError("IN is followed by a list of at least one value: IN (1, 2)")
    _, (value, *candidates) = common_list([typed(node.this, scope), *wanted])
    return _any([_compared("=", value, each) for each in candidates])


def _between(node: exp.Expr, scope: Scope) -> TypedExpression:
    value, low, high = (typed(node.args[name], scope) for name in ("this", "low", "high"))
    _, low = _with_times(value, low, node)
    _, high = _with_times(value, high, node)
    bounds = [_compared(">=", value, low), _compared("<=", value, high)]
    return _applied(operation("AND", BOOLEAN, BOOLEAN), *bounds)


def _compared(sign: str, one: TypedExpression, other: TypedExpression) -> TypedExpression:
    return _applied(operation(sign, one.type, other.type), one, other)


def _any(conditions: Sequence[TypedExpression]) -> TypedExpression:
    either = operation("OR", BOOLEAN, BOOLEAN)
    return reduce(lambda one, other: _applied(either, one, other), conditions)


def _like(node: exp.Expr, scope: Scope, escape: str | None = None) -> TypedExpression:
    value, pattern = typed(node.this, scope), typed(node.expression, scope)
    found = _applied(operators.like(value.type, pattern.type, escape), value, pattern)
    return _applied(operation("NOT", BOOLEAN), found) if node.args.get("negate") else found


def _escape(node: exp.Expr, scope: Scope) -> TypedExpression:
    return _like(node.this, scope, node.expression.name)


def _case(node: exp.Expr, scope: Scope) -> TypedExpression:
    subject = typed(node.this, scope) if node.this else None
    conditions: list[TypedExpression] = []
    for branch in node.args["ifs"]:
        condition = typed(branch.this, scope)
        if subject is not None:
            condition = _compared("=", subject, condition)
        elif condition.type not in (BOOLEAN, NULL):
            raise UnresolvedError(f"WHEN takes a BOOLEAN, and not {condition.type}")
        conditions.append(condition)
    default = node.args.get("default")
    results = [typed(branch.args["true"], scope) for branch in node.args["ifs"]]
    results += [typed(default, scope)] if default else []
    common = reduce(_case_type, (each.type for each in results))
    results = [each.converted(common) for each in results]

    def column(names: Names) -> Column:
        found: Any = spark()
        for condition, result in zip(conditions, results, strict=False):
            found = found.when(condition.column(names), result.column(names))
        return found.otherwise(results[-1].column(names)) if default else found

    return TypedExpression(common, column)


def _case_type(one: SqlType, other: SqlType) -> SqlType:
    common = wider(one, other)
    if common is None:
        raise UnresolvedError(
            f"The results of a CASE have one type, but these have {one} and {other}"
        )
    return common


def _cast(node: exp.Expr, scope: Scope) -> TypedExpression:
    value = typed(node.this, scope)
    to = resolved(node.args["to"].this, scope.declared)
    check_cast(value.type, to)
    return value.converted(to)


def _subscript(node: exp.Expr, scope: Scope) -> TypedExpression:
    operands = [typed(node.this, scope), typed(node.expressions[0], scope)]
    return _applied(operation("[]", *(each.type for each in operands)), *operands)


def _field(node: exp.Expr, scope: Scope) -> TypedExpression:
    if isinstance(node.expression, exp.Star):
        raise UnresolvedError("->* stands for columns, and not for a value")
    value = typed(node.this, scope)
    return _applied(operators.field(value.type, node.expression.name), value)


def _array(node: exp.Expr, scope: Scope) -> TypedExpression:
    kind, elements = common_list([typed(each, scope) for each in node.expressions])
    if kind == NULL:
        raise UnresolvedError("An ARRAY needs an element that is not NULL; use CAST for its type")
    return TypedExpression(
        array(kind), lambda names: spark().array(*(each.column(names) for each in elements))
    )


def _struct(node: exp.Expr, scope: Scope) -> TypedExpression:
    pairs = _pairs(node) if node.expressions else []
    fields = [(pair.this.name, typed(pair.expression, scope)) for pair in pairs]
    if len({name for name, _ in fields}) < len(fields):
        raise UnresolvedError("A field is twice in STRUCT")

    def column(names: Names) -> Column:
        return spark().struct(
            *(each.column(names).cast(to_spark(each.type)).alias(name) for name, each in fields)
        )

    return TypedExpression(struct((name, each.type) for name, each in fields), column)


def _map(node: exp.Expr, scope: Scope) -> TypedExpression:
    pairs = _pairs(node)
    key, keys = common_list([typed(_key(pair.this), scope) for pair in pairs])
    kind, values = common_list([typed(pair.expression, scope) for pair in pairs])
    if NULL in (key, kind):
        raise UnresolvedError("A MAP needs a key and a value that are not NULL; use CAST")

    def column(names: Names) -> Column:
        entries = [
            spark().struct(_map_key(one, names).alias("key"), other.column(names).alias("value"))
            for one, other in zip(keys, values, strict=True)
        ]
        return map_of_entries(spark().array(*entries))

    return TypedExpression(map_of(key, kind), column)


def _map_key(key: TypedExpression, names: Names) -> Column:
    """Return the key of an entry; a text that is NULL is the text null, as in ksqlDB."""
    found = key.column(names)
    return spark().coalesce(found, spark().lit("null")) if key.type == STRING else found


def _key(node: exp.Expr) -> exp.Expr:
    """Return the key of a pair, of which the parser makes a name where it is a column."""
    return exp.Column(this=node) if isinstance(node, exp.Identifier) else node


def _pairs(node: exp.Expr) -> list[exp.Expr]:
    pairs: list[exp.Expr] = [each for each in node.expressions if isinstance(each, exp.PropertyEQ)]
    if len(pairs) < len(node.expressions) or not pairs:
        raise UnresolvedError(f"{node.name} takes pairs, as in {node.name}(a := 1)")
    return pairs


@dataclass
class _LambdaArgument:
    """A lambda at a call, whose body has a type as soon as those of its parameters are known."""

    node: exp.Expr
    scope: Scope
    body: TypedExpression | None = None

    @property
    def parameters(self) -> list[str]:
        return [each.name for each in self.node.expressions]

    def returns(self, types: tuple[SqlType, ...]) -> SqlType:
        inner = _LambdaScope(self.scope, dict(zip(self.parameters, types, strict=True)))
        self.body = typed(self.node.this, inner)
        return self.body.type

    def column(self, names: Names) -> Callable[..., Column]:
        body, parameters = self.body, self.parameters
        if body is None:
            raise UnresolvedError("The function takes no lambda here")

        def function(columns: Sequence[Column]) -> Column:
            given = dict(zip(parameters, columns, strict=True))
            return body.column(
                lambda name: (
                    given[name.name] if not name.table and name.name in given else names(name)
                )
            )

        return lambda *columns: function(columns)


@dataclass(frozen=True)
class _Unit:
    """A unit of time at a call."""

    name: str

    def column(self, names: Names) -> Column:
        return self.name


_Value: TypeAlias = TypedExpression | _LambdaArgument | _Unit


def _call(node: exp.Expr, scope: Scope) -> TypedExpression:
    name = node.name
    if name in _CONSTRUCTORS:
        return _CONSTRUCTORS[name](node, scope)
    types: list[Argument] = []
    values: list[_Value] = []
    for index, argument in enumerate(node.expressions):
        if isinstance(argument, exp.Lambda):
            given = _LambdaArgument(argument, scope)
            types.append(Lambda(len(given.parameters), given.returns))
            values.append(given)
        elif index == 0 and argument.name in UNITS and takes_unit(name):
            types.append(UNIT)
            values.append(_Unit(argument.name))
        else:
            value = typed(argument, scope)
            types.append(value.type)
            values.append(value)
    found, fitted = _fitted_call(name, types, values)
    return TypedExpression(
        found.returns, lambda names: found.column(*(each.column(names) for each in fitted))
    )


def _fitted_call(
    name: str, types: list[Argument], values: list[_Value]
) -> tuple[ResolvedFunction, Sequence[_Value]]:
    """Return the function and its arguments: literals follow the others if nothing else fits."""
    try:
        return scalar(name, types, _literals(values)), values
    except UnresolvedError:
        plain = [each for each in values if isinstance(each, TypedExpression)]
        if len(plain) < len(values) or all(each.literal is None for each in plain):
            raise
    _, fitted = common_list(plain)
    return scalar(name, [each.type for each in fitted], _literals(fitted)), fitted


def _literals(values: Sequence[_Value]) -> Literals:
    return tuple(each.literal if isinstance(each, TypedExpression) else None for each in values)


_Reader: TypeAlias = Callable[[exp.Expr, Scope], TypedExpression]
_TIMES: Final = ("ROWTIME", "WINDOWSTART", "WINDOWEND")
_CONSTRUCTORS: Final[dict[str, _Reader]] = {"STRUCT": _struct, "MAP": _map}
_SIGNS: Final[dict[type[exp.Expr], str]] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.And: "AND",
    exp.Or: "OR",
}
_READERS: Final[dict[type, _Reader]] = {
    **dict.fromkeys(_SIGNS, _operator),
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Null: _null,
    exp.Boolean: _boolean,
    exp.Paren: _inside,
    exp.Not: _not,
    exp.Neg: _negated,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like,
    exp.Escape: _escape,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.Bracket: _subscript,
    exp.Dot: _field,
    exp.Array: _array,
    exp.Anonymous: _call,
}
