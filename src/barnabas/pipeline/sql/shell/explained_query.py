"""EXPLAIN: how a query runs: its delivery, the state that it keeps, its topology, Spark's plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.delivery.driver import spark_internals
from barnabas.pipeline.sql import statement_values as st
from barnabas.pipeline.sql.analysis.query_analysis import plan_of
from barnabas.pipeline.sql.analysis.written_results import created, inserted
from barnabas.pipeline.sql.catalog.source_values import SourceColumn
from barnabas.pipeline.sql.planning.query_planning import planned
from barnabas.pipeline.sql.planning.query_writing import written
from barnabas.pipeline.sql.scripts import StatementText, parse_statement
from barnabas.pipeline.sql.shell.answer_values import QueryDetails, RunningQuery
from barnabas.pipeline.sql.sql_failures import UnresolvedError, nearest
from barnabas.pipeline.streams import state_description

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.pipeline.sql.analysis.plan_values import NamedExpression, QueryPlan, WrittenQuery
    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
    from barnabas.pipeline.sql.catalog.source_definitions import Defaults
    from barnabas.pipeline.streams.stream_app import App

_FORWARD: Final = "Delivery: exactly once; one transaction has a batch's rows and positions"
_MICRO_BATCHES: Final = (
    "Delivery: exactly once, in micro-batches; each task commits its rows with a marker"
)
_ROWS: Final = "Delivery: to the reader, at most once; nothing is stored"


def explained(
    statement: st.Explain,
    catalog: Catalog,
    defaults: Defaults,
    app: App,
    running: Callable[[str], RunningQuery],
) -> QueryDetails:
    """Return how a query runs, or how a statement would. Raises SqlError, UnresolvedError.

    `app` is a new one, in which the query is described and not started.
    """
    if statement.query is not None:
        query = running(_known(statement.query, catalog))
        parsed = parse_statement(StatementText(query.text, 1, 1), {})
    else:
        query, parsed = None, statement.statement
    if isinstance(parsed, st.Select):
        plan = plan_of(parsed, catalog, is_persistent=False, properties=defaults.aggregates)
        target = None
    elif isinstance(parsed, st.InsertSelect):
        target = inserted(parsed, catalog)
        plan = target.plan
    elif isinstance(parsed, st.CreateSource) and parsed.query is not None:
        target = created(parsed, parsed.query, catalog, defaults)
        plan = target.plan
    else:
        raise UnresolvedError(
            "EXPLAIN takes the name of a query, a SELECT, CREATE .. AS SELECT, or INSERT INTO .. "
            "SELECT"
        )
    shown = query or _not_running(plan, target)
    return QueryDetails(
        shown, _columns(plan.value), _columns(plan.key), *_described(app, plan, target)
    )


def _known(name: str, catalog: Catalog) -> str:
    names = [each.name for each in catalog.queries]
    if name not in names:
        raise UnresolvedError(f"There is no query {name}{nearest(name, names)}")
    return name


def _not_running(plan: QueryPlan, target: WrittenQuery | None) -> RunningQuery:
    reads = tuple(dict.fromkeys(each.source.name for each in plan.relations))
    if target is None:
        return RunningQuery("", "", None, None, reads, kind="PUSH")
    return RunningQuery("", "", target.sink.name, target.sink.topic, reads)


def _described(app: App, plan: QueryPlan, target: WrittenQuery | None) -> tuple[str, str]:
    """Return the topology, and the delivery, the state and Spark's plan."""
    if target is None:
        records = planned(app, plan)
        delivery, state = _ROWS, state_description.text_of({"SELECT": records.frame})
    else:
        written(app, target)
        records = planned(app, plan)
        delivery = _FORWARD if records.output_mode is None else _MICRO_BATCHES
        state = app.describe("state")
    spark = spark_internals.explained(records.frame)
    return app.describe(), f"{delivery}\n\n{state}\n{spark}"


def _columns(expressions: tuple[NamedExpression, ...]) -> tuple[SourceColumn, ...]:
    return tuple(SourceColumn(each.name, each.expression.type) for each in expressions)
