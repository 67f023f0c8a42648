"""SQL on a runner, and the parts of the runner that its sessions use."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import trio

from barnabas.client import KafkaClient
from barnabas.pipeline.connect.connector_validation import ConfigInfos
from barnabas.pipeline.connect.rest_errors import bad_request
from barnabas.pipeline.delivery.plan.job_plan import JobProgress
from barnabas.pipeline.delivery.plan.kafka_properties import for_librdkafka
from barnabas.pipeline.jobs.active_runner import ActiveRunner
from barnabas.pipeline.jobs.core.activity_protocol import GroupRunner, Role
from barnabas.pipeline.jobs.core.job_supervision import Phase, TargetState
from barnabas.pipeline.jobs.group_runners import runners_of
from barnabas.pipeline.jobs.runner_settings import RunnerSettings, SqlSettings
from barnabas.pipeline.jobs.runner_store import RunnerStore
from barnabas.pipeline.jobs.running_engine import JobEngine
from barnabas.pipeline.sql.hosting.catalog_topic import CatalogTopic
from barnabas.pipeline.sql.hosting.hosted_sql import HostedSql, NotActiveRunnerError
from barnabas.pipeline.sql.sql_failures import UnresolvedError

_START_S: Final = 300.0
_POLL_S: Final = 0.1
_REFUSED: Final = "Spark cannot start"

Validate = Callable[[Mapping[str, str | None]], Awaitable[ConfigInfos]]


class RunnerSql:
    """The port of SQL to one runner, and SQL itself as `host`."""

    def __init__(
        self,
        client: KafkaClient,
        settings: RunnerSettings,
        store: RunnerStore,
        engine: JobEngine,
        validate: Validate,
        active: Callable[[], ActiveRunner | None],
        role: Callable[[], Role],
    ) -> None:
        self.settings = settings
        self.store = store
        self._client = client
        self._engine = engine
        self._validate = validate
        self._active = active
        self._role = role
        sql = settings.sql or SqlSettings(settings.configs, "")
        topic = CatalogTopic(client, sql.catalog, store)
        self.host = HostedSql(self, topic, sql.registry)

    async def check(self, config: Mapping[str, str | None]) -> None:
        """Validate a configuration. Raises ConnectRestError."""
        infos = await self._validate(config)
        if infos.errors:
            raise bad_request("; ".join(infos.errors))

    def active_url(self) -> str | None:
        """Return None on the active runner, and its URL on others."""
        return None if self._active() is not None else self._role().active_url

    def active_sql_url(self) -> str | None:
        """Return None on the active runner, and on others where it serves SQL, if it does."""
        return None if self._active() is not None else self._role().active_sql_url

    async def runners(self) -> list[GroupRunner]:
        """Return the runners of the group. Raises KafkaError, ClientError."""
        return await runners_of(self._client, self.settings.group_id)

    def has_job(self, name: str) -> bool:
        """True until a job of this runner has ended."""
        active = self._active()
        return active is not None and name in active.fleet.jobs

    def is_stopped(self, name: str) -> bool:
        """True when no run of a job is left on this runner, and none is wanted."""
        active = self._active()
        job = None if active is None else active.fleet.jobs.get(name)
        if job is None:
            return True
        is_idle = job.phase in (Phase.IDLE, Phase.FAILED)
        return is_idle and job.target is not TargetState.STARTED

    def progress(self, name: str) -> JobProgress | None:
        """Return the progress of a job that runs here, None for another one."""
        active = self._active()
        if active is None or not active.runs(name):
            return None
        return active.progress.get(name)

    def spark(self) -> Any:
        """Return the Spark session; it starts when nothing has needed it.

        Raises UnresolvedError when it cannot start, NotActiveRunnerError on a runner that stands
        by.
        """
        until = time.monotonic() + _START_S
        while not self._engine.is_alive():
            active = self._active()
            if active is None:
                raise NotActiveRunnerError(self._role().active_url)
            trio.from_thread.run_sync(active.want_engine, trio_token=self.host.token)
            problem = active.engine_problem or ""
            if problem.startswith(_REFUSED) or time.monotonic() > until:
                raise UnresolvedError(problem or "Spark did not start in time")
            time.sleep(_POLL_S)
        return self._engine.session

    def forget_state(self, name: str) -> None:
        """Remove positions and state of a job that has ended. Raises any error of the cluster."""
        properties = for_librdkafka(self.settings.client_properties)
        self._engine.forget_state(name, name, None, properties)
