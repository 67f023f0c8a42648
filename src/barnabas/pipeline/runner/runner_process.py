"""One runner: a Kafka client, the topics, the group of runners, the engine, and a listener.

HTTP answers at once; meanwhile the topics are read, and Spark starts on the active runner only.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import trio

from barnabas.client import KafkaClient, open_client
from barnabas.http import (
    HttpOptions,
    HttpSettings,
    HttpStartError,
    ListenAddress,
    bind_listener,
    serve_app,
)
from barnabas.http.host_metrics import HostMetrics
from barnabas.pipeline.connect.config_providers import ConfigProviders
from barnabas.pipeline.connect.connector_validation import ConnectorValidator
from barnabas.pipeline.connect.plugin_registry import plugin_registry
from barnabas.pipeline.delivery.driver.group_offsets import GroupOffsets
from barnabas.pipeline.delivery.plan.kafka_properties import for_librdkafka
from barnabas.pipeline.java.java_jobs import JavaJobs
from barnabas.pipeline.java.worker_metrics import add_worker_metrics
from barnabas.pipeline.jobs.active_runner import ActiveRunner
from barnabas.pipeline.jobs.activity import Activity
from barnabas.pipeline.jobs.configs_writer import ConfigsWriteError
from barnabas.pipeline.jobs.core.store_records import LoggerRecord
from barnabas.pipeline.jobs.job_logs import JobLogs
from barnabas.pipeline.jobs.job_planning import JobPlanner
from barnabas.pipeline.jobs.job_progress import add_job_metrics, progress_json
from barnabas.pipeline.jobs.job_statuses import JobStatuses
from barnabas.pipeline.jobs.runner_settings import RunnerSettings
from barnabas.pipeline.jobs.runner_store import RunnerStore
from barnabas.pipeline.jobs.running_engine import JobEngine
from barnabas.pipeline.jobs.source_topics import SourceTopics
from barnabas.pipeline.rest.connect_api import ConnectApi, ConnectContext
from barnabas.pipeline.rest.connect_calls import Answer, AskConnect
from barnabas.pipeline.rest.connector_offsets import StoredOffsets
from barnabas.pipeline.rest.connector_service import ConnectorService, RunnerView
from barnabas.pipeline.rest.java_routing import JavaSide, WorkerService
from barnabas.pipeline.rest.job_rights import CallerRights, RestAccess, TopicAuthorizing
from barnabas.pipeline.rest.request_forwarding import RequestForwarding
from barnabas.pipeline.rest.runner_loggers import RunnerLoggers
from barnabas.pipeline.views.live_view import LiveView

if TYPE_CHECKING:
    from barnabas.pipeline.runner.runner_sql import RunnerSql
    from barnabas.pipeline.sql.hosting.hosted_sql import HostedSql

logger = logging.getLogger(__name__)
_package_logger = logging.getLogger("barnabas.pipeline")


@attrs.frozen
class RunnerListen:
    """The address for clients, and their authentication."""

    address: ListenAddress
    http: HttpOptions = attrs.field(factory=HttpOptions)
    advertised_url: str | None = None
    authorizer: Callable[[KafkaClient, Mapping[str, str]], TopicAuthorizing] | None = None
    """Makes what decides by ACLs, where the settings ask for it."""

    serve_sql: "Callable[[HostedSql, RestAccess, AskConnect], Awaitable[None]] | None" = None
    """Serves sessions of SQL for as long as the runner runs, where the settings ask for SQL."""

    sql_url: str = ""
    """Where other runners reach the SQL of this one."""

    def check(self) -> None:
        """Raise HttpStartError for an address beyond this machine without authentication.

        Connectors read and write files and databases with the rights of the runner.
        """
        if self.address.is_local or self.http.needs_authentication:
            return
        raise HttpStartError(
            f"refusing to listen on {self.address} without authentication: connectors reach files "
            "and databases of this machine; use --auth kafka, --password-file or --token-keys, or "
            "listen on 127.0.0.1"
        )


class Runner:
    """Wires the parts of one runner."""

    def __init__(
        self,
        client: KafkaClient,
        settings: RunnerSettings,
        engine: JobEngine,
        url: str,
        listen: RunnerListen,
        authorizer: TopicAuthorizing | None = None,
    ) -> None:
        registry = plugin_registry()
        self._forwarding = RequestForwarding(listen.http.tls)
        self._settings = settings
        self._engine = engine
        self._view = RunnerView(url)
        self._providers = ConfigProviders(settings.providers)
        self._store = RunnerStore(client, settings)
        self._topics = SourceTopics(client, self._store)
        self._activity = Activity(
            client, settings.group_id, settings.configs.name, url, listen.sql_url
        )
        self._view.active_url = lambda: self._activity.role.active_url
        self._client = client
        self._access = RestAccess(settings.full_users, authorizer)
        self._active: ActiveRunner | None = None
        self._java: JavaJobs | None = None
        if settings.java is not None:
            self._java = JavaJobs(client, settings, settings.java, registry)
        self._sql: RunnerSql | None = None
        self._api: ConnectApi | None = None
        self._serve_sql = listen.serve_sql
        self._loggers = RunnerLoggers()
        self._logs = JobLogs()
        self._planner = JobPlanner(registry, self._providers, settings.defaults)
        converters = settings.defaults.converter_properties
        validator = ConnectorValidator(registry, settings.group_id, converters)
        self._service = ConnectorService(
            self._store, registry, validator, self._providers, self._view
        )
        self._java_side = self._side_of_java(validator)
        self._store.on_logger = self._apply_level
        self._store.on_fenced = self._activity.step_down

    async def _open_sql(self) -> None:
        """Read the catalog of SQL, where the settings ask for SQL: nothing else imports it."""
        if self._settings.sql is None:
            return
        from barnabas.pipeline.runner.runner_sql import RunnerSql

        self._sql = RunnerSql(
            self._client,
            self._settings,
            self._store,
            self._engine,
            self._service.validate,
            lambda: self._active,
            lambda: self._activity.role,
        )
        await self._sql.host.open()

    def _side_of_java(self, validator: ConnectorValidator) -> JavaSide | None:
        java = self._java
        if java is None:
            return None
        service = WorkerService(java.store, java.registry, validator, self._providers, self._view)
        return JavaSide(java, service)

    def api(self, base_url: str) -> ConnectApi:
        """Return the REST API."""
        properties = for_librdkafka(self._settings.client_properties)
        offsets = StoredOffsets(
            self._service,
            self._store,
            GroupOffsets(self._client),
            self._topics,
            partial(self._engine.forget_state, properties=properties),
        )
        self._api = ConnectApi(
            ConnectContext(
                self._service,
                offsets,
                self._loggers,
                self.progress,
                self._logs.lines,
                self.engine_problem,
                self.views,
                base_url,
                self._forwarding,
                (ConfigsWriteError,),
                self._settings.tracks_topics,
                self._settings.allows_topics_reset,
                self._access,
                self._java_side,
            )
        )
        return self._api

    async def _ask(
        self, method: str, segments: Sequence[str], body: object, rights: CallerRights
    ) -> Answer:
        """Return the answer of the REST API to a statement of SQL."""
        if self._api is None:
            raise ValueError("the REST API is made before the runner runs")
        return await self._api.ask(method, segments, body, rights)

    def not_ready(self) -> str | None:
        """Return why the runner is not ready, or None."""
        return self._view.starting or self.engine_problem()

    def engine_problem(self) -> str | None:
        """Return why no job can run; a runner on standby needs no engine."""
        if self._active is not None:
            return self._active.engine_problem
        return None if self._activity.is_decided else "The runner joins its group"

    def progress(self, name: str) -> dict[str, Any]:
        """Return the figures of a job."""
        active = self._active
        if active is None:
            return progress_json(None, None)
        return progress_json(active.fleet.jobs.get(name), active.progress.get(name))

    def views(self) -> dict[str, LiveView]:
        """Return the views that run here, by the names of their jobs."""
        return {} if self._active is None else self._active.views()

    def metrics(self) -> HostMetrics:
        """Return the metrics of the listener and of all jobs."""
        metrics = HostMetrics()
        add_job_metrics(metrics.registry, lambda: self._active)
        if self._java is not None:
            add_worker_metrics(metrics.registry, self._java.worker)
        return metrics

    def _apply_level(self, record: LoggerRecord) -> None:
        if record.level is not None:
            self._loggers.set_level(record.logger, record.level)

    async def run(self) -> None:
        """Read the topics, then be active or on standby until cancelled."""
        _package_logger.addHandler(self._logs)
        try:
            await self._run()
        finally:
            if self._sql is not None:
                self._sql.host.views.close()
            _package_logger.removeHandler(self._logs)

    async def _run(self) -> None:
        await self._store.open()
        if self._java is not None:
            await self._java.store.open()
        await self._open_sql()
        self._view.cluster_id = self._client.metadata.cluster_id or ""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._store.follow)
            if self._java is not None:
                nursery.start_soon(self._java.store.follow)
            if self._sql is not None:
                nursery.start_soon(self._sql.host.follow)
                if self._serve_sql is not None:
                    nursery.start_soon(self._serve_sql, self._sql.host, self._access, self._ask)
            nursery.start_soon(self._activity.run)
            self._view.starting = None
            while True:
                await self._activity.wait(active=True)
                await self._be_active()

    async def _be_active(self) -> None:
        """Run jobs until the group makes another runner the active one, or that one fences this."""
        statuses = JobStatuses(
            self._store,
            self._planner.registry,
            self._view.url.partition("://")[2],
            tracks_topics=self._settings.tracks_topics,
        )
        active = ActiveRunner(
            self._store,
            self._engine,
            self._planner,
            self._settings.restarts,
            statuses,
            self._topics,
        )
        self._active = active
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(active.run)
                if self._sql is not None:
                    nursery.start_soon(self._sql.host.swap_tables)
                if self._java is not None:
                    nursery.start_soon(self._java.run_worker)
                self._view.is_active = True
                await self._activity.wait(active=False)
                nursery.cancel_scope.cancel()
        except* ConfigsWriteError as group:
            logger.warning("another runner has taken over error=%s", group.exceptions[0])
            self._activity.step_down()
        finally:
            self._view.is_active = False
            self._active = None


async def run_runner(
    settings: RunnerSettings,
    listen: RunnerListen,
    engine: JobEngine,
    on_ready: Callable[[str], None] = lambda url: None,
    stop: Callable[[], Awaitable[None]] = trio.sleep_forever,
) -> None:
    """Serve until cancelled or until `stop` returns. `on_ready` gets the URL.

    Raises HttpStartError when it cannot or must not listen, StorageTopicError, ForeignGroupError,
    or what the client raises when Kafka refuses it.
    """
    listen.check()
    with bind_listener(listen.address) as listener:
        port: int = listener.getsockname()[1]
        address = ListenAddress(listen.address.host, port)
        url = listen.advertised_url or f"{listen.http.scheme}://{address}"
        async with open_client(settings.client) as client, trio.open_nursery() as nursery:
            authorizer = None
            if settings.authorizes and listen.authorizer is not None:
                authorizer = listen.authorizer(client, settings.acl_properties)
                await authorizer.load()
            runner = Runner(client, settings, engine, url, listen, authorizer)

            async def serve(task_status: "trio.TaskStatus[str]") -> None:
                await serve_app(
                    runner.api(url).asgi(),
                    HttpSettings(listen.address, listen.http),
                    not_ready=runner.not_ready,
                    metrics=runner.metrics(),
                    brokers=settings.client,
                    stop=stop,
                    listener=listener,
                    task_status=task_status,
                )
                nursery.cancel_scope.cancel()

            await nursery.start(serve)
            on_ready(url)
            await runner.run()
