"""The states of jobs as records of the status topic, written in order by one task."""

import logging
import math
import time
from collections.abc import Callable
from typing import Final

import trio

from barnabas.client import ClientError
from barnabas.pipeline.connect.plugin_registry import (
    CONNECTORS,
    PluginNotFoundError,
    PluginRegistry,
)
from barnabas.pipeline.delivery.plan.job_plan import JobPlan, JobProgress
from barnabas.pipeline.jobs.core.job_supervision import JobState, ReportState
from barnabas.pipeline.jobs.core.store_records import ActiveTopicRecord, StatusRecord
from barnabas.pipeline.jobs.job_topics import source_topics
from barnabas.pipeline.jobs.runner_store import RunnerStore
from barnabas.protocol.errors import KafkaError

logger = logging.getLogger(__name__)

_RETRY_S: Final = 1.0
_OF_TASKS: Final = (JobState.FAILED, JobState.RESTARTING)

_Records = list[StatusRecord | ActiveTopicRecord]
_Change = Callable[[], _Records]
"""Returns the records of a report when its turn comes: the records before it are replayed then."""


class JobStatuses:
    """Turns reports into records. A job is one unit: its tasks share its state."""

    def __init__(
        self, store: RunnerStore, registry: PluginRegistry, worker_id: str, *, tracks_topics: bool
    ) -> None:
        self._store = store
        self._registry = registry
        self._worker_id = worker_id
        self._tracks_topics = tracks_topics
        self._send, self._receive = trio.open_memory_channel[_Change](math.inf)

    async def write_queued(self) -> None:
        """Write records in the order of their reports, for as long as the task runs."""
        while True:
            records = (await self._receive.receive())()
            while True:
                try:
                    await self._store.write_statuses(records)
                    break
                except (ClientError, KafkaError) as error:
                    logger.warning("cannot write statuses, retrying error=%s", error)
                    await trio.sleep(_RETRY_S)

    def report(self, name: str, report: ReportState) -> None:
        """Queue the state of a job and of its tasks."""
        state, entry = report.state, self._store.state.connectors.get(name)
        if entry is None:
            return
        class_name = entry.config.get("connector.class") or ""
        tasks = 0 if state is JobState.STOPPED else len(entry.tasks)
        # As in Java's Connect, a connector whose tasks failed is running.
        is_of_tasks = state in _OF_TASKS and tasks > 0 and not report.is_of_connector
        own = JobState.RUNNING if is_of_tasks else state
        trace = None if is_of_tasks else report.trace
        records: _Records = [self._record(name, None, own, trace, class_name)]
        records += [
            self._record(name, task, state, report.trace, class_name) for task in range(tasks)
        ]
        self._send.send_nowait(lambda: [*records, *self._removed_tasks(name, tasks)])

    def _record(
        self, name: str, task: int | None, state: JobState, trace: str | None, class_name: str
    ) -> StatusRecord:
        try:
            version = self._registry.find(class_name, *CONNECTORS).version
        except PluginNotFoundError:
            version = None
        return StatusRecord(name, task, state.value, trace, self._worker_id, 1, version)

    def _removed_tasks(self, name: str, tasks: int) -> _Records:
        known = self._store.state.statuses.get(name)
        numbers = [] if known is None else [number for number in known.tasks if number >= tasks]
        return [StatusRecord(name, number, None) for number in numbers]

    def forget(self, name: str) -> None:
        """Queue the removal of everything about a deleted job."""
        if name in self._store.state.connectors:
            return  # created again meanwhile
        self._send.send_nowait(lambda: self._all_removed(name))

    def _all_removed(self, name: str) -> _Records:
        topics = self._store.state.topics.get(name, ())
        return [
            StatusRecord(name, None, None),
            *self._removed_tasks(name, 0),
            *(ActiveTopicRecord(topic, name, None) for topic in topics),
        ]

    def track_topics(self, name: str, plan: JobPlan, progress: JobProgress) -> None:
        """Queue topics that a job uses and that are not tracked yet."""
        if not self._tracks_topics or not progress.records:
            return
        known = self._store.state.topics.get(name, {})
        now_ms = time.time_ns() // 1_000_000
        records: _Records = [
            ActiveTopicRecord(topic, name, 0, now_ms)
            for topic in sorted(_topics_of(plan, progress) - known.keys())
        ]
        if records:
            self._send.send_nowait(lambda: records)


def _topics_of(plan: JobPlan, progress: JobProgress) -> set[str]:
    """Return the topics that a job reads, or the ones that a source's tasks name."""
    if plan.kind.is_source:
        return set(source_topics(plan))
    return {each.topic for each in progress.lag}
