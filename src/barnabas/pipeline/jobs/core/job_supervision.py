"""When to start, restart and stop one job: a state machine without threads or Spark.

    IDLE -> STARTING -> RUNNING -> STOPPING -> IDLE
               |           |
               +-----------+--> WAITING (backoff) -> STARTING
                           +--> FAILED (until the configuration changes, or a restart is requested)

Methods take an event and the time in seconds, and return the effects to carry out in order. A start
cannot be interrupted: what is no longer wanted is stopped once it has started. Every start has a
number, so events of an earlier run are ignored. A job that does not need the engine starts without
it, and stays when it ends.
"""

from enum import Enum
from typing import Any, Final

import attrs

_EXPONENT_MAX: Final = 30


class TargetState(Enum):
    """The state that a person wants for a job, as Connect's topics name it."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class JobState(Enum):
    """The state of a job that clients see."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"


class Phase(Enum):
    """The state of a job's run in the engine."""

    IDLE = "idle"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    WAITING = "waiting"
    FAILED = "failed"


@attrs.frozen
class RestartPolicy:
    """Delays in seconds. A job that ran for `healthy_s` starts again with the first delay.

    `restarts_max` is the number of restarts in a row, None for no limit; with 0 a failed job stays
    failed, as in Java's Connect.
    """

    first_delay_s: float = 1.0
    longest_delay_s: float = 600.0
    healthy_s: float = 600.0
    restarts_max: int | None = None

    def delay_s(self, failures: int) -> float | None:
        """Return the delay after a number of failures in a row, None when there is no restart."""
        if self.restarts_max is not None and failures > self.restarts_max:
            return None
        exponent = min(failures - 1, _EXPONENT_MAX)
        return min(self.first_delay_s * (1 << exponent), self.longest_delay_s)


@attrs.frozen
class Failure:
    """Why a run ended. A permanent failure is not retried: the same would happen again."""

    message: str
    trace: str
    is_permanent: bool = False
    is_of_connector: bool = False
    """True when the job has no tasks yet: its configuration or its connector failed."""


@attrs.frozen
class StartRun:
    """Start the job; then call `started` or `failed` with the run's number."""

    spec: Any
    run: int


@attrs.frozen
class StopRun:
    """Stop the run; then call `stopped`."""

    run: int


@attrs.frozen
class ReportState:
    """Write the job's status; `trace` is of the connector, or of its tasks."""

    state: JobState
    trace: str | None = None
    is_of_connector: bool = False


Effect = StartRun | StopRun | ReportState


