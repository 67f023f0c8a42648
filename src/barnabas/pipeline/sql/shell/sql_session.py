"""A session: statements of a script, one after the other, on one catalog and one Spark session."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer

from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.sql import statement_values as st
from barnabas.pipeline.sql.analysis.applied_statements import Definition, StartedQuery, applied
from barnabas.pipeline.sql.analysis.query_analysis import plan_of
from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
from barnabas.pipeline.sql.catalog.source_definitions import Defaults
from barnabas.pipeline.sql.planning.query_writing import written
from barnabas.pipeline.sql.planning.registry_inference import RegistryInference
from barnabas.pipeline.sql.scripts import parse_statement, statement_texts
from barnabas.pipeline.sql.shell.inserted_rows import InsertedRow
from barnabas.pipeline.sql.shell.session_values import (
    Answer,
    Message,
    RowStream,
    SessionSettings,
)
from barnabas.pipeline.sql.shell.shown_objects import described, shown
from barnabas.pipeline.sql.shell.transient_queries import rows_of
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError
from barnabas.pipeline.streams.state_directory import default_root
from barnabas.pipeline.streams.stream_app import App

if TYPE_CHECKING:
    from barnabas.pipeline.sql.catalog.source_values import Source
    from barnabas.pipeline.sql.scripts import StatementText

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]")
_RESET: Final = "auto.offset.reset"
_FLUSH_S: Final = 30.0


class SqlSession:
    """Runs statements: sources and types in a catalog, queries as apps of streams.

    `settings.name` is the prefix of the queries' groups: a script that runs again under the same
    name continues. Spark starts with the first statement that needs it.
    """

    def __init__(self, settings: SessionSettings) -> None:
        """Take the settings; nothing starts yet."""
        self.settings = settings
        self.catalog = Catalog()
        self.variables: dict[str, str] = {}
        self.properties: dict[str, str] = {}
        self._state = settings.state or default_root() / settings.name
        self._app = App(
            settings.name,
            settings.bootstrap,
            properties=settings.properties,
            state=self._state,
            master=settings.master,
            spark={"spark.sql.caseSensitive": "true", **settings.spark},
            registry=settings.registry,
        )
        self._queries: dict[str, App] = {}
        self._client: dict[str, Any] = {}

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

    @property
    def has_queries(self) -> bool:
        """True when persistent queries run."""
        return bool(self._queries)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of a query; return False when the time is over before.

        Raises StreamFailedError when a query failed.
        """
        for app in self._queries.values():
            if app.wait(0):
                return True
        time.sleep(timeout_s)
        return False

    def close(self) -> None:
        """Stop the queries after their running transactions, then Spark."""
        for app in self._queries.values():
            app.stop()
        self._app.stop()

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
            raise UnresolvedError(f"{statement.action} does not run yet")
        known = {each.name for each in self.catalog.queries}
        result = applied(statement, self.catalog, self._defaults(), source.text)
        if isinstance(statement, st.CreateSource) and result.started is None:
            self._check_topic(result.catalog.source(statement.name))
        if result.started is not None:
            self._start(result.started)
        for name in known - {each.name for each in result.catalog.queries}:
            self._queries.pop(name).stop()
        if isinstance(statement, st.DropSource) and statement.delete_topic:
            self._cluster().delete_topic(self.catalog.source(statement.name).topic)
        self.catalog = result.catalog
        return Message(_done(statement, result.started))

    def _start(self, started: StartedQuery) -> None:
        name = _NOT_IN_NAMES.sub("_", f"{self.settings.name}-{started.name}")
        self._create_sink(started)
        app = App.attach(
            self._app.spark,
            name,
            self.settings.bootstrap,
            properties=self.settings.properties,
            state=self._state / "queries" / started.name,
            registry=self.settings.registry,
        )
        written(app, started.query, name, start=self._start_position())
        app.start()
        self._queries[started.name] = app

    def _create_sink(self, started: StartedQuery) -> None:
        """Create the topic of a query's sink, with the partitions of the topic that it reads."""
        sink, plan = started.query.sink, started.query.plan
        cluster = self._cluster()
        read = [each.source.topic for each in plan.relations]
        topics = cluster.topics([*read, sink.topic])
        for name in read:
            if topics[name] is None:
                raise UnresolvedError(f"The topic {name} is not there: create it first")
        if topics[sink.topic] is not None:
            return
        first = topics[read[0]]
        partitions = sink.partitions or (first.partitions if first is not None else 1)
        is_compacted = sink.is_table and sink.window is None
        config = {"cleanup.policy": "compact"} if is_compacted else {}
        cluster.create_topic(sink.topic, partitions, config, sink.replicas or -1)

    def _check_topic(self, source: Source) -> None:
        """Create the topic of a declared source where PARTITIONS says so."""
        cluster = self._cluster()
        if cluster.topics([source.topic])[source.topic] is not None:
            return
        if source.partitions is None:
            raise UnresolvedError(
                f"The topic {source.topic} is not there: create it, or add PARTITIONS=1 to the "
                "properties, which creates it"
            )
        config = {"cleanup.policy": "compact"} if source.is_table else {}
        cluster.create_topic(source.topic, source.partitions, config, source.replicas or -1)

    def _insert(self, statement: st.InsertValues) -> Message:
        row = InsertedRow(statement, self.catalog)
        key, value, time_ms = row.encoded(self._app.spark, self.settings.registry)
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
        return RowStream(plan.columns, rows_of(self._app, plan, self._start_position()))

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
            schemas=RegistryInference(registry) if (registry := self.settings.registry) else None,
        )

    def _librdkafka(self) -> dict[str, Any]:
        if not self._client:
            given = {**self.settings.properties, "bootstrap.servers": self.settings.bootstrap}
            self._client = dict(kafka_properties.for_librdkafka(given))
        return self._client

    def _cluster(self) -> ClusterState:
        return ClusterState(self._librdkafka())


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
