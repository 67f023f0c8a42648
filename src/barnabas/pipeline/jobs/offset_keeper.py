"""Keeps the committed offsets of jobs from expiring, those of stopped and idle jobs included."""

import logging
from typing import Final

import trio

from barnabas.pipeline.delivery.forward import offset_refresh
from barnabas.pipeline.jobs.job_planning import JobPlanner, JobSpec
from barnabas.pipeline.jobs.runner_store import RunnerStore

logger = logging.getLogger(__name__)

_GENERATION: Final = 0


async def keep_offsets(store: RunnerStore, planner: JobPlanner) -> None:
    """Look at all jobs every hour, for as long as the task runs."""
    pause_s = offset_refresh.FIRST_S
    while True:
        await trio.sleep(pause_s)
        pause_s = offset_refresh.EVERY_S
        for name, entry in list(store.state.connectors.items()):
            await trio.to_thread.run_sync(_refresh, planner, JobSpec(name, entry.config))


def _refresh(planner: JobPlanner, spec: JobSpec) -> None:
    """Commit the old offsets of one job again; a job that cannot run now is left for later."""
    try:
        count = offset_refresh.refresh(planner.plan(spec, _GENERATION).plan)
    except Exception as error:
        logger.warning("cannot commit idle offsets again job=%s error=%s", spec.name, error)
    else:
        if count:
            logger.info("committed idle offsets again job=%s partitions=%d", spec.name, count)
