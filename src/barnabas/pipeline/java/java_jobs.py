"""The worker's jobs and plug-ins, as the runner sees them.

Configurations and states come from the worker's topics, which every runner replays. While the
worker does not run, the active runner writes the state UNASSIGNED there, as Connect does.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast
from urllib.parse import quote

import attrs
import trio

from barnabas.client import ClientError, KafkaClient
from barnabas.pipeline.connect.plugin_registry import Plugin, PluginKind, PluginRegistry
from barnabas.pipeline.connect.rest_errors import ConnectRestError
from barnabas.pipeline.java.failed_jobs import FailedJobs
from barnabas.pipeline.java.worker_process import WorkerProcess
from barnabas.pipeline.java.worker_requests import (
    WorkerAnswer,
    WorkerClient,
    WorkerUnreachableError,
)
from barnabas.pipeline.java.worker_settings import worker_group
from barnabas.pipeline.jobs.core.job_supervision import JobState, TargetState
from barnabas.pipeline.jobs.core.store_records import StatusRecord
from barnabas.pipeline.jobs.core.store_state import StoreState
from barnabas.pipeline.jobs.runner_settings import JavaSettings, RunnerSettings
from barnabas.pipeline.jobs.runner_store import RunnerStore
from barnabas.protocol.errors import KafkaError

logger = logging.getLogger(__name__)

_WAIT_S: Final = 90.0
_RETRY_S: Final = 0.5
_LOOK_S: Final = 1.0
_UNAVAILABLE: Final = 503
_PLUGINS: Final = "/connector-plugins"
_HELD: Final = (JobState.RUNNING.value, JobState.RESTARTING.value)
"""The states of what runs on a worker, and does not run without it."""
_KINDS: Final = {kind.value: kind for kind in PluginKind}


class JavaJobs:
    """The jobs of the worker, on the active runner and on standby."""

    def __init__(
        self, client: KafkaClient, settings: RunnerSettings, java: JavaSettings, own: PluginRegistry
    ) -> None:
        """`own` are the plug-ins of the runner."""
        self.store = RunnerStore(client, worker_group(settings), reads_offsets=False)
        self.worker = WorkerProcess(settings, java, self._on_ready, self._on_lost)
        self.plugins: list[dict[str, Any]] = []
        """The worker's plug-ins as its REST API lists them, empty until it has started."""
        self.registry = PluginRegistry(())
        """The worker's plug-ins; they cannot be loaded."""
        self.all_plugins = own
        """The runner's plug-ins, and those that only the worker has."""
        self.changing = trio.Lock()
        """Held while a job is created: names are unique over the runner's jobs and these."""
        self._own = own
        self._policy = settings.restarts

    @property
    def state(self) -> StoreState:
        """The replayed topics."""
        return self.store.state

    async def run_worker(self) -> None:
        """Run the worker while this runner is active, as soon as a job or a request needs it."""
        await self.store.catch_up()
        if any(each.target is not TargetState.STOPPED for each in self.state.connectors.values()):
            self.worker.need()
        else:
            await self.worker.report_problem()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._restart_failed)
            await self.worker.run()

    async def _restart_failed(self) -> None:
        """Restart failed jobs after their delays, while the worker runs."""
        failed = FailedJobs(self._policy)
        while True:
            await trio.sleep(_LOOK_S)
            if self.worker.client is None:
                continue
            names = {
                each.connector
                for each in self._statuses()
                if each.state == JobState.FAILED.value and self._is_started(each.connector)
            }
            for name in failed.due(names, trio.current_time()):
                await self._restart(name)

    def _is_started(self, name: str) -> bool:
        entry = self.state.connectors.get(name)
        return entry is not None and entry.target is TargetState.STARTED

    async def _restart(self, name: str) -> None:
        query = [("includeTasks", "true"), ("onlyFailed", "true")]
        try:
            await self.ask("POST", f"/connectors/{quote(name, safe='')}/restart", query)
        except ConnectRestError as error:
            logger.warning("java job does not restart job=%s error=%s", name, error)
        else:
            logger.info("restarted failed java job job=%s", name)

    async def ready(self) -> WorkerClient:
        """Return what sends requests to the worker, started for it if necessary.

        Raises ConnectRestError (503) when it does not start.
        """
        self.worker.need()
        with trio.move_on_after(_WAIT_S):
            while self.worker.client is None and self.worker.problem is None:
                await self.worker.wait_change()
        if self.worker.client is None:
            reason = self.worker.problem or f"it has not started within {_WAIT_S:g} s"
            raise ConnectRestError(_UNAVAILABLE, f"The worker of Java's connectors: {reason}")
        return self.worker.client

    async def ask(
        self, method: str, path: str, query: Sequence[tuple[str, str]] = (), body: Any = None
    ) -> WorkerAnswer:
        """Return the worker's answer; a request is repeated while its group rebalances.

        Raises ConnectRestError when the worker does not run, or refuses the request.
        """
        client = await self.ready()
        deadline = trio.current_time() + _WAIT_S
        while True:
            try:
                answer = await client.send(method, path, query, body)
            except WorkerUnreachableError as error:
                raise ConnectRestError(
                    _UNAVAILABLE, f"The worker of Java's connectors does not answer: {error}"
                ) from None
            if answer.is_success:
                return answer
            if not answer.is_passing or trio.current_time() > deadline:
                raise ConnectRestError(answer.status, answer.message)
            await trio.sleep(_RETRY_S)

    async def _on_ready(self, client: WorkerClient) -> None:
        """Read the table of plug-ins."""
        try:
            answer = await client.send("GET", _PLUGINS, [("connectorsOnly", "false")])
        except WorkerUnreachableError as error:
            logger.warning("cannot list the java worker's plug-ins error=%s", error)
            return
        body = answer.body
        self.plugins = cast(list[dict[str, Any]], body) if isinstance(body, list) else []
        found = list(_plugins(self.plugins))
        self.registry = PluginRegistry(found)
        known = {(each.kind, each.class_name) for each in self._own.plugins()}
        added = [each for each in found if (each.kind, each.class_name) not in known]
        self.all_plugins = PluginRegistry([*self._own.plugins(), *added])

    async def _on_lost(self, reason: str) -> None:
        """Write that no job runs."""
        trace = f"The worker of Java's connectors does not run: {reason}"
        records = [
            attrs.evolve(each, state=JobState.UNASSIGNED.value, trace=trace)
            for each in self._statuses()
            if each.state in _HELD and each.connector in self.state.connectors
        ]
        try:
            await self.store.write_statuses(records)
        except (ClientError, KafkaError) as error:
            logger.warning("cannot write the states of java jobs error=%s", error)

    def _statuses(self) -> Iterator[StatusRecord]:
        for found in self.state.statuses.values():
            yield from found.tasks.values()
            if found.connector is not None:
                yield found.connector


def _plugins(found: list[dict[str, Any]]) -> Iterator[Plugin]:
    """Yield the rows of a list of plug-ins; of several versions the first."""
    seen: set[tuple[str, str]] = set()
    for each in found:
        kind, name = str(each.get("type")), str(each.get("class"))
        if kind in _KINDS and (kind, name) not in seen:
            seen.add((kind, name))
            yield Plugin(_KINDS[kind], name, "", str(each.get("version")))
