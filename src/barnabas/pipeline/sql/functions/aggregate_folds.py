"""Aggregates as functions in Python, for what Spark's aggregation does not have.

Sessions need `merge`, and a table's groups need `undo`: `GroupedStream.fold` and
`GroupedTable.fold` take them. The functions take and return values of Python, structs as
dictionaries; the result is a column of the state. Records come in their order, so nothing here
needs their positions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from barnabas.pipeline.sql.functions.aggregate_functions import DISTINCT_MAX
from barnabas.pipeline.sql.functions.function_values import spark
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.sql_types import (
    BIGINT,
    DOUBLE,
    STRING,
    SqlType,
    array,
    map_of,
    struct,
)

if TYPE_CHECKING:
    from barnabas.pipeline.sql.functions.function_values import Column

Values = Sequence[Any]
"""The arguments of an aggregate in one record."""

_SUMS: Final = struct(
    [("n", BIGINT), ("x", DOUBLE), ("y", DOUBLE), ("xx", DOUBLE), ("yy", DOUBLE), ("xy", DOUBLE)]
)
_BITS: Final = {"INTEGER": 32, "BIGINT": 64}


@dataclass(frozen=True)
class FoldForm:
    """One aggregate: its first state, and the functions of a state.

    `undo` takes out a value that was added; it is None where that cannot be done, as for MAX.
    """

    state: SqlType
    initial: Any
    add: Callable[[Any, Values], Any]
    merge: Callable[[Any, Any], Any]
    result: Callable[[Column], Column]
    """Makes the column of the result of that of the state."""
    undo: Callable[[Any, Values], Any] | None = None


def fold_form(
    name: str, types: Sequence[SqlType], returns: SqlType, limit: int | None = None
) -> FoldForm:
    """Return the form of an aggregate of arguments of these types.

    `limit` is the most values that COLLECT_LIST or COLLECT_SET keeps.

    Raises UnresolvedError for an aggregate that has none.
    """
    if name in _SIMPLE:
        return _SIMPLE[name]
    if name == "SUM":
        return _sum(returns)
    if name in ("MIN", "MAX"):
        return _extreme(min if name == "MIN" else max, returns)
    if name in ("COLLECT_LIST", "COLLECT_SET"):
        return _collected(returns, limit, is_set=name == "COLLECT_SET")
    if name == "ATTR":
        values = _collected(array(returns), None, is_set=False)
        return replace(values, result=_only_value)
    if name == "SUM_LIST":
        return _sum_list(returns)
    if name in ("TOPK", "TOPKDISTINCT"):
        rows = len(types) > 2
        return _top_rows(returns) if rows else _top(returns, is_set=name == "TOPKDISTINCT")
    if name in ("EARLIEST_BY_OFFSET", "LATEST_BY_OFFSET"):
        return _by_offset(types, returns, is_latest=name == "LATEST_BY_OFFSET")
    raise UnresolvedError(f"{name} is not supported in session windows and over tables")


def _wrapped(value: Any, returns: SqlType) -> Any:
    bits = _BITS.get(returns.name)
    if bits is None:
        return value
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def _sum(returns: SqlType) -> FoldForm:
    def add(state: Any, values: Values) -> Any:
        return state if values[0] is None else _wrapped(state + values[0], returns)

    def undo(state: Any, values: Values) -> Any:
        return state if values[0] is None else _wrapped(state - values[0], returns)

    def merge(one: Any, other: Any) -> Any:
        return _wrapped(one + other, returns)

    initial = 0.0 if returns == DOUBLE else 0
    return FoldForm(returns, initial, add, merge, _itself, undo)


def _sum_list(returns: SqlType) -> FoldForm:
    """Return the sum of the elements of arrays."""

    def total(values: Values) -> Any:
        elements: Sequence[Any] = values[0] or ()
        return sum(each for each in elements if each is not None)

    def add(state: Any, values: Values) -> Any:
        return _wrapped(state + total(values), returns)

    def undo(state: Any, values: Values) -> Any:
        return _wrapped(state - total(values), returns)

    return replace(_sum(returns), add=add, undo=undo)


def _itself(state: Any) -> Any:
    return state


def _counts(values: Values) -> int:
    return int(not values or values[0] is not None)


def _order(kind: SqlType) -> Callable[[Any], Any]:
    """Return what sorts values: dates and timestamps, which are texts, by their years first."""
    if kind.name not in ("DATE", "TIMESTAMP"):
        return _itself

    def order(text: str) -> tuple[int, str]:
        sign = text[:1] if text[:1] in ("+", "-") else ""
        year, _, rest = text.removeprefix(sign).partition("-")
        return int(sign + year), rest

    return order


def _extreme(choose: Callable[..., Any], returns: SqlType) -> FoldForm:
    order = _order(returns)

    def merge(one: Any, other: Any) -> Any:
        there = [each for each in (one, other) if each is not None]
        return choose(there, key=order) if there else None

    return FoldForm(returns, None, lambda state, values: merge(state, values[0]), merge, _itself)


def _collected(returns: SqlType, limit: int | None, *, is_set: bool) -> FoldForm:
    def merge(one: list[Any], other: list[Any]) -> list[Any]:
        return [*one, *(each for each in other if not is_set or each not in one)][:limit]

    def undo(state: list[Any], values: Values) -> list[Any]:
        """Take out the last value that is equal."""
        places = [at for at, each in enumerate(state) if each == values[0]]
        return [each for at, each in enumerate(state) if not places or at != places[-1]]

    return FoldForm(
        returns,
        [],
        lambda state, values: merge(state, [values[0]]),
        merge,
        _itself,
        None if is_set else undo,
    )


def _only_value(values: Column) -> Column:
    f = spark()
    return f.when(f.size(f.array_distinct(values)) == 1, f.try_element_at(values, f.lit(1)))


def _top(returns: SqlType, *, is_set: bool) -> FoldForm:
    """Return TOPK, whose state begins with the number of values that it keeps."""
    state_type = struct([("k", BIGINT), ("values", returns)])
    order = _order(returns.element)

    def kept(number: int, values: list[Any]) -> dict[str, Any]:
        different = {repr(each): each for each in values}.values() if is_set else values
        return {"k": number, "values": sorted(different, key=order, reverse=True)[:number]}

    def add(state: Mapping[str, Any], values: Values) -> dict[str, Any]:
        new = [] if values[0] is None else [values[0]]
        return kept(values[1], [*state["values"], *new])

    def merge(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
        return kept(max(one["k"], other["k"]), [*one["values"], *other["values"]])

    initial: dict[str, Any] = {"k": 0, "values": []}
    return FoldForm(state_type, initial, add, merge, lambda state: state["values"])


def _top_rows(returns: SqlType) -> FoldForm:
    """Return TOPK of several columns: the structs with the largest first columns."""
    names = [name for name, _ in returns.element.fields]
    order = _order(returns.element.fields[0][1])
    state_type = struct([("k", BIGINT), ("values", returns)])

    def kept(number: int, rows: list[Any]) -> dict[str, Any]:
        found = sorted(rows, key=lambda row: order(row[names[0]]), reverse=True)
        return {"k": number, "values": found[:number]}

    def add(state: Mapping[str, Any], values: Values) -> dict[str, Any]:
        *columns, number = values
        new = [] if columns[0] is None else [dict(zip(names, columns, strict=True))]
        return kept(number, [*state["values"], *new])

    def merge(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
        return kept(max(one["k"], other["k"]), [*one["values"], *other["values"]])

    initial: dict[str, Any] = {"k": 0, "values": []}
    return FoldForm(state_type, initial, add, merge, lambda state: state["values"])


def _by_offset(types: Sequence[SqlType], returns: SqlType, *, is_latest: bool) -> FoldForm:
    """Return an aggregate of the first or the last values; its state is the list of them."""
    has_number = len(types) > 1 and types[1].is_number
    state_type = struct([("k", BIGINT), ("values", returns if has_number else array(types[0]))])

    def kept(number: int, values: list[Any]) -> dict[str, Any]:
        size = min(number, len(values))
        return {"k": number, "values": values[len(values) - size :] if is_latest else values[:size]}

    def add(state: Mapping[str, Any], values: Values) -> dict[str, Any]:
        ignores = values[-1] if len(values) > 1 and isinstance(values[-1], bool) else True
        new = [] if values[0] is None and ignores else [values[0]]
        return kept(values[1] if has_number else 1, [*state["values"], *new])

    def merge(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
        return kept(max(one["k"], other["k"]), [*one["values"], *other["values"]])

    def result(state: Column) -> Column:
        values = state["values"]
        return values if has_number else spark().try_element_at(values, spark().lit(1))

    initial: dict[str, Any] = {"k": 0, "values": []}
    return FoldForm(state_type, initial, add, merge, result)


def _pairs(sign: int) -> Callable[[Mapping[str, Any], Values], Mapping[str, Any]]:
    """Return the function that adds the numbers of a record to sums, or takes them out."""

    def changed(state: Mapping[str, Any], values: Values) -> Mapping[str, Any]:
        if any(each is None for each in values):
            return state
        x, y = float(values[0]), float(values[-1])
        new = {"n": 1, "x": x, "y": y, "xx": x * x, "yy": y * y, "xy": x * y}
        return {name: state[name] + sign * number for name, number in new.items()}

    return changed


def _merged_sums(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {name: number + other[name] for name, number in one.items()}


def _mean(state: Column) -> Column:
    return spark().when(state["n"] > 0, state["x"] / state["n"]).otherwise(0.0)


def _spread(state: Column) -> Column:
    """Return the sample variance, 0 of less than two values."""
    n = state["n"]
    square = spark().greatest(_squares(state, "x"), spark().lit(0.0))
    return spark().when(n > 1, square / (n - 1)).otherwise(0.0)


def _squares(state: Column, name: str) -> Column:
    """Return the sum of the squares of the distances from the mean."""
    return state[f"{name}{name}"] - state[name] * state[name] / state["n"]


def _correlated(state: Column) -> Column:
    both = _squares(state, "x") * _squares(state, "y")
    common = state["xy"] - state["x"] * state["y"] / state["n"]
    is_one = (state["n"] > 1) & (both > 0)
    return spark().when(is_one, common / spark().sqrt(both)).otherwise(float("nan"))


def _deviation(state: Column) -> Column:
    return spark().sqrt(_spread(state))


def _sums(result: Callable[[Column], Column]) -> FoldForm:
    initial = {"n": 0, "x": 0.0, "y": 0.0, "xx": 0.0, "yy": 0.0, "xy": 0.0}
    return FoldForm(_SUMS, initial, _pairs(1), _merged_sums, result, _pairs(-1))


def _add_one(state: int, values: Values) -> int:
    return state + _counts(values)


def _take_one(state: int, values: Values) -> int:
    return state - _counts(values)


def _count_text(state: Mapping[str, int], values: Values) -> dict[str, int]:
    """Return a histogram with one more text; a new one is left out when there are too many."""
    text = values[0]
    if text is None or (text not in state and len(state) >= DISTINCT_MAX):
        return dict(state)
    return {**state, text: state.get(text, 0) + 1}


def _uncount_text(state: Mapping[str, int], values: Values) -> dict[str, int]:
    found = {**state, values[0]: state.get(values[0], 0) - 1}
    return {text: number for text, number in found.items() if number > 0}


def _merged_texts(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    found = dict(one)
    for text, number in other.items():
        if text in found or len(found) < DISTINCT_MAX:
            found[text] = found.get(text, 0) + number
    return found


_SIMPLE: Final[Mapping[str, FoldForm]] = {
    "COUNT": FoldForm(BIGINT, 0, _add_one, operator.add, _itself, _take_one),
    "AVG": _sums(_mean),
    "STDDEV_SAMP": _sums(_spread),
    "STDDEV_SAMPLE": _sums(_deviation),
    "CORRELATION": _sums(_correlated),
    "HISTOGRAM": FoldForm(
        map_of(STRING, BIGINT), {}, _count_text, _merged_texts, _itself, _uncount_text
    ),
}
