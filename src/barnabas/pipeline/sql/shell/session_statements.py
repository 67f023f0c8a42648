"""Statements of a session, one after the other: what each does, and what it answers."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.sql import statement_values as st
from barnabas.pipeline.sql.analysis.applied_statements import Definition
from barnabas.pipeline.sql.analysis.pull_rules import check_pull
from barnabas.pipeline.sql.analysis.query_analysis import plan_of
from barnabas.pipeline.sql.catalog.source_definitions import Defaults
from barnabas.pipeline.sql.functions.aggregate_properties import (
    aggregate_properties,
    check_property,
)
from barnabas.pipeline.sql.planning.registry_inference import RegistryInference
from barnabas.pipeline.sql.scripts import parse_statement, statement_texts
from barnabas.pipeline.sql.shell.answer_values import (
    Answer,
    CommandDone,
    KnownRows,
    ListedTopic,
    Message,
    PrintedRecords,
    QueryDetails,
    Rows,
    RunningQuery,
    Skipped,
)
from barnabas.pipeline.sql.shell.asserted_objects import asserted, check_timeout
from barnabas.pipeline.sql.shell.catalog_change import CatalogChange
from barnabas.pipeline.sql.shell.command_answers import controlled, done
from barnabas.pipeline.sql.shell.explained_query import explained
from barnabas.pipeline.sql.shell.inserted_rows import EncodedRow, InsertedRow, JsonRows
from barnabas.pipeline.sql.shell.join_partitions import check_partitions, copartitioned
from barnabas.pipeline.sql.shell.key_lookups import lookup_of
from barnabas.pipeline.sql.shell.printed_topics import TopicLines
from barnabas.pipeline.sql.shell.produced_rows import produced
from barnabas.pipeline.sql.shell.session_values import SessionState, change
from barnabas.pipeline.sql.shell.shown_objects import described, running, shown
from barnabas.pipeline.sql.shell.shown_values import ShownRows
from barnabas.pipeline.sql.shell.transient_queries import (
    TableRows,
    TransientRows,
    columns_of,
    table_key_of,
)
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError

if TYPE_CHECKING:
    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
    from barnabas.pipeline.sql.scripts import StatementText
    from barnabas.pipeline.sql.shell.session_backend import Backend

_RESET: Final = "auto.offset.reset"
_STREAMS_RESET: Final = f"ksql.streams.{_RESET}"
"""Its name in properties of ksqlDB's server."""
_QUERY_NAME: Final = "barnabas.sql.query.name"
"""The property that names the query which the next statement starts."""
_NO_RUNNER: Final = (
    "Connectors run on a runner: start one with `barnabas serve --sql` or `barnabas pipelines "
    "--sql`, and add --server URL"
)


