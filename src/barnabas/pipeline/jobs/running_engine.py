"""The engine as the runner sees it. Calls block for seconds; the runner makes them in threads."""

from collections.abc import Mapping
from typing import Any, Protocol

from barnabas.pipeline.delivery.plan.job_plan import JobPlan, RunningJob


class JobEngine(Protocol):
    """Starts jobs; `barnabas.pipeline.spark.engine` has the one that runs on Spark."""

    def start(self) -> None:
        """Start the session that jobs share. Raises an exception that says why it cannot."""
        ...

    def stop(self) -> None:
        """Stop all jobs, then the session."""
        ...

    def end_session(self) -> None:
        """Clean up after a session that ended by itself. Jobs that do not need it continue."""
        ...

    @property
    def session(self) -> Any:
        """Return the session, for queries of the caller. Raises an exception without one."""
        ...

    def is_alive(self) -> bool:
        """True while the session runs and answers."""
        ...

    def start_job(self, plan: JobPlan) -> RunningJob:
        """Start a job, which may need the session. Raises an exception that says why it cannot."""
        ...

    def forget_state(
        self, job: str, group_id: str, checkpoint: str | None, properties: Mapping[str, Any]
    ) -> None:
        """Remove the state of a job that is stopped, if it has any; the engine need not run.

        `checkpoint` is the one that the job's configuration names. `properties` are librdkafka's.
        Raises an exception when the state may be left.
        """
        ...
