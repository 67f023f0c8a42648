"""All jobs of one runner: their target states, their runs, and the next steps.

The fleet is idle on a runner that stands by. Methods take an event and the time in seconds and
return effects with the name of their job, to carry out in order.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from barnabas.pipeline.jobs.core.job_supervision import (
    Effect,
    Failure,
    JobSupervision,
    RestartPolicy,
    TargetState,
)


@attrs.frozen
class WantedJob:
    """A job of the store. A new `spec`, compared with ==, makes the job start again."""

    spec: Any
    target: TargetState
    needs_engine: bool = True
    """False for a job that runs beside the engine."""


@attrs.frozen
class JobEffect:
    """An effect of one job's supervision."""

    job: str
    effect: Effect


@attrs.frozen
class Forget:
    """A removed job has ended: its statuses can be removed."""

    job: str


FleetEffect = JobEffect | Forget


class JobFleet:
    """The supervisions of all jobs, by name."""

    def __init__(self, policy: RestartPolicy) -> None:
        self.jobs: dict[str, JobSupervision] = {}
        self._policy = policy
        self._engine_is_up = False
        self._engine_problem: str | None = None

    @property
    def wake_at(self) -> float:
        """When `wake` must be called."""
        return min((job.wake_at for job in self.jobs.values()), default=float("inf"))

    @property
    def needs_engine(self) -> bool:
        """True when a job is to run that cannot run without the engine."""
        return any(job.waits_for_engine for job in self.jobs.values())

    def desire(self, wanted: Mapping[str, WantedJob], now: float) -> list[FleetEffect]:
        """Compare with all jobs of the store; stop and remove those that are missing there."""
        effects: list[FleetEffect] = []
        for name in list(self.jobs):
            if name not in wanted:
                job = self.jobs[name]
                removed = job.desire(None, TargetState.STOPPED, now)
                effects += self._of(name, removed)
        for name, each in wanted.items():
            job = self._job(name, now)
            desired = job.desire(each.spec, each.target, now, needs_engine=each.needs_engine)
            effects += self._of(name, desired)
        return effects

    def _job(self, name: str, now: float) -> JobSupervision:
        job = self.jobs.get(name)
        if job is None:
            job = self.jobs[name] = JobSupervision(self._policy)
            if self._engine_is_up:
                job.engine_up(now)
            elif self._engine_problem is not None:
                job.engine_refused(self._engine_problem, now)
        return job

    def engine_up(self, now: float) -> list[FleetEffect]:
        """Handle: the engine accepts jobs."""
        self._engine_is_up, self._engine_problem = True, None
        return self._all(now, JobSupervision.engine_up)

    def engine_refused(self, problem: str, now: float) -> list[FleetEffect]:
        """Handle: the engine cannot start; jobs that need it say why."""
        self._engine_problem = problem
        effects: list[FleetEffect] = []
        for name, job in list(self.jobs.items()):
            effects += self._of(name, job.engine_refused(problem, now))
        return effects

    def held_by_engine(self) -> dict[str, Any]:
        """Return the specs of the jobs that would start now if the engine accepted jobs."""
        return {name: job.spec for name, job in self.jobs.items() if job.is_held_by_engine}

    def tasks_known(self, name: str, now: float) -> list[FleetEffect]:
        """Handle: the tasks of a job that waits for the engine are known."""
        job = self.jobs.get(name)
        return [] if job is None else self._of(name, job.tasks_known(now))

    def engine_down(self, now: float) -> list[FleetEffect]:
        """Handle: the engine and all its runs have ended."""
        self._engine_is_up = False
        return self._all(now, JobSupervision.engine_down)

    def wake(self, now: float) -> list[FleetEffect]:
        """Start the jobs again whose backoff is over."""
        return self._all(now, JobSupervision.wake)

    def started(self, name: str, run: int, now: float) -> list[FleetEffect]:
        """Handle: a job's run processes records."""
        job = self.jobs.get(name)
        return [] if job is None else self._of(name, job.started(run, now))

    def failed(self, name: str, run: int, failure: Failure, now: float) -> list[FleetEffect]:
        """Handle: a job's run has failed."""
        job = self.jobs.get(name)
        return [] if job is None else self._of(name, job.failed(run, failure, now))

    def stopped(self, name: str, run: int, now: float) -> list[FleetEffect]:
        """Handle: a job's run has ended as requested."""
        job = self.jobs.get(name)
        return [] if job is None else self._of(name, job.stopped(run, now))

    def restart(self, name: str, now: float) -> list[FleetEffect]:
        """Restart a job on request."""
        job = self.jobs.get(name)
        return [] if job is None else self._of(name, job.restart(now))

    def _all(self, now: float, event: Any) -> list[FleetEffect]:
        effects: list[FleetEffect] = []
        for name, job in list(self.jobs.items()):
            effects += self._of(name, event(job, now))
        return effects

    def _of(self, name: str, effects: list[Effect]) -> list[FleetEffect]:
        found: list[FleetEffect] = [JobEffect(name, effect) for effect in effects]
        if self.jobs[name].is_over:
            del self.jobs[name]
            found.append(Forget(name))
        return found