class JobSupervision:
    """The supervision of one job."""

    def __init__(self, policy: RestartPolicy) -> None:
        self.phase = Phase.IDLE
        self.wake_at = float("inf")
        """When `wake` must be called."""
        self.failures = 0
        """Failures in a row."""
        self.restarts = 0
        """Restarts after a failure since the supervision began."""
        self.last_failure: Failure | None = None
        self._policy = policy
        self._engine_is_up = False
        self._engine_problem: str | None = None
        self._needs_engine = True
        self._spec: Any = None
        self._target = TargetState.STOPPED
        self._run = 0
        self._run_spec: Any = None
        self._run_needs_engine = True
        self._started_at = 0.0
        self._restart_wanted = False
        self._reported: ReportState | None = None

    @property
    def is_over(self) -> bool:
        """True when the job is removed and nothing of it runs."""
        return self._spec is None and self.phase is Phase.IDLE

    @property
    def wants_to_run(self) -> bool:
        """True for a job that a person wants to run."""
        return self._spec is not None and self._target is TargetState.STARTED

    @property
    def waits_for_engine(self) -> bool:
        """True for a job that is to run and cannot run without the engine."""
        return self.wants_to_run and self._needs_engine

    @property
    def spec(self) -> Any:
        """The job that is wanted, None after its removal."""
        return self._spec

    @property
    def is_held_by_engine(self) -> bool:
        """True for a job that would start now if the engine accepted jobs."""
        return self.waits_for_engine and self.phase is Phase.IDLE and not self._engine_is_up

    @property
    def target(self) -> TargetState:
        """The state that is wanted of the job."""
        return self._target

    def desire(
        self, spec: Any, target: TargetState, now: float, *, needs_engine: bool = True
    ) -> list[Effect]:
        """Set the wanted job: its plan, None after its removal, and whether to run it."""
        is_new = spec != self._spec or target is not self._target
        self._spec, self._target, self._needs_engine = spec, target, needs_engine
        if is_new and self.phase in (Phase.WAITING, Phase.FAILED):
            self._clear_failures()
            self.phase = Phase.IDLE
        return self._reconcile(now)

    def engine_up(self, now: float) -> list[Effect]:
        """Handle: the engine accepts jobs."""
        self._engine_is_up, self._engine_problem = True, None
        return self._reconcile(now)

    def engine_refused(self, problem: str, now: float) -> list[Effect]:
        """Handle: the engine cannot start; `problem` says why and what to do."""
        self._engine_problem = problem
        return self._reconcile(now)

    def tasks_known(self, now: float) -> list[Effect]:
        """Handle: the tasks of a job that waits for the engine are known; report its state again,
        which is theirs.
        """
        if not self.is_held_by_engine:
            return []
        self._reported = None
        return self._reconcile(now)

    def engine_down(self, now: float) -> list[Effect]:
        """Handle: the engine and all its runs have ended."""
        self._engine_is_up = False
        is_run = self.phase in (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)
        if is_run and self._run_needs_engine:
            self.phase = Phase.IDLE
        return self._reconcile(now)

    def restart(self, now: float) -> list[Effect]:
        """Restart the job on request."""
        if self._target is not TargetState.STARTED:
            return []
        self._clear_failures()
        if self.phase in (Phase.WAITING, Phase.FAILED):
            self.phase = Phase.IDLE
        elif self.phase in (Phase.STARTING, Phase.RUNNING):
            self._restart_wanted = True
        return [*self._report(JobState.RESTARTING), *self._reconcile(now)]

    def started(self, run: int, now: float) -> list[Effect]:
        """Handle: a run processes records."""
        if run != self._run or self.phase is not Phase.STARTING:
            return []
        self.phase = Phase.RUNNING
        self._started_at = now
        report = [] if self._must_stop() else self._report(JobState.RUNNING)
        return [*report, *self._reconcile(now)]

    def failed(self, run: int, failure: Failure, now: float) -> list[Effect]:
        """Handle: a run could not start, or has ended by itself."""
        if run != self._run or self.phase not in (Phase.STARTING, Phase.RUNNING, Phase.STOPPING):
            return []
        if self.phase is Phase.STOPPING or self._must_stop():
            self._restart_wanted = False
            self.phase = Phase.IDLE
            return self._reconcile(now)
        if self.phase is Phase.RUNNING and now - self._started_at >= self._policy.healthy_s:
            self.failures = 0
        self.failures += 1
        self.last_failure = failure
        return self._after_failure(failure, now)

    def stopped(self, run: int, now: float) -> list[Effect]:
        """Handle: a run has ended after `StopRun`."""
        if run != self._run or self.phase is not Phase.STOPPING:
            return []
        self.phase = Phase.IDLE
        return self._reconcile(now)

    def wake(self, now: float) -> list[Effect]:
        """Start again when the backoff is over."""
        if now < self.wake_at:
            return []
        self.wake_at = float("inf")
        self.phase = Phase.IDLE
        self.restarts += 1
        return self._reconcile(now)

    def _after_failure(self, failure: Failure, now: float) -> list[Effect]:
        delay_s = self._policy.delay_s(self.failures)
        if failure.is_permanent or delay_s is None:
            self.phase = Phase.FAILED
            return self._report(JobState.FAILED, failure.trace, failure.is_of_connector)
        self.phase = Phase.WAITING
        self.wake_at = now + delay_s
        note = f"failed {self.failures} times in a row, next start in {delay_s:g} s\n"
        return self._report(JobState.RESTARTING, note + failure.trace, failure.is_of_connector)

    def _must_stop(self) -> bool:
        """True when the current run is not the one that is wanted."""
        return not self.wants_to_run or self._spec != self._run_spec or self._restart_wanted

    def _reconcile(self, now: float) -> list[Effect]:
        """Bring what runs closer to what is wanted."""
        if self.phase is Phase.RUNNING and self._must_stop():
            self.phase = Phase.STOPPING
            self._restart_wanted = False
            return [StopRun(self._run)]
        if self.phase is not Phase.WAITING:
            self.wake_at = float("inf")
        if self.phase is not Phase.IDLE or self._spec is None:
            return []
        if self._target is not TargetState.STARTED:
            self._clear_failures()
            return self._report(JobState(self._target.value))
        if self._needs_engine and not self._engine_is_up:
            return self._report(JobState.UNASSIGNED, self._engine_problem)
        self.phase = Phase.STARTING
        self._restart_wanted = False
        self._run += 1
        self._run_spec, self._run_needs_engine = self._spec, self._needs_engine
        return [StartRun(self._spec, self._run)]

    def _clear_failures(self) -> None:
        self.failures = 0
        self.last_failure = None

    def _report(
        self, state: JobState, trace: str | None = None, is_of_connector: bool = False
    ) -> list[Effect]:
        """Return the report, unless it was the last one."""
        report = ReportState(state, trace, is_of_connector)
        if report == self._reported:
            return []
        self._reported = report
        return [report]