class SessionStatements:
    """Runs statements on a backend. Variables and properties are those of this session alone."""

    def __init__(self, backend: Backend) -> None:
        """Take what runs the statements."""
        self.variables: dict[str, str] = {}
        self.properties: dict[str, str] = {}
        self.wait: Callable[[float], object] = time.sleep
        """Waits some seconds between two checks of an ASSERT; what it raises ends that."""
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
            yield self.answer(source)

    def answer(self, source: StatementText) -> Answer:
        """Run one statement. Raises SqlError, and what Spark and Kafka raise."""
        return self.run(parse_statement(source, self.variables), source)

    def run(self, statement: st.Statement, source: StatementText) -> Answer:
        """Run a statement that is parsed; `source` is its text. Raises as `answer` does."""
        with _places(source):
            return self._answer(statement, source)

    def copied(self) -> SessionStatements:
        """Return a session with the same variables and properties, to check statements."""
        found = SessionStatements(self._backend)
        found.variables |= self.variables
        found.properties |= self.properties
        return found

    def checked(self, source: StatementText, catalog: Catalog) -> tuple[st.Statement, Catalog]:
        """Return a statement, and what it would make of a catalog; only SET and DEFINE run.

        Raises SqlError for a statement that is wrong.
        """
        statement = parse_statement(source, self.variables)
        with _places(source):
            if isinstance(statement, st.SetProperty | st.DefineVariable):
                self._answer(statement, source)
            elif isinstance(statement, st.InsertValues):
                InsertedRow(statement, catalog)
            elif isinstance(statement, st.Describe) and statement.subject == "SOURCE":
                catalog.source(statement.name or "")
            elif isinstance(statement, Definition) and not _is_control(statement):
                catalog = self._change(statement, source).applied_to(catalog).catalog
        return statement, catalog

    def _answer(self, statement: st.Statement, source: StatementText) -> Answer:
        if isinstance(statement, Definition):
            return self._define(statement, source)
        if isinstance(statement, st.InsertValues):
            return self._insert(statement)
        if isinstance(statement, st.Select):
            return self._select(statement)
        if isinstance(statement, st.Explain):
            return self._explain(statement)
        if isinstance(statement, st.Show):
            state = SessionState(self.variables, self.properties)
            settings, states = self._backend.settings, self._backend.state_of
            return shown(statement, self.catalog, state, settings, self._topics, states)
        if isinstance(statement, st.Describe):
            return described(statement, self.catalog, self._topics, self._backend.state_of)
        if isinstance(statement, st.DefineVariable):
            return self._variable(statement)
        if isinstance(statement, st.SetProperty):
            return self._property(statement)
        if isinstance(statement, st.PrintTopic):
            registry = self._backend.settings.registry
            lines = TopicLines(statement, self._librdkafka(), registry)
            return PrintedRecords(statement.topic, lines)
        if isinstance(statement, st.ConnectorStatement):
            raise UnresolvedError(_NO_RUNNER)
        if isinstance(statement, st.Assertion):
            return self._assert(statement)
        raise UnresolvedError(f"{source.text.split()[0].upper()} does not run yet")

    def _assert(self, statement: st.Assertion) -> Answer:
        registry = self._backend.settings.registry
        return asserted(statement, self.properties, self._cluster, registry, self.wait)

    def _define(self, statement: Definition, source: StatementText) -> CommandDone | Skipped:
        if _is_control(statement):
            return controlled(statement, self._backend.control(statement))
        change = self._change(statement, source)
        return done(statement, self._backend.change(change))

    def _change(self, statement: Definition, source: StatementText) -> CatalogChange:
        query = self.properties.get(_QUERY_NAME)
        start = self._start_position()
        return CatalogChange(statement, source.text, self._defaults(), start, query)

    def insert_rows(self, target: str, rows: Sequence[Mapping[str, Any]]) -> list[str | None]:
        """Write rows, given as objects of JSON, to a source in their order, up to one that fails.

        Return None for each that was written, then why one was not. Raises UnresolvedError.
        """
        inserted = JsonRows(target, self.catalog)
        registry = self._backend.settings.registry
        encoded = inserted.encoded(rows, self._backend.app.spark, registry)
        written: list[EncodedRow] = []
        wrong: list[str] = []
        for each in encoded:
            if isinstance(each, str):
                wrong.append(each)
                break
            written.append(each)
        return [*produced(inserted.source.topic, written, self._librdkafka()), *wrong]

    def cluster_id(self) -> str:
        """Return the id of the Kafka cluster. Raises KafkaException when no broker answers."""
        return self._cluster().cluster_id()

    def partitions(self) -> dict[str, int]:
        """Return the number of partitions of each topic. Raises as `cluster_id` does."""
        return {each.name: len(each.replicas) for each in self._topics()}

    def _insert(self, statement: st.InsertValues) -> Message:
        row = InsertedRow(statement, self.catalog)
        encoded = row.encoded(self._backend.app.spark, self._backend.settings.registry)
        (failure,) = produced(row.source.topic, [encoded], self._librdkafka())
        if failure is not None:
            raise UnresolvedError(f"The row was not written to {row.source.topic}: {failure}")
        extra = row.left_out
        without = f" without {', '.join(extra)}, which it does not have" if extra else ""
        return Message(f"inserted a row into {row.source.name}{without}")

    def _select(self, statement: st.Select) -> Rows:
        catalog = self.catalog
        properties = aggregate_properties(self.properties)
        plan = plan_of(statement, catalog, is_persistent=False, properties=properties)
        check_pull(statement, plan, self.properties)
        if copartitioned(plan) is not None:
            check_partitions(plan, self.partitions())
        lookup = lookup_of(statement, plan, catalog)
        found = None if lookup is None else self._backend.looked_up(lookup)
        name, columns, key = str(uuid.uuid4()), columns_of(plan), table_key_of(plan)
        if found is not None:
            rows, at_ms = found
            known = KnownRows(rows if plan.limit is None else rows[: plan.limit])
            shown = ShownRows(known, columns)
            return Rows(name, columns, False, None, shown, key, at_ms)
        kind = TransientRows if key is None else TableRows
        rows = kind(self._backend.app, plan, self._start_position())
        shown = ShownRows(rows, columns)
        return Rows(name, columns, plan.emit is not None, plan.limit, shown, key)

    def _explain(self, statement: st.Explain) -> QueryDetails:
        catalog, state_of = self.catalog, self._backend.state_of

        def query(name: str) -> RunningQuery:
            found = next(each for each in catalog.queries if each.name == name)
            return running(found, catalog, state_of)

        app = self._backend.new_app()
        return explained(statement, catalog, self._defaults(), app, query)

    def _topics(self) -> list[ListedTopic]:
        return [ListedTopic(name, each) for name, each in self._cluster().replicas().items()]

    def _cluster(self) -> ClusterState:
        return ClusterState(self._librdkafka())

    def _variable(self, statement: st.DefineVariable) -> Message:
        return Message(change(self.variables, "variable", statement.name, statement.value))

    def _property(self, statement: st.SetProperty) -> Message:
        name = _RESET if statement.name == _STREAMS_RESET else statement.name
        if statement.value is not None:
            _check_property(name, statement.value)
        return Message(change(self.properties, "property", name, statement.value))

    def set_properties(self, given: Mapping[str, str]) -> None:
        """Set properties of a request. Raises UnresolvedError for a value that is wrong."""
        for name, value in given.items():
            _check_property(name, value)
        self.properties.update(given)

    def _start_position(self) -> str:
        return self.properties.get(_RESET, "earliest")

    def _defaults(self) -> Defaults:
        given = {name.removeprefix("ksql."): each for name, each in self.properties.items()}
        registry = self._backend.settings.registry
        return Defaults(
            given.get("persistence.default.format.key", "KAFKA"),
            given.get("persistence.default.format.value"),
            given.get("persistence.wrap.single.values", "true").lower() == "true",
            schemas=RegistryInference(registry) if registry else None,
            aggregates=aggregate_properties(self.properties),
        )

    def _librdkafka(self) -> dict[str, Any]:
        settings = self._backend.settings
        given = {**settings.properties, "bootstrap.servers": settings.bootstrap}
        return dict(kafka_properties.for_librdkafka(given))


def _check_property(name: str, value: str) -> None:
    """Raise UnresolvedError for a value that a property cannot have."""
    if name == _RESET and value not in ("earliest", "latest"):
        raise UnresolvedError(f"{_RESET} is earliest or latest, and not '{value}'")
    check_property(name, value)
    check_timeout(name, value)


def _is_control(statement: st.Statement) -> TypeGuard[st.QueryControl]:
    """True for PAUSE and RESUME, which change no catalog."""
    return isinstance(statement, st.QueryControl) and statement.action != "TERMINATE"


@contextmanager
def _places(source: StatementText) -> Generator[None]:
    """Add to errors of a statement their line and column in the script."""
    try:
        yield
    except UnresolvedError as error:
        raise SqlError(str(error), source.line, source.column) from None
    except SqlError as error:
        raise _in_script(error, source) from None


def _in_script(error: SqlError, source: StatementText) -> SqlError:
    """Return an error of a statement with the line and the column in the script."""
    column = error.column + (source.column - 1 if error.line == 1 else 0)
    return type(error)(error.message, error.line + source.line - 1, column)
