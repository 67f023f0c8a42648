"""An engine without Spark, for tests of the runner: jobs run until they fail or are stopped."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from barnabas.pipeline.delivery.plan.job_plan import JobFailure, JobPlan, JobProgress, PartitionLag
from barnabas.pipeline.delivery.plan.task_failures import JobStartError


class FakeJob:
    """A job that only has a state."""

    def __init__(self, plan: JobPlan) -> None:
        self._plan = plan
        self.end: JobFailure | None = None
        self.is_stopped = False
        self.trimmed = 0

    @property
    def plan(self) -> JobPlan:
        return self._plan

    def is_running(self) -> bool:
        return not self.is_stopped and self.end is None

    def progress(self) -> JobProgress:
        lag = tuple(PartitionLag(topic, 0, 7, 9) for topic in self._plan.topics)
        return JobProgress(
            records=7,
            written=6,
            dead_letters=1,
            lag=lag,
            phases_ms={"addBatch": 3},
            records_per_second=3.0,
            trimmed=self.trimmed,
        )

    def failure(self) -> JobFailure | None:
        return self.end

    def stop(self, timeout_s: float = 30.0) -> None:
        self.is_stopped = True


class FakeEngine:
    """Keeps all jobs that were started. `refuse` returns why a plan cannot start."""

    def __init__(self) -> None:
        self.jobs: list[FakeJob] = []
        self.is_up = False
        self.starts = 0
        self.forgotten: list[tuple[str, str, str | None]] = []
        self.refuse: Callable[[JobPlan], JobFailure | None] = lambda plan: None
        self._lock = threading.Lock()

    def start(self) -> None:
        self.starts += 1
        self.is_up = True

    def stop(self) -> None:
        self.is_up = False
        for job in self.jobs:
            job.is_stopped = True

    def end_session(self) -> None:
        self.is_up = False
        for job in self.jobs:
            job.is_stopped = job.is_stopped or job.plan.needs_session

    @property
    def session(self) -> Any:
        raise RuntimeError("there is no Spark here")

    def is_alive(self) -> bool:
        return self.is_up

    def crash(self) -> None:
        """End as a JVM that is killed."""
        self.end_session()

    def forget_state(
        self, job: str, group_id: str, checkpoint: str | None, properties: Mapping[str, Any]
    ) -> None:
        self.forgotten.append((job, group_id, checkpoint))

    def start_job(self, plan: JobPlan) -> FakeJob:
        failure = self.refuse(plan)
        if failure is not None:
            raise JobStartError(failure)
        job = FakeJob(plan)
        with self._lock:
            running = [each for each in self.jobs if each.is_running()]
            assert plan.name not in {each.plan.name for each in running}, "a second run"
            self.jobs.append(job)
        return job

    def running(self) -> dict[str, FakeJob]:
        """Return the jobs that run, by name."""
        return {each.plan.name: each for each in self.jobs if each.is_running()}
