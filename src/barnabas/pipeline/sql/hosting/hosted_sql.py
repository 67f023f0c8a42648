"""Sessions of a runner: the stored catalog, and queries as the runner's jobs.

Statements run in threads of the callers. What touches the runner's topics runs on the runner's
loop, and a change of the catalog and the jobs that it starts or ends are one transaction.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import trio

from barnabas.pipeline.connect.rest_errors import ConnectRestError
from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.delivery.plan.job_plan import OnTrim
from barnabas.pipeline.jobs.configs_writer import ConfigsWriteError
from barnabas.pipeline.jobs.core.job_supervision import TargetState
from barnabas.pipeline.jobs.core.store_records import ConfigRecord, ConnectorRecord, TargetRecord
from barnabas.pipeline.sql import statement_values as st
from barnabas.pipeline.sql.hosting.change_lock import for_statement
from barnabas.pipeline.sql.hosting.hosted_query import own_session
from barnabas.pipeline.sql.hosting.query_configs import (
    building,
    job_name,
    query_config,
    staging_topic,
)
from barnabas.pipeline.sql.hosting.query_properties import FIRST_OFFSETS, START
from barnabas.pipeline.sql.hosting.table_swaps import TableSwaps
from barnabas.pipeline.sql.hosting.table_views import TableViews
from barnabas.pipeline.sql.planning.first_offsets import encoded, topic_ends
from barnabas.pipeline.sql.planning.query_writing import register_schemas
from barnabas.pipeline.sql.shell.created_topics import (
    compacted_values,
    create_declared,
    create_sink,
    create_staging,
    deleted_records,
)
from barnabas.pipeline.sql.shell.session_statements import SessionStatements
from barnabas.pipeline.sql.shell.session_values import SessionSettings
from barnabas.pipeline.sql.sql_failures import UnresolvedError, nearest
from barnabas.pipeline.streams.app_hosting import HostedApp, HostedState
from barnabas.pipeline.streams.app_queries import QuerySettings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from barnabas.pipeline.delivery.plan.job_plan import JobProgress
    from barnabas.pipeline.jobs.core.activity_protocol import GroupRunner
    from barnabas.pipeline.jobs.runner_settings import RunnerSettings
    from barnabas.pipeline.jobs.runner_store import RunnerStore
    from barnabas.pipeline.sql.analysis.applied_statements import StartedQuery
    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog, PersistentQuery
    from barnabas.pipeline.sql.hosting.catalog_topic import CatalogTopic
    from barnabas.pipeline.sql.shell.catalog_change import AppliedChange, CatalogChange

T = TypeVar("T")
logger: Final = logging.getLogger(__name__)

_END_S: Final = 60.0
_POLL_S: Final = 0.1
_LOOK_S: Final = 1.0
_LOOK_AGAIN_S: Final = 10.0
_STARTED: Final = TargetState.STARTED.value
_TARGETS: Final = {"PAUSE": TargetState.PAUSED, "RESUME": TargetState.STARTED}


class NotActiveRunnerError(UnresolvedError):
    """This runner stands by; `active_url` is where the active one listens, or an empty text."""

    def __init__(self, active_url: str) -> None:
        where = active_url or "which has not been chosen yet"
        super().__init__(f"This runner stands by: send the statement to the active one, {where}")
        self.active_url = active_url


class RunnerPort(Protocol):
    """The parts of its runner that SQL needs."""

    settings: RunnerSettings
    store: RunnerStore

    async def check(self, config: Mapping[str, str | None]) -> None:
        """Validate a configuration. Raises ConnectRestError."""
        ...

    def active_url(self) -> str | None:
        """Return None on the active runner, and its URL on others."""
        ...

    def active_sql_url(self) -> str | None:
        """Return None on the active runner, and on others where it serves SQL, if it does."""
        ...

    async def runners(self) -> list[GroupRunner]:
        """Return the runners of the group. Raises KafkaError, ClientError."""
        ...

    def has_job(self, name: str) -> bool:
        """True until a job of this runner has ended."""
        ...

    def is_stopped(self, name: str) -> bool:
        """True when no run of a job is left, and none is wanted."""
        ...

    def progress(self, name: str) -> JobProgress | None:
        """Return the progress of a job that runs here, None for another one."""
        ...

    def spark(self) -> Any:
        """Return the Spark session; it starts when nothing has needed it. Blocks."""
        ...

    def forget_state(self, name: str) -> None:
        """Remove positions and state of a job that has ended. Blocks."""
        ...


class HostedSql:
    """SQL of one runner; `session` makes sessions."""

    def __init__(self, runner: RunnerPort, topic: CatalogTopic, registry: str) -> None:
        given = runner.settings.client_properties
        self.settings = SessionSettings(
            given["bootstrap.servers"],
            {name: value for name, value in given.items() if name != "bootstrap.servers"},
            runner.settings.group_id,
            registry=registry,
        )
        self._runner = runner
        self._topic = topic
        self.views = TableViews(given, Path(runner.settings.view_directory) / "sql")
        self.active_sql_url = runner.active_sql_url
        self.runners = runner.runners
        self._lock = threading.Lock()
        self._swaps = TableSwaps(_SwapPort(self, runner, topic))
        self.token: trio.lowlevel.TrioToken | None = None
        """The runner's loop, once it reads the catalog."""

    async def open(self) -> None:
        """Read the catalog. Raises StorageTopicError, or what the client raises."""
        self.token = trio.lowlevel.current_trio_token()
        await self._topic.open()

    async def follow(self) -> None:
        """Replay the catalog for as long as the task runs."""
        await self._topic.follow()

    async def swap_tables(self) -> None:
        """Swap tables that were rebuilt, for as long as the runner is the active one."""
        while True:
            await trio.sleep(_LOOK_S)
            if any(each.replacement for each in self._topic.catalog.queries):
                try:
                    await trio.to_thread.run_sync(self._look, abandon_on_cancel=True)
                except Exception as error:
                    logger.warning("cannot replace a table now error=%s", error)
                    await trio.sleep(_LOOK_AGAIN_S)

    def _look(self) -> None:
        with self._lock:
            self._prepare()
            self._swaps.look()

    def session(self) -> HostedSession:
        """Return a session with its own variables and properties."""
        return HostedSession(self)

    @property
    def catalog(self) -> Catalog:
        """Return the catalog as it is now, with the queries that have a job."""
        found = self._topic.catalog
        names = self._runner.store.state.connectors
        queries = tuple(each for each in found.queries if self.job_of(each.name) in names)
        return replace(found, queries=queries)

    def job_of(self, query: str) -> str:
        """Return the name of the job of a query."""
        return job_name(self._runner.settings.group_id, query)

    def state_of(self, query: str) -> str:
        """Return the state of a query's job, as in `barnabas job list`."""
        found = self._runner.store.state.statuses.get(self.job_of(query))
        if found is None or found.connector is None:
            return "UNASSIGNED"
        states = [found.connector.state, *(each.state for each in found.tasks.values())]
        failed = next((each for each in states if each == "FAILED"), None)
        return failed or states[0] or "UNASSIGNED"

    def new_app(self) -> HostedApp:
        """Return a new app; Spark starts when nothing has needed it.

        Raises UnresolvedError when it cannot start, NotActiveRunnerError.
        """
        settings = self._runner.settings
        state = HostedState(Path(settings.view_directory), str)
        given = QuerySettings(
            settings.group_id,
            self.settings.bootstrap,
            dict(self.settings.properties),
            state,
            OnTrim.FAIL,
            100,
            kafka_properties.transaction_timeout_ms(self.settings.properties),
            {},
        )
        return HostedApp(own_session(self._runner.spark()), given, self.settings.registry)

    def change(self, change: CatalogChange, properties: Mapping[str, str]) -> AppliedChange:
        """Change the catalog and the jobs of queries. Raises SqlError, UnresolvedError."""
        with for_statement(self._lock):
            self._prepare()
            stored, before = self._topic.catalog, self.catalog
            result = change.applied_to(before)
            if result.is_unchanged:
                return result
            configurations = self._configurations(change, result, properties)
            result = replace(result, warnings=self._warnings(change, result))
            self._create_topics(change, result)
            self.on_loop(lambda: self._topic.write(stored, result.catalog, configurations))
            left = {each.name for each in result.catalog.queries}
            self._end([each for each in stored.queries if each.name not in left])
            for name in before.sources.keys() - result.catalog.sources.keys():
                self.views.forget(before.source(name).topic)
            statement = change.statement
            if isinstance(statement, st.DropSource) and statement.delete_topic:
                self._delete_topic(before, statement.name)
            return result

    def control(self, statement: st.QueryControl) -> str:
        """Pause or resume a query, or all. Raises UnresolvedError."""
        with for_statement(self._lock):
            self._prepare()
            names = [each.name for each in self._chosen(statement)]
            target = _TARGETS[statement.action].value
            records = [TargetRecord(self.job_of(each), target) for each in names]
            if records:
                self.on_loop(lambda: self._runner.store.write_configs(records))
        verb = "paused" if statement.action == "PAUSE" else "resumed"
        return f"{verb} {', '.join(names) or 'nothing: there are no queries'}"

    def _chosen(self, statement: st.QueryControl) -> tuple[PersistentQuery, ...]:
        queries = self.catalog.queries
        if statement.query is None:
            return queries
        found = tuple(each for each in queries if each.name == statement.query)
        if not found:
            hint = nearest(statement.query, [each.name for each in queries])
            raise UnresolvedError(f"There is no query {statement.query}{hint}")
        return found

    def _prepare(self) -> None:
        """Catch up with the topics.

        Raises NotActiveRunnerError, UnresolvedError for a catalog that is not complete.
        """
        url = self._runner.active_url()
        if url is not None:
            raise NotActiveRunnerError(url)

        async def caught_up() -> None:
            await self._runner.store.catch_up()
            await self._topic.catch_up()

        self.on_loop(caught_up)
        problem = self._topic.problem
        if problem is not None:
            raise UnresolvedError(
                f"The catalog is not complete, so nothing changes it: {problem}. Upgrade barnabas, "
                "or write a null value for this key"
            )

    def _warnings(self, change: CatalogChange, result: AppliedChange) -> tuple[str, ...]:
        """Return warnings about rows that queries of a stream or a rebuilt table will not have."""
        statement = change.statement
        if isinstance(statement, st.CreateSource) and statement.query is None:
            found = compacted_values(self._cluster(), result.catalog.source(statement.name))
            for each in found:
                logger.warning("a stream may lose values stream=%s: %s", statement.name, each)
            return tuple(found)
        if result.started is None or not result.is_built:
            return ()
        names = {each.source.topic for each in result.started.query.plan.relations}
        return tuple(deleted_records(self._cluster(), sorted(names)))

    def _create_topics(self, change: CatalogChange, result: AppliedChange) -> None:
        statement = change.statement
        if result.started is not None:
            register_schemas(result.started.query.sink, self.settings.registry)
            create_sink(self._cluster(), result.started.query)
            if result.is_built:
                name = staging_topic(self.job_of(result.started.name))
                create_staging(self._cluster(), result.started.query.sink, name)
        elif isinstance(statement, st.CreateSource):
            create_declared(self._cluster(), result.catalog.source(statement.name))

    def _configurations(
        self, change: CatalogChange, result: AppliedChange, properties: Mapping[str, str]
    ) -> list[ConfigRecord]:
        records: list[ConfigRecord] = []
        for each in result.ended:
            name = self.job_of(each)
            records += [ConnectorRecord(name, None), TargetRecord(name, None)]
        released = [self.job_of(each) for each in result.released]
        records += [TargetRecord(each, _STARTED) for each in released if self._is_stopped(each)]
        if result.started is not None:
            config = self._configuration(change, result, result.started, properties)
            self._check(config)
            records.append(ConnectorRecord(self.job_of(result.started.name), config))
        return records

    def _is_stopped(self, job: str) -> bool:
        """True for a job that is not to run; a paused one is another."""
        found = self._runner.store.state.connectors.get(job)
        return found is not None and found.target is TargetState.STOPPED

    def _configuration(
        self,
        change: CatalogChange,
        result: AppliedChange,
        started: StartedQuery,
        properties: Mapping[str, str],
    ) -> dict[str, str | None]:
        """Return the configuration of a job. A table that is rebuilt has all records."""
        name, registry = self.job_of(started.name), self.settings.registry
        if not result.is_built:
            config = query_config(name, started, result.catalog, change.start, registry, properties)
            return config | self._first_offsets(name, config, started)
        sink = started.query.sink
        catalog = replace(result.catalog, sources={**result.catalog.sources, sink.name: sink})
        return building(
            query_config(name, started, catalog, "earliest", registry, properties), name
        )

    def _first_offsets(
        self, job: str, config: Mapping[str, str | None], started: StartedQuery
    ) -> dict[str, str]:
        """Return the property of a query that starts at the ends of its topics.

        A query that continues with another text keeps its own: partitions that it has not read
        start there.
        """
        if config[START] != "latest":
            return {}
        stored = self._runner.store.state.connectors.get(job)
        kept = None if stored is None else stored.config.get(FIRST_OFFSETS)
        return {FIRST_OFFSETS: kept or encoded(topic_ends(self._cluster(), started.query.plan))}

    def _check(self, config: Mapping[str, str | None]) -> None:
        try:
            self.on_loop(lambda: self._runner.check(config))
        except ConnectRestError as error:
            raise UnresolvedError(str(error)) from None

    def _end(self, ended: Sequence[PersistentQuery]) -> None:
        """Wait for the jobs that end, and remove their state; what is left harms no other query.

        Queries whose jobs were deleted before are among them.
        """
        until = time.monotonic() + _END_S
        for query in ended:
            name = self.job_of(query.name)
            while self._runner.has_job(name) and time.monotonic() < until:
                time.sleep(_POLL_S)
            try:
                self._runner.forget_state(name)
                self._swaps.forget(query)
            except Exception as error:
                logger.warning("the state of a query was not removed job=%s error=%s", name, error)

    def _delete_topic(self, before: Catalog, name: str) -> None:
        if name in before.sources:
            self._cluster().delete_topic(before.source(name).topic)

    def _cluster(self) -> ClusterState:
        given = dict(self._runner.settings.client_properties)
        return ClusterState(kafka_properties.for_librdkafka(given))

    def on_loop(self, call: Callable[[], Awaitable[T]]) -> T:
        """Run a call on the runner's loop. Raises UnresolvedError when the runner lost its role."""
        try:
            return trio.from_thread.run(call, trio_token=self.token)
        except ConfigsWriteError as error:
            raise UnresolvedError(f"The change was not written: {error}") from None


