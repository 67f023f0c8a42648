"""Aggregates as folds in Python: those of sessions, of a table's groups, and others by need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from barnabas.pipeline.sql.functions.aggregate_folds import FoldForm, fold_form
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.sql_types import STRING, SqlType, struct, to_spark

if TYPE_CHECKING:
    from barnabas.pipeline.sql.analysis.plan_values import Aggregation
    from barnabas.pipeline.streams.serdes import Column

State = dict[str, Any]

_EXACT: Final = (
    *("BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "DECIMAL", "STRING", "DATE", "TIME", "TIMESTAMP"),
)
"""The types of arguments that folds combine and order as Spark's aggregation does."""
_KEPT: Final = (
    *("COLLECT_LIST", "COLLECT_SET", "EARLIEST_BY_OFFSET", "LATEST_BY_OFFSET", "SUM_LIST"),
)
"""The aggregates that take values of other types, too: they keep them, or have one type."""
_MISSING: Final = "cannot take a row out of its group, as tables need"


@dataclass(frozen=True)
class Folds:
    """All aggregates of a query as one fold, whose state is a struct with a field for each."""

    initial: State
    returns: str
    """The type of the state, as DDL."""
    add: Callable[[State, State], State]
    merge: Callable[[State, State], State]
    undo: Callable[[State, State], State]
    result: Callable[[str, Column], Column]
    """Makes the result of an aggregate, by its name, of the column of the state."""


def argument_name(aggregate: str, index: int) -> str:
    """Return the field of an argument in the values of a group."""
    return f"a{aggregate}_{index}"


def is_folded(aggregation: Aggregation, *, is_lasting: bool) -> bool:
    """True when folds make the groups of a stream better than Spark's aggregation.

    COLLECT_SET needs the order of the records, a limit bounds what a group keeps, a condition that
    may cease to be true must know the results that change, and a session may want a row for each
    record. Spark's aggregation gives none of them. Values of folds are JSON, in which BYTES have
    another order and keys of maps are texts.
    """
    needs_order = any(
        each.function.name == "COLLECT_SET" or each.function.limit is not None
        for each in aggregation.aggregates
    )
    if is_lasting and not needs_order and not aggregation.has_each_update:
        return False
    return all(
        _has_exact_fold(each.function.name, [one.type for one in each.arguments])
        for each in aggregation.aggregates
    )


def _has_exact_fold(name: str, types: Sequence[SqlType]) -> bool:
    if name in _KEPT:
        return all(map(_is_collected, types))
    if name == "TOPK":
        return types[0].name in _EXACT and all(map(_is_collected, types))
    return name == "COUNT" or all(each.name in _EXACT for each in types)


def _is_collected(kind: SqlType) -> bool:
    """True for a type that JSON, in which folds have their values, gives back as it was."""
    if kind.name == "MAP" and kind.elements[0] != STRING:
        return False
    return all(map(_is_collected, kind.inside))


def check_sets(aggregation: Aggregation) -> None:
    """Raise UnresolvedError for a set of maps, which Spark's aggregation does not have."""
    for each in aggregation.aggregates:
        types = [one.type for one in each.arguments]
        if each.function.name == "COLLECT_SET" and "MAP<" in str(types[0]):
            others = [one.function.name for one in aggregation.aggregates if one is not each]
            beside = f" beside {', '.join(others)}" if others else ""
            raise UnresolvedError(
                f"COLLECT_SET of {types[0]}{beside} is not supported: use COLLECT_SET alone, of "
                "maps with keys of STRING, or COLLECT_LIST"
            )


def folds_of(aggregation: Aggregation, *, of_table: bool) -> Folds:
    """Return the fold of a query's aggregates.

    Raises UnresolvedError for one without a fold, or without an undo where a table needs it.
    """
    forms: dict[str, FoldForm] = {}
    arguments: dict[str, list[str]] = {}
    for each in aggregation.aggregates:
        types = [one.type for one in each.arguments]
        made = each.function
        form = fold_form(made.name, types, made.returns, made.limit)
        if of_table and form.undo is None:
            raise UnresolvedError(f"{each.function.name} {_MISSING}")
        forms[each.name] = form
        arguments[each.name] = [argument_name(each.name, index) for index in range(len(types))]
    state = struct((f"s{name}", form.state) for name, form in forms.items())
    return Folds(
        {f"s{name}": form.initial for name, form in forms.items()},
        to_spark(state).simpleString(),
        _stepping(forms, arguments, is_undo=False),
        _merging(forms),
        _stepping(forms, arguments, is_undo=True),
        lambda name, value: forms[name].result(value.getField(f"s{name}")),
    )


def _stepping(
    forms: dict[str, FoldForm], arguments: dict[str, list[str]], *, is_undo: bool
) -> Callable[[State, State], State]:
    """Return the function that adds the arguments of a record to all states, or takes them out."""
    steps = {name: form.undo if is_undo else form.add for name, form in forms.items()}

    def step(state: State, value: State) -> State:
        return {
            f"s{name}": state[f"s{name}"]
            if change is None
            else change(state[f"s{name}"], [value[each] for each in arguments[name]])
            for name, change in steps.items()
        }

    return step


def _merging(forms: dict[str, FoldForm]) -> Callable[[State, State], State]:
    merges = {f"s{name}": form.merge for name, form in forms.items()}

    def merge(one: State, other: State) -> State:
        return {name: each(one[name], other[name]) for name, each in merges.items()}

    return merge
