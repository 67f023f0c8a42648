"""Statements of a session, one after the other: what each does, and what it answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer

from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.sql import statement_values as st
from barnabas.pipeline.sql.analysis.applied_statements import Definition
from barnabas.pipeline.sql.analysis.query_analysis import plan_of
from barnabas.pipeline.sql.catalog.source_definitions import Defaults
from barnabas.pipeline.sql.scripts import parse_statement, statement_texts
from barnabas.pipeline.sql.shell.catalog_change import CatalogChange
from barnabas.pipeline.sql.shell.inserted_rows import InsertedRow
from barnabas.pipeline.sql.shell.session_values import Answer, Message, RowStream
from barnabas.pipeline.sql.shell.shown_objects import described, shown
from barnabas.pipeline.sql.shell.transient_queries import rows_of
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError

if TYPE_CHECKING:
    from barnabas.pipeline.sql.analysis.applied_statements import StartedQuery
    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
    from barnabas.pipeline.sql.scripts import StatementText
    from barnabas.pipeline.sql.shell.session_backend import Backend

_RESET: Final = "auto.offset.reset"
_FLUSH_S: Final = 30.0


class SessionStatements:
    """Runs statements on a backend. Variables and properties are those of this session alone."""

    def __init__(self, backend: Backend) -> None:
        """Take what runs the statements."""
        self.variables: dict[str, str] = {}
        self.properties: dict[str, str] = {}
        self._backend = backend

    @property
    def catalog(self) -> Catalog:
        """Return the catalog as it is now."""
        return self._backend.catalog

    def execute(self, script: str) -> Iterator[Answer]:
        """Run the statements of a script, and yield the answer of each.

        Raises SqlError at the first that is wrong; those before it have run.
        """
        for source in statement_texts(script):
            statement = parse_statement(source, self.variables)
            try:
                yield from self._answers(statement, source)
            except UnresolvedError as error:
                raise SqlError(str(error), source.line, source.column) from None
            except SqlError as error:
                raise _in_script(error, source) from None

    def _answers(self, statement: st.Statement, source: StatementText) -> Iterator[Answer]:
        if isinstance(statement, Definition):
            yield self._define(statement, source)
        elif isinstance(statement, st.InsertValues):
            yield self._insert(statement)
        elif isinstance(statement, st.Select):
            yield self._select(statement)
        elif isinstance(statement, st.Show):
            yield shown(statement, self.catalog, self.variables)
        elif isinstance(statement, st.Describe):
            yield described(statement, self.catalog)
        elif isinstance(statement, st.DefineVariable):
            yield self._variable(statement)
        elif isinstance(statement, st.SetProperty):
            yield self._property(statement)
        else:
            raise UnresolvedError(f"{source.text.split()[0].upper()} does not run yet")

    def _define(self, statement: Definition, source: StatementText) -> Message:
        if isinstance(statement, st.QueryControl) and statement.action != "TERMINATE":
            return Message(self._backend.control(statement))
        change = CatalogChange(statement, source.text, self._defaults(), self._start_position())
        return Message(_done(statement, self._backend.change(change).started))

    def _insert(self, statement: st.InsertValues) -> Message:
        row = InsertedRow(statement, self.catalog)
        settings = self._backend.settings
        key, value, time_ms = row.encoded(self._backend.app.spark, settings.registry)
        producer: Any = Producer({**self._librdkafka(), "partitioner": "murmur2_random"})
        failures: list[str] = []

        def delivered(error: object, _: object) -> None:
            if error is not None:
                failures.append(str(error))

        producer.produce(
            row.source.topic,
            value,
            key,
            timestamp=time_ms or 0,
            on_delivery=delivered,
        )
        if producer.flush(_FLUSH_S) or failures:
            reason = failures[0] if failures else "the cluster did not answer"
            raise UnresolvedError(f"The row was not written to {row.source.topic}: {reason}")
        return Message(f"inserted a row into {row.source.name}")

    def _select(self, statement: st.Select) -> RowStream:
        plan = plan_of(statement, self.catalog, is_persistent=False)
        return RowStream(plan.columns, rows_of(self._backend.app, plan, self._start_position()))

    def _variable(self, statement: st.DefineVariable) -> Message:
        if statement.value is None:
            self.variables.pop(statement.name, None)
            return Message(f"removed the variable {statement.name}")
        self.variables[statement.name] = statement.value
        return Message(f"set the variable {statement.name}")

    def _property(self, statement: st.SetProperty) -> Message:
        if statement.value is None:
            self.properties.pop(statement.name, None)
            return Message(f"removed the property {statement.name}")
        if statement.name == _RESET and statement.value not in ("earliest", "latest"):
            raise UnresolvedError(f"{_RESET} is earliest or latest, and not '{statement.value}'")
        self.properties[statement.name] = statement.value
        return Message(f"set the property {statement.name}")

    def _start_position(self) -> str:
        return self.properties.get(_RESET, "earliest")

    def _defaults(self) -> Defaults:
        given = {name.removeprefix("ksql."): each for name, each in self.properties.items()}
        return Defaults(
            given.get("persistence.default.format.key", "KAFKA"),
            given.get("persistence.default.format.value"),
            given.get("persistence.wrap.single.values", "true").lower() == "true",
        )

    def _librdkafka(self) -> dict[str, Any]:
        settings = self._backend.settings
        given = {**settings.properties, "bootstrap.servers": settings.bootstrap}
        return dict(kafka_properties.for_librdkafka(given))


def _done(statement: Definition, started: StartedQuery | None) -> str:
    if started is not None:
        return f"started query {started.name}, which writes the topic {started.query.sink.topic}"
    if isinstance(statement, st.CreateSource):
        return f"created {statement.kind.lower()} {statement.name}"
    if isinstance(statement, st.DropSource):
        return f"dropped {statement.kind.lower()} {statement.name}"
    if isinstance(statement, st.AddColumns):
        return f"added columns to {statement.name}"
    if isinstance(statement, st.CreateType):
        return f"created type {statement.name}"
    if isinstance(statement, st.DropType):
        return f"dropped type {statement.name}"
    return "terminated"


def _in_script(error: SqlError, source: StatementText) -> SqlError:
    """Return an error of a statement with the line and the column in the script."""
    column = error.column + (source.column - 1 if error.line == 1 else 0)
    return SqlError(error.message, error.line + source.line - 1, column)
