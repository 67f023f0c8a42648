"""The engine as the runner sees it. Calls block for seconds; the runner makes them in threads."""

from collections.abc import Mapping
from typing import Any, Protocol

from barnabas.pipeline.delivery.job_plan import JobPlan, RunningJob


class JobEngine(Protocol):
    """Starts jobs; `barnabas.pipeline.spark.engine` has the one that runs on Spark."""

    def start(self) -> None:
        """Get ready to run jobs. Raises an exception that says why it cannot."""
        ...

    def stop(self) -> None:
        """Stop all jobs, then the engine."""
        ...

    def is_alive(self) -> bool:
        """True while the engine runs and answers."""
        ...

    def start_job(self, plan: JobPlan) -> RunningJob:
        """Start a job. Raises an exception that says why it cannot."""
        ...

    def forget_state(
        self, job: str, group_id: str, checkpoint: str | None, properties: Mapping[str, Any]
    ) -> None:
        """Remove the state of a job that is stopped, if it has any; the engine need not run.

        `checkpoint` is the one that the job's configuration names. `properties` are librdkafka's.
        Raises an exception when the state may be left.
        """
        ...
