"""The columns of a SELECT: `*` expanded, names given, key columns found."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlglot import expressions as exp

from barnabas.pipeline.sql.analysis.plan_values import JOINED
from barnabas.pipeline.sql.analysis.relations import (
    Relations,
    all_columns_of,
    column,
    columns_of,
    place_of,
)
from barnabas.pipeline.sql.catalog.source_values import RESERVED_COLUMNS, WINDOW_BOUNDS
from barnabas.pipeline.sql.functions.typed_expressions import typed
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barnabas.pipeline.sql.catalog.source_values import Source
    from barnabas.pipeline.sql.statement_values import Select, SelectItem

_NUMBERED_KEY: Final = re.compile(r"ROWKEY_(\d+)")


@dataclass(frozen=True)
class Item:
    """A column of the result: its name and its expression, in which columns name their tables."""

    name: str
    node: exp.Expr
    is_named: bool
    """True when the statement gives the name."""


def items_of(
    query: Select,
    relations: Relations,
    *,
    star: Sequence[exp.Expr] | None = None,
    with_bounds: bool = False,
) -> list[Item]:
    """Return the columns of a SELECT. `star` are those of `*` where a step has changed them.

    With `with_bounds`, `*` has the window of a source that has one, behind its key.
    Raises SqlError.
    """
    found = list(_expanded(query, relations, star, with_bounds=with_bounds))
    return _named(found, relations)


def _expanded(
    query: Select,
    relations: Relations,
    star: Sequence[exp.Expr] | None,
    *,
    with_bounds: bool,
) -> Iterator[tuple[str | None, exp.Expr, bool]]:
    for item in query.items:
        node = item.expression
        if isinstance(node, exp.Star) or (
            isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
        ):
            joined = len(relations.relations) > 1
            for each in _star(node, relations, star, with_bounds=with_bounds):
                name = _joined_name(each) if joined else None
                yield name, each, False
        elif isinstance(node, exp.Dot) and isinstance(node.expression, exp.Star):
            yield from _fields(node, relations)
        else:
            yield item.alias, _item_node(item, relations), item.alias is not None


def _joined_name(node: exp.Expr) -> str | None:
    """Return the name that `*` gives to a column of a join."""
    if not isinstance(node, exp.Column) or node.table == JOINED:
        return None
    return f"{node.table}_{node.name}"


def key_name_of(relations: Relations) -> str:
    """Return the name of a key that no column has: ROWKEY, or ROWKEY_1 .. where that is taken."""
    taken = {name for each in relations.relations for name in columns_of(each.source)}
    numbers = [int(match[1]) for name in taken if (match := _NUMBERED_KEY.fullmatch(name))]
    if "ROWKEY" not in taken and not numbers:
        return "ROWKEY"
    return f"ROWKEY_{max(numbers, default=0) + 1}"


def _item_node(item: SelectItem, relations: Relations) -> exp.Expr:
    node = item.expression
    if (
        isinstance(node, exp.Column)
        and node.name == key_name_of(relations)
        and (JOINED, "ROWKEY") in relations.made
    ):
        return column(JOINED, "ROWKEY")
    return relations.qualified(node)


def _star(
    node: exp.Expr,
    relations: Relations,
    star: Sequence[exp.Expr] | None,
    *,
    with_bounds: bool,
) -> list[exp.Expr]:
    alias = node.table if isinstance(node, exp.Column) else ""
    if not alias and star is not None:
        return list(star)
    chosen = [each for each in relations.relations if alias in ("", each.alias)]
    if not chosen:
        aliases = ", ".join(each.alias for each in relations.relations)
        raise SqlError(f"{alias} is not a source of this query, only {aliases}", *place_of(node))
    found: list[exp.Expr] = [
        column(each.alias, name)
        for each in chosen
        for name in _star_names(each.source, with_bounds=with_bounds)
    ]
    if not alias and (JOINED, "ROWKEY") in relations.made:
        return [column(JOINED, "ROWKEY"), *found]
    return found


def _star_names(source: Source, *, with_bounds: bool) -> list[str]:
    """Return the names of a source's columns for `*`, the window's bounds behind the key."""
    names = list(columns_of(source))
    if with_bounds and source.window is not None:
        names[len(source.key) : len(source.key)] = WINDOW_BOUNDS
    return names


def _fields(node: exp.Dot, relations: Relations) -> Iterator[tuple[str | None, exp.Expr, bool]]:
    inside = relations.qualified(node.this)
    kind = typed(inside, relations).type
    if kind.name != "STRUCT":
        raise SqlError(f"->* takes a STRUCT, and not {kind}", *place_of(node))
    for name, _ in kind.fields:
        part = exp.Dot(this=inside.copy(), expression=exp.Identifier(this=name, quoted=True))
        yield name, part, False


def _named(found: list[tuple[str | None, exp.Expr, bool]], relations: Relations) -> list[Item]:
    shared = _shared_names(relations)
    taken = {alias for alias, _, _ in found if alias is not None}
    taken |= {name for each in relations.relations for name in columns_of(each.source)}
    items: list[Item] = []
    numbers = (f"KSQL_COL_{index}" for index in range(len(found) + len(taken) + 1))
    # The field of a struct gets a number when a column or another field has its name.
    seen = Counter({name: 1 for each in relations.relations for name in columns_of(each.source)})
    for alias, node, is_named in found:
        name = alias
        if name is None and isinstance(node, exp.Column):
            name = key_name_of(relations) if node.table == JOINED else _column_name(node, shared)
        elif name is None and isinstance(node, exp.Dot):
            name = node.expression.name
            if seen[name]:
                name = f"{name}_{seen[name]}"
            seen[node.expression.name] += 1
        items.append(Item(name or next(n for n in numbers if n not in taken), node, is_named))
    return items


def _shared_names(relations: Relations) -> set[str]:
    """Return the names that several sources of a join have: these get the alias as a prefix."""
    counts = Counter(name for each in relations.relations for name in all_columns_of(each.source))
    return {name for name, count in counts.items() if count > 1}


def _column_name(node: exp.Column, shared: set[str]) -> str:
    return f"{node.table}_{node.name}" if node.name in shared else node.name


def check_names(items: Sequence[Item], keys: Sequence[exp.Expr], *, is_persistent: bool) -> None:
    """Raise SqlError for a name that is reserved in results, or there twice.

    A key keeps the reserved name that it was partitioned by.
    """
    seen: set[str] = set()
    for each in items:
        is_key = not each.is_named and any(same_expression(each.node, key) for key in keys)
        if is_persistent and each.name in RESERVED_COLUMNS and not is_key:
            raise SqlError(
                f"{each.name} is a reserved name: give the column another one with AS",
                *place_of(each.node),
            )
        if each.name in seen:
            raise SqlError(
                f"The column {each.name} is there twice: give one of them another name with AS",
                *place_of(each.node),
            )
        seen.add(each.name)


def key_items(items: Sequence[Item], keys: Sequence[exp.Expr], what: str) -> list[Item | None]:
    """Return the item of each key expression, None for one that the SELECT leaves out.

    Raises UnresolvedError when a key is in the SELECT twice.
    """
    found: list[Item | None] = []
    for key in keys:
        same = [each for each in items if same_expression(each.node, key)]
        if len(same) > 1:
            names = " and ".join(each.name for each in same)
            raise UnresolvedError(
                f"The SELECT has the {what} twice, as {names}: a copy for the value is "
                f"AS_VALUE({text_of(key)})"
            )
        found.append(same[0] if same else None)
    return found


def same_expression(one: exp.Expr, other: exp.Expr) -> bool:
    """True when two expressions are the same, without brackets around them."""
    return one.unnest() == other.unnest()


def text_of(node: exp.Expr) -> str:
    """Return the text of an expression, for messages."""
    return node.sql(dialect="spark").replace("`", "").replace(f"{JOINED}.", "")
