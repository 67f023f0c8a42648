"""A whole SELECT: its clauses in the order in which they run, to a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sqlglot import expressions as exp

from barnabas.pipeline.sql.analysis import projection
from barnabas.pipeline.sql.analysis.aggregation import (
    Grouping,
    aggregating_by,
    has_aggregate,
    without_table_functions,
)
from barnabas.pipeline.sql.analysis.joined_sources import JoinedSources, joined
from barnabas.pipeline.sql.analysis.lasting_conditions import is_lasting
from barnabas.pipeline.sql.analysis.plan_values import (
    JOINED,
    ROWS,
    Aggregation,
    Having,
    NamedExpression,
    PlannedRelation,
    QueryPlan,
    TableFunction,
)
from barnabas.pipeline.sql.analysis.projection import Item
from barnabas.pipeline.sql.analysis.relations import Relations, column, place_of
from barnabas.pipeline.sql.catalog.source_values import WINDOW_BOUNDS, SourceWindow
from barnabas.pipeline.sql.functions.aggregate_properties import AggregateProperties
from barnabas.pipeline.sql.functions.typed_expressions import typed
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError
from barnabas.pipeline.sql.sql_types import BIGINT, BOOLEAN, NULL, SqlType

if TYPE_CHECKING:
    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
    from barnabas.pipeline.sql.functions.literals import TypedExpression
    from barnabas.pipeline.sql.statement_values import Place, Relation, Select, Window

_NO_PROPERTIES: Final = AggregateProperties()
_WINDOW_MS_MAX: Final = 1 << 52
"""The ends of longer windows leave the times of Spark."""


@dataclass(frozen=True)
class _Results:
    """The columns of a SELECT behind all steps, and the expressions of the key."""

    items: Sequence[Item]
    nodes: Sequence[exp.Expr]
    """The expressions of the items, over what the steps have made."""
    scope: Relations
    keys: Sequence[exp.Expr]
    """The key as it was written, of which the items have one or all."""
    key_types: Sequence[TypedExpression]
    what: str
    table_functions: Sequence[TableFunction] = ()
    aggregation: Aggregation | None = None
    having: Having | None = None
    takes_any: bool = False
    """True when any one of `keys` is the key: the sides of joins."""


def plan_of(
    query: Select,
    catalog: Catalog,
    *,
    is_persistent: bool,
    properties: AggregateProperties | None = None,
) -> QueryPlan:
    """Return the plan of a query. Raises SqlError.

    The result of a persistent query has the key among its columns. In others aggregates without
    GROUP BY have all rows as one group, with EMIT CHANGES. `properties` are those of its session.
    """
    try:
        return _plan_of(query, catalog, properties or _NO_PROPERTIES, is_persistent=is_persistent)
    except RecursionError:  # operators in a row nest as brackets do, and are parsed in a loop
        raise SqlError(
            "An expression of the query has too many operators; divide it", *query.source.at
        ) from None


def _plan_of(
    query: Select, catalog: Catalog, properties: AggregateProperties, *, is_persistent: bool
) -> QueryPlan:
    if not is_persistent and query.emit == "CHANGES" and _is_one_group(query):
        query = replace(query, group_by=(exp.Literal.number(0),))
    source = _relation(query.source, catalog)
    others = [(each, _relation(each.relation, catalog)) for each in query.joins]
    relations = _relations(query, catalog, [source, *(right for _, right in others)])
    joins = joined(relations, tuple(others)) if others else JoinedSources((), ())
    relations = _with_made(query, relations, joins)
    where = (
        None if query.where is None else _condition(query.where, _before_groups(relations), "WHERE")
    )
    is_table = source.source.is_table
    _check_clauses(query, is_table=is_table)
    if is_persistent and is_table and source.source.window is not None:
        raise SqlError(
            f"{source.source.name} is a table with windows, of which a query that continues makes "
            "no other: declare its topic as a stream, or SELECT from it without CREATE",
            *query.source.at,
        )
    if is_persistent and query.limit is not None:
        raise SqlError("LIMIT is not for a query that continues: leave it out", *query.source.at)
    if query.group_by:
        results = _grouped(query, relations)
    else:
        with_bounds = not is_persistent or bool(joins.joins)
        results = _plain(query, relations, source, joins, with_bounds=with_bounds)
    projection.check_names(results.items, results.keys, is_persistent=is_persistent)
    key, value = _key_and_value(results, is_persistent=is_persistent)
    return QueryPlan(
        "TABLE" if is_table or query.group_by else "STREAM",
        source,
        joins.joins,
        where,
        tuple(results.table_functions),
        results.aggregation and aggregating_by(results.aggregation, properties),
        results.having,
        key,
        value,
        tuple(each.name for each in results.items),
        bool(query.partition_by),
        _window(query, source),
        query.emit,
        query.limit,
    )


def _relation(written: Relation, catalog: Catalog) -> PlannedRelation:
    try:
        return PlannedRelation(written.alias, catalog.source(written.source))
    except UnresolvedError as error:
        raise SqlError(str(error), *written.at) from None


def _relations(query: Select, catalog: Catalog, found: Sequence[PlannedRelation]) -> Relations:
    aliases = [each.alias for each in found]
    for each in aliases:
        if aliases.count(each) > 1:
            raise SqlError(
                f"{each} is read twice: give each an alias, as in FROM {each} a JOIN {each} b",
                *query.source.at,
            )
    return Relations(found, catalog.types)


def _with_made(query: Select, relations: Relations, joins: JoinedSources) -> Relations:
    made: dict[tuple[str, str], SqlType] = {}
    if query.window is not None and query.group_by:
        made |= {("", name): BIGINT for name in WINDOW_BOUNDS}
    if joins.is_synthetic:
        made[JOINED, "ROWKEY"] = joins.joins[-1].left_key.type
    return replace(relations, made=made)


def _before_groups(relations: Relations) -> Relations:
    """Return the names that WHERE knows: GROUP BY makes the windows after it."""
    made = {key: kind for key, kind in relations.made.items() if key[0]}
    return replace(relations, made=made, clause="WHERE")


def _is_one_group(query: Select) -> bool:
    if query.group_by or query.having is not None or query.window is not None:
        return False
    return any(has_aggregate(each.expression) for each in query.items)


def _check_clauses(query: Select, *, is_table: bool) -> None:
    nodes = [each.expression for each in query.items]
    if not query.group_by:
        for node in nodes:
            if has_aggregate(node):
                raise SqlError("An aggregate needs GROUP BY", *place_of(node))
        if query.having is not None:
            raise SqlError("HAVING needs GROUP BY", *place_of(query.having))
        if query.window is not None:
            raise SqlError("WINDOW needs GROUP BY", *query.source.at)
    for clause, given in (("WHERE", [query.where]), ("GROUP BY", query.group_by)):
        for node in given:
            if node is not None and has_aggregate(node):
                raise SqlError(f"{clause} takes no aggregate: use HAVING", *place_of(node))
    if query.partition_by and (is_table or query.group_by):
        raise SqlError(
            "PARTITION BY is for streams: a table is grouped, with GROUP BY",
            *place_of(query.partition_by[0]),
        )
    if query.window is not None:
        _check_window(query.window, query.source.at)
    if query.window is not None and is_table:
        raise SqlError("WINDOW is for streams, and the source is a table", *query.source.at)
    if query.emit == "FINAL" and query.window is None:
        raise SqlError("EMIT FINAL is for aggregates with WINDOW", *query.source.at)


def _check_window(window: Window, place: Place) -> None:
    size, advance = window.size.ms, window.advance
    if not 0 < size <= _WINDOW_MS_MAX:
        length = f"a window has 1 to {_WINDOW_MS_MAX} ms, and this one {size}"
        raise SqlError(f"The length of the window does not fit: {length}", *place)
    if advance is not None and not 0 < advance.ms <= size:
        raise SqlError(
            f"Windows of {size} ms cannot start every {advance.ms} ms: ADVANCE BY is above 0, and "
            "at most SIZE",
            *place,
        )


def _condition(node: exp.Expr, relations: Relations, clause: str) -> TypedExpression:
    found = typed(relations.qualified(node), relations)
    if found.type not in (BOOLEAN, NULL):
        raise SqlError(f"{clause} is a BOOLEAN, and this one {found.type}", *place_of(node))
    return found


def _grouped(query: Select, relations: Relations) -> _Results:
    group = [relations.qualified(each) for each in query.group_by]
    types = [typed(each, relations) for each in group]
    items = projection.items_of(query, relations)
    grouping = Grouping(relations, group, query.window)
    nodes = [grouping.rewritten(each.node) for each in items]
    condition = None
    if query.having is not None:
        condition = grouping.rewritten(relations.qualified(query.having))
    if not grouping.aggregates:
        raise SqlError(
            "GROUP BY needs an aggregate in SELECT or HAVING, such as COUNT(*)",
            *place_of(query.group_by[0]),
        )
    scope = grouping.scope([each.type for each in types])
    _, functions = without_table_functions([each.node for each in items], relations)
    if functions:
        raise SqlError("Table functions are not for GROUP BY", *place_of(query.items[0].expression))
    having = None if condition is None else _having(condition, grouping, scope)
    return _Results(
        items, nodes, scope, group, types, "grouping", (), grouping.planned(types), having
    )


def _having(node: exp.Expr, grouping: Grouping, scope: Relations) -> Having:
    found = typed(node, scope)
    if found.type not in (BOOLEAN, NULL):
        raise SqlError(f"HAVING is a BOOLEAN, and this one {found.type}", 1, 1)
    functions = {each.name: each.function.name for each in grouping.aggregates}
    return Having(found, is_lasting(node, functions))


def _plain(
    query: Select,
    relations: Relations,
    source: PlannedRelation,
    joins: JoinedSources,
    *,
    with_bounds: bool,
) -> _Results:
    keys, what = _keys(query, relations, source, joins)
    types = [typed(each, relations) for each in keys]
    star = _partition_star(keys, relations) if query.partition_by else None
    items = projection.items_of(query, relations, star=star, with_bounds=with_bounds)
    nodes, functions = without_table_functions([each.node for each in items], relations)
    if functions and source.source.is_table:
        raise SqlError(
            "Table functions are for streams, and the source is a table",
            *place_of(query.items[0].expression),
        )
    made = {(ROWS, each.name): each.function.returns for each in functions}
    scope = replace(relations, made={**relations.made, **made})
    by_foreign_key = bool(joins.joins) and joins.joins[-1].by_foreign_key
    takes_any = bool(joins.joins) and not query.partition_by and not by_foreign_key
    return _Results(items, nodes, scope, keys, types, what, functions, takes_any=takes_any)


def _keys(
    query: Select, relations: Relations, source: PlannedRelation, joins: JoinedSources
) -> tuple[list[exp.Expr], str]:
    if query.partition_by:
        found = [relations.qualified(each).unnest() for each in query.partition_by]
        if source.source.window is not None:
            raise SqlError(
                "PARTITION BY is not for a source with windows", *place_of(query.partition_by[0])
            )
        if len(found) == 1 and isinstance(found[0], exp.Null):
            return [], "partitioning"
        if any(isinstance(each, exp.Null) for each in found):
            raise SqlError("PARTITION BY takes NULL alone", *place_of(query.partition_by[0]))
        return found, "partitioning"
    if joins.joins:
        return list(joins.keys), "join"
    return [column(source.alias, each.name) for each in source.source.key], "key"


def _partition_star(keys: Sequence[exp.Expr], relations: Relations) -> list[exp.Expr]:
    """Return the columns of `*` behind PARTITION BY: new keys, values, then keys of before."""
    old = [column(each.alias, key.name) for each in relations.relations for key in each.source.key]
    values = [
        column(each.alias, part.name)
        for each in relations.relations
        for part in (*each.source.value, *each.source.headers)
    ]
    rest = [
        each
        for each in (*values, *old)
        if not any(projection.same_expression(each, key) for key in keys)
    ]
    return [*keys, *rest]


def _key_and_value(
    results: _Results, *, is_persistent: bool
) -> tuple[tuple[NamedExpression, ...], tuple[NamedExpression, ...]]:
    place = place_of(results.items[0].node)
    try:
        found = projection.key_items(results.items, results.keys, f"{results.what} expression")
    except UnresolvedError as error:
        raise SqlError(str(error), *place) from None
    if results.takes_any and results.keys:
        chosen = next((index for index, each in enumerate(found) if each is not None), 0)
        found, keys = [found[chosen]], [results.key_types[chosen]]
    else:
        keys = list(results.key_types)
    if is_persistent and any(each is None for each in found):
        _raise_missing(results, found, place)
    key = tuple(
        NamedExpression(f"KEY_{index}" if item is None else item.name, kind)
        for index, (item, kind) in enumerate(zip(found, keys, strict=True))
    )
    value = tuple(
        NamedExpression(item.name, typed(node, results.scope))
        for item, node in zip(results.items, results.nodes, strict=True)
        if not is_persistent or all(item is not each for each in found)
    )
    if is_persistent:
        _check_types(value, place)
    if is_persistent and not value:
        raise SqlError("The SELECT has the key only: add a column for the value", *place)
    return key, value


def _check_types(value: Sequence[NamedExpression], place: tuple[int, int]) -> None:
    for each in value:
        if each.expression.type == NULL:
            raise SqlError(
                f"The column {each.name} is NULL and has no type: write a CAST, as in "
                "CAST(NULL AS STRING)",
                *place,
            )


def _raise_missing(results: _Results, found: Sequence[Item | None], place: tuple[int, int]) -> None:
    names = [
        projection.text_of(key)
        for key, item in zip(results.keys, [*found, *[None] * len(results.keys)], strict=False)
        if item is None
    ]
    joint = " or " if results.takes_any else ", "
    raise SqlError(
        f"The SELECT needs the {results.what} expression {joint.join(names)}, which is the key of "
        "the result",
        *place,
    )


def _window(query: Select, source: PlannedRelation) -> SourceWindow | None:
    if query.window is not None:
        size = None if query.window.kind == "SESSION" else query.window.size.ms
        return SourceWindow(query.window.kind, size)
    return None if query.group_by else source.source.window
