"""The engine: one Spark session in which jobs run.

All calls block, for seconds when the session starts; call them from threads of the runner.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from barnabas.pipeline.connect.plugin_registry import CONNECTORS, plugin_registry
from barnabas.pipeline.delivery.driver.spark_library import SparkSession
from barnabas.pipeline.delivery.micro_batches.checkpoint_files import checkpoint_of
from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan, RunningJob
from barnabas.pipeline.spark.session import SessionSettings, SparkProcess

_STOP_TIMEOUT_S: Final = 20.0
"""All jobs together; the driver JVM has its own time to exit."""


class EngineStoppedError(Exception):
    """The session ended, or was not started."""


class Engine:
    """Starts jobs in one Spark session, and stops them with it."""

    def __init__(self, settings: SessionSettings, view_directory: Path | None = None) -> None:
        self._settings = settings
        self._view_directory = view_directory or settings.work_directory / "views"
        self._process: SparkProcess | None = None
        self._jobs: list[RunningJob] = []
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the driver JVM. Raises SparkUnavailableError when it cannot start."""
        with self._lock:
            if self._process is None:
                self._process = SparkProcess.start(self._settings)

    def stop(self) -> None:
        """Stop all jobs at the same time, then the driver JVM."""
        with self._lock:
            jobs, self._jobs = self._jobs, []
            process, self._process = self._process, None
        if process is None or not process.is_alive():
            jobs = [job for job in jobs if not job.plan.needs_session]
        _stop_all(jobs)
        if process is not None:
            process.stop()

    def end_session(self) -> None:
        """Clean up after a session that ended by itself. Jobs that do not need it continue."""
        with self._lock:
            self._jobs = [job for job in self._jobs if not job.plan.needs_session]
            process, self._process = self._process, None
        if process is not None:
            process.stop()

    def is_alive(self) -> bool:
        """True while the driver JVM runs and answers."""
        process = self._process
        return process is not None and process.is_alive()

    @property
    def session(self) -> SparkSession:
        """Return the session, for queries of the caller. Raises EngineStoppedError."""
        process = self._process
        if process is None or not process.is_alive():
            raise EngineStoppedError("the Spark session is not running")
        return process.session

    def checkpoint_of(self, job: str) -> str:
        """Return the place of the checkpoint of a job with state."""
        directory = self._settings.checkpoint_directory
        return checkpoint_of(directory or str(self._settings.work_directory / "state"), job)

    def forget_state(
        self, job: str, group_id: str, checkpoint: str | None, properties: Mapping[str, Any]
    ) -> None:
        """Remove the checkpoint and the markers of a stopped job, if it has any.

        Raises KafkaException, GroupOffsetsError, TimeoutError, OSError.
        """
        from barnabas.pipeline.delivery.micro_batches import micro_batch_removal

        place = checkpoint or self.checkpoint_of(job)
        micro_batch_removal.forget(job, group_id, properties, place)
        micro_batch_removal.forget_chained(job, properties, self.checkpoint_of)

    def start_job(self, plan: JobPlan) -> RunningJob:
        """Start a job.

        Raises JobStartError when the plan cannot run (its `failure` says whether a restart helps),
        EngineStoppedError without a session.
        """
        from barnabas.pipeline.delivery.forward import forward_job
        from barnabas.pipeline.delivery.lake import lake_job, row_source_job
        from barnabas.pipeline.delivery.slices import slices_job
        from barnabas.pipeline.mirror import mirror_job
        from barnabas.pipeline.spark import own_application
        from barnabas.pipeline.views import view_job

        job: RunningJob
        if plan.is_isolated:
            return self._kept(own_application.start(self._settings, plan))
        if plan.kind is JobKind.VIEW:
            job = view_job.start(plan, self._view_directory)
        elif plan.kind is JobKind.SOURCE:
            job = slices_job.start(self.session, plan)
        elif plan.kind is JobKind.MIRROR:
            job = mirror_job.start(self.session, plan)
        elif plan.kind is JobKind.QUERY:
            job = self._start_query(plan)
        elif plan.kind is JobKind.SPARK_SINK:
            job = lake_job.start(self.session, plan)
        elif plan.kind is JobKind.SPARK_SOURCE:
            job = row_source_job.start(self.session, plan)
        else:
            job = forward_job.start(self.session, plan)
        return self._kept(job)

    def _start_query(self, plan: JobPlan) -> RunningJob:
        """Start a query by its connector, which is above Spark. Raises JobStartError."""
        connector = plugin_registry().find(plan.connector_class, *CONNECTORS).load()
        found: RunningJob = connector.start_job(
            self.session, plan, self._settings.work_directory, self.checkpoint_of
        )
        return found

    def _kept(self, job: RunningJob) -> RunningJob:
        """Return a job that ends with the engine."""
        with self._lock:
            self._jobs = [other for other in self._jobs if other.is_running()] + [job]
        return job


def _stop_all(jobs: Sequence[RunningJob]) -> None:
    """Stop jobs at the same time: each ends its transaction first."""
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    threads = [
        threading.Thread(target=job.stop, args=(_STOP_TIMEOUT_S,), daemon=True) for job in jobs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
