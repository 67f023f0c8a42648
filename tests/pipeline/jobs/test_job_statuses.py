"""Statuses that are reported faster than they are written."""

from collections.abc import Sequence
from typing import cast

import trio
import trio.testing

from barnabas.pipeline.connect.plugin_registry import PluginRegistry
from barnabas.pipeline.jobs.core.job_supervision import JobState, ReportState
from barnabas.pipeline.jobs.core.store_records import (
    ActiveTopicRecord,
    CommitRecord,
    ConnectorRecord,
    StatusRecord,
    TaskRecord,
)
from barnabas.pipeline.jobs.core.store_state import StoreState
from barnabas.pipeline.jobs.job_statuses import JobStatuses
from barnabas.pipeline.jobs.runner_store import RunnerStore

JOB = "copy"


class StoreOfStatuses:
    """The part of the store that statuses use: what is written is replayed."""

    def __init__(self) -> None:
        self.state = StoreState()
        self.state.replay_config(ConnectorRecord(JOB, {}))
        self.state.replay_config(TaskRecord(JOB, 0, {}))
        self.state.replay_config(CommitRecord(JOB, 1))

    async def write_statuses(self, records: Sequence[StatusRecord | ActiveTopicRecord]) -> None:
        """Replay the records."""
        for record in records:
            self.state.replay_status(record)


def written(statuses: JobStatuses) -> None:
    """Write all that is queued."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(statuses.write_queued)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    trio.run(main)


def statuses_of(store: StoreOfStatuses) -> JobStatuses:
    return JobStatuses(cast(RunnerStore, store), PluginRegistry(()), "here", tracks_topics=True)


def test_a_job_that_is_stopped_before_its_start_is_written_has_no_tasks() -> None:
    store = StoreOfStatuses()
    statuses = statuses_of(store)
    statuses.report(JOB, ReportState(JobState.RUNNING))
    statuses.report(JOB, ReportState(JobState.STOPPED))
    written(statuses)
    found = store.state.statuses[JOB]
    assert found.connector is not None
    assert (found.connector.state, found.tasks) == ("STOPPED", {})


def test_a_job_that_is_deleted_before_its_start_is_written_has_no_status() -> None:
    store = StoreOfStatuses()
    statuses = statuses_of(store)
    statuses.report(JOB, ReportState(JobState.RUNNING))
    store.state.replay_config(ConnectorRecord(JOB, None))
    statuses.forget(JOB)
    written(statuses)
    found = store.state.statuses.get(JOB)
    assert found is None or (found.connector, found.tasks) == (None, {})