class _SwapPort:
    """The parts of the runner and its SQL that swaps of tables use."""

    def __init__(self, host: HostedSql, runner: RunnerPort, topic: CatalogTopic) -> None:
        self.client = runner.settings.client_properties
        self.job_of = host.job_of
        self.progress = runner.progress
        self.forget_state = runner.forget_state
        self._host = host
        self._runner = runner
        self._topic = topic

    @property
    def catalog(self) -> Catalog:
        """Return the stored catalog."""
        return self._topic.catalog

    def config_of(self, job: str) -> Mapping[str, str | None] | None:
        """Return the stored configuration of a job, None without one."""
        found = self._runner.store.state.connectors.get(job)
        return None if found is None else found.config

    def target_of(self, job: str) -> TargetState | None:
        """Return the state that is wanted of a job, None without one."""
        found = self._runner.store.state.connectors.get(job)
        return None if found is None else found.target

    def write(self, after: Catalog, configurations: Sequence[ConfigRecord]) -> None:
        """Write a change in one transaction. Raises UnresolvedError."""
        before = self._topic.catalog
        self._host.on_loop(lambda: self._topic.write(before, after, configurations))

    def is_stopped(self, job: str) -> bool:
        """True when no run of a job is left. Raises NotActiveRunnerError."""
        url = self._runner.active_url()
        if url is not None:
            raise NotActiveRunnerError(url)
        return self._runner.is_stopped(job)


class HostedSession(SessionStatements):
    """A session on a runner."""

    def __init__(self, host: HostedSql) -> None:
        """Take the runner's SQL."""
        super().__init__(_SessionBackend(host, self))


class _SessionBackend:
    """The runner's SQL with the properties of one session."""

    def __init__(self, host: HostedSql, session: HostedSession) -> None:
        self.settings = host.settings
        self.control = host.control
        self.state_of = host.state_of
        self.looked_up = host.views.rows
        self.new_app = host.new_app
        self._host = host
        self._session = session

    @property
    def catalog(self) -> Catalog:
        """Return the catalog as it is now."""
        return self._host.catalog

    @property
    def app(self) -> HostedApp:
        """Return a new app: one would keep what each SELECT has described."""
        return self._host.new_app()

    def change(self, change: CatalogChange) -> AppliedChange:
        """Change the catalog. Raises SqlError, UnresolvedError."""
        return self._host.change(change, self._session.properties)
