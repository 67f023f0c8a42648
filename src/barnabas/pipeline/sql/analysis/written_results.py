"""CREATE .. AS SELECT and INSERT INTO .. SELECT: the plan, and the source that it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.pipeline.sql.analysis.plan_values import NamedExpression, QueryPlan, WrittenQuery
from barnabas.pipeline.sql.analysis.query_analysis import plan_of
from barnabas.pipeline.sql.catalog import source_definitions
from barnabas.pipeline.sql.catalog.source_values import Source, SourceColumn
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError
from barnabas.pipeline.sql.sql_types import widens

if TYPE_CHECKING:
    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
    from barnabas.pipeline.sql.catalog.source_definitions import Defaults
    from barnabas.pipeline.sql.sql_types import SqlType
    from barnabas.pipeline.sql.statement_values import CreateSource, InsertSelect, Select


def created(
    statement: CreateSource, query: Select, catalog: Catalog, defaults: Defaults
) -> WrittenQuery:
    """Return the query of CREATE .. AS SELECT, and the source that it makes. Raises SqlError."""
    if query.limit is not None:
        raise SqlError("LIMIT is for queries that return rows: leave it out", *statement.at)
    plan = plan_of(query, catalog, is_persistent=True, properties=defaults.aggregates)
    if plan.kind != statement.kind:
        raise SqlError(
            f"The SELECT makes a {plan.kind.lower()}: write CREATE {plan.kind}", *statement.at
        )
    source = plan.source.source
    try:
        sink = source_definitions.sink(
            statement,
            plan.kind,
            _columns(plan.key),
            _columns(plan.value),
            (source.key_format, source.value_format),
            plan.window,
            defaults,
        )
    except UnresolvedError as error:
        raise SqlError(str(error), *statement.at) from None
    return WrittenQuery(plan, sink, is_new=True, is_insert=False)


def inserted(statement: InsertSelect, catalog: Catalog) -> WrittenQuery:
    """Return the query of INSERT INTO .. SELECT. Raises SqlError."""
    try:
        sink = catalog.source(statement.target)
        _check_target(sink)
    except UnresolvedError as error:
        raise SqlError(str(error), *statement.at) from None
    plan = plan_of(statement.query, catalog, is_persistent=True)
    if plan.kind == "TABLE":
        raise SqlError(
            "INSERT INTO takes the rows of a stream, and the SELECT makes a table", *statement.at
        )
    _check_columns(plan, sink, statement.at)
    return WrittenQuery(plan, sink, is_new=False, is_insert=True)


def _check_target(sink: Source) -> None:
    if sink.is_table:
        raise UnresolvedError(f"{sink.name} is a table, and INSERT INTO .. SELECT takes streams")
    if sink.is_read_only:
        raise UnresolvedError(f"{sink.name} is a SOURCE, which is only read")
    if sink.headers:
        raise UnresolvedError(f"{sink.name} has columns of headers, which are only read")


def _check_columns(plan: QueryPlan, sink: Source, place: tuple[int, int]) -> None:
    for what, given, wanted in (
        ("key", plan.key, sink.key),
        ("value", plan.value, sink.value),
    ):
        is_same = len(given) == len(wanted) and all(
            one.name == other.name and _takes(other.type, one.expression.type)
            for one, other in zip(given, wanted, strict=True)
        )
        if not is_same:
            found = ", ".join(f"`{each.name}` {each.expression.type}" for each in given)
            raise SqlError(
                f"The {what} of the SELECT is {found or 'empty'}, and that of {sink.name} is "
                f"{', '.join(map(str, wanted)) or 'empty'}: make them the same",
                *place,
            )


def _takes(wanted: SqlType, given: SqlType) -> bool:
    """True when a column takes a value: whole numbers fit any DECIMAL, as in ksqlDB."""
    is_whole = given.name in ("INTEGER", "BIGINT")
    return widens(given, wanted) or (is_whole and wanted.name == "DECIMAL")


def _columns(expressions: tuple[NamedExpression, ...]) -> tuple[SourceColumn, ...]:
    return tuple(SourceColumn(each.name, each.expression.type) for each in expressions)
