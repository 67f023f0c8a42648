"""Queries in this process: a catalog in memory, and an app of streams for each query."""

from __future__ import annotations

import re
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import attrs

from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.delivery.plan.job_plan import REBUILD
from barnabas.pipeline.sql import statement_values as st
from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
from barnabas.pipeline.sql.planning.first_offsets import topic_ends
from barnabas.pipeline.sql.planning.query_writing import written
from barnabas.pipeline.sql.shell.created_topics import create_declared, create_sink
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.streams.state_directory import (
    OTHER_STATE,
    StateUnusableError,
    default_root,
)
from barnabas.pipeline.streams.stream_app import App
from barnabas.pipeline.streams.stream_queries import StreamFailedError

if TYPE_CHECKING:
    from collections.abc import Generator

    from barnabas.pipeline.sql.analysis.applied_statements import StartedQuery
    from barnabas.pipeline.sql.shell.catalog_change import AppliedChange, CatalogChange
    from barnabas.pipeline.sql.shell.key_lookups import KeyLookup
    from barnabas.pipeline.sql.shell.session_values import SessionSettings

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]")
_OTHER_NAME: Final = "give another --name, with which queries read all records again"


class LocalQueries:
    """Runs queries until the process ends. Spark starts with the first one that needs it."""

    def __init__(self, settings: SessionSettings) -> None:
        """Take the settings; nothing starts yet."""
        self.settings = settings
        self.catalog = Catalog()
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
        self._changing = threading.Lock()
        self._starting = threading.Lock()

    @property
    def app(self) -> App:
        """The app whose Spark session runs SELECT and INSERT; it starts with the first call.

        Raises UnresolvedError when another process has the state, or it cannot be written.
        """
        with self._starting:
            try:
                self._app.spark  # noqa: B018 - it starts Spark, once
            except StateUnusableError as error:
                text = str(error).replace(OTHER_STATE, "give another --name or --state")
                raise UnresolvedError(text) from error
        return self._app

    @property
    def has_queries(self) -> bool:
        """True when queries run."""
        return bool(self._queries)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of a query; return False when the time is over before.

        Raises StreamFailedError when a query failed.
        """
        with _remedies():
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

    def change(self, change: CatalogChange) -> AppliedChange:
        """Change the catalog, start and stop queries. Raises SqlError, UnresolvedError."""
        with self._changing:
            return self._change(change)

    def _change(self, change: CatalogChange) -> AppliedChange:
        statement = change.statement
        result = change.applied_to(self.catalog)
        if result.is_unchanged:
            return result
        if result.is_built and result.started is not None:
            table = result.started.query.sink.name
            raise UnresolvedError(
                f"{table} has state, which the new text may not fit: DROP {table}, then create it "
                "again; a runner of barnabas pipelines --sql replaces it"
            )
        if isinstance(statement, st.CreateSource) and result.started is None:
            create_declared(self._cluster(), result.catalog.source(statement.name))
        if result.started is not None:
            create_sink(self._cluster(), result.started.query)
            if result.is_replaced:
                self._queries.pop(result.started.name).stop()
            self._start(result.started, change.start)
        for name in result.ended:
            self._queries.pop(name).stop()
        if isinstance(statement, st.DropSource) and statement.delete_topic:
            self._delete_topic(statement)
        self.catalog = result.catalog
        return result

    def new_app(self) -> App:
        """Return an app in the same session."""
        name, state = f"{self.settings.name}-explain", self._state / "explain"
        return App.attach(self.app.spark, name, state=state, registry=self.settings.registry)

    def looked_up(self, lookup: KeyLookup) -> None:
        """Return None: a process of one script keeps no views."""
        del lookup

    def state_of(self, query: str) -> str:
        """Return RUNNING: a query that fails ends the process."""
        del query
        return "RUNNING"

    def control(self, statement: st.QueryControl) -> str:
        """Raise UnresolvedError: nothing would resume a query of a script that has ended."""
        raise UnresolvedError(
            f"{statement.action} is for queries of a runner: start one with barnabas pipelines "
            "--sql"
        )

    def _delete_topic(self, statement: st.DropSource) -> None:
        if statement.name in self.catalog.sources:
            self._cluster().delete_topic(self.catalog.source(statement.name).topic)

    def _start(self, started: StartedQuery, start: str) -> None:
        name = _NOT_IN_NAMES.sub("_", f"{self.settings.name}-{started.name}")
        app = App.attach(
            self.app.spark,
            name,
            self.settings.bootstrap,
            properties=self.settings.properties,
            state=self._state / "queries" / started.name,
            registry=self.settings.registry,
        )
        first = topic_ends(self._cluster(), started.query.plan) if start == "latest" else start
        written(app, started.query, name, start=first)
        with _remedies():
            app.start()
        self._queries[started.name] = app

    def _cluster(self) -> ClusterState:
        given = {**self.settings.properties, "bootstrap.servers": self.settings.bootstrap}
        return ClusterState(kafka_properties.for_librdkafka(given))


@contextmanager
def _remedies() -> Generator[None]:
    """Name the remedy of a script, which has no job and no app, in the failure of a query."""
    try:
        yield
    except StreamFailedError as error:
        text = error.failure.message.replace(REBUILD, _OTHER_NAME)
        failure = attrs.evolve(error.failure, message=text)
        raise StreamFailedError(error.query, failure) from error
