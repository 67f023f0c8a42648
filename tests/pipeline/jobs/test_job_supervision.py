"""The supervision of one job: each state with each event, backoff, and a seeded simulation."""

import random
from collections.abc import Callable

import pytest

from barnabas.pipeline.jobs.core.job_supervision import (
    Effect,
    Failure,
    JobState,
    JobSupervision,
    Phase,
    ReportState,
    RestartPolicy,
    StartRun,
    StopRun,
    TargetState,
)

STARTED, PAUSED, STOPPED = TargetState.STARTED, TargetState.PAUSED, TargetState.STOPPED
PASSING = Failure("connection lost", "trace")
PERMANENT = Failure("unknown topic", "trace", is_permanent=True)


def supervised(phase: Phase, policy: RestartPolicy | None = None) -> JobSupervision:
    """Return a supervision of spec "a" in a phase, its run has number 1."""
    job = JobSupervision(policy or RestartPolicy())
    job.engine_up(0)
    job.desire("a", STARTED, 0)
    if phase is Phase.IDLE:
        job.engine_down(0)
    elif phase is not Phase.STARTING:
        job.started(1, 0)
    if phase is Phase.STOPPING:
        job.desire("b", STARTED, 0)
    elif phase is Phase.WAITING:
        job.failed(1, PASSING, 0)
    elif phase is Phase.FAILED:
        job.failed(1, PERMANENT, 0)
    assert job.phase is phase
    return job


EVENTS: dict[str, Callable[[JobSupervision], list[Effect]]] = {
    "same": lambda job: job.desire("a", STARTED, 1),
    "changed": lambda job: job.desire("c", STARTED, 1),
    "paused": lambda job: job.desire("a", PAUSED, 1),
    "stopped by a person": lambda job: job.desire("a", STOPPED, 1),
    "removed": lambda job: job.desire(None, STOPPED, 1),
    "engine up": lambda job: job.engine_up(1),
    "engine down": lambda job: job.engine_down(1),
    "engine refused": lambda job: job.engine_refused("no Java", 1),
    "restart": lambda job: job.restart(1),
    "started": lambda job: job.started(1, 1),
    "failed": lambda job: job.failed(1, PASSING, 1),
    "stopped": lambda job: job.stopped(1, 1),
    "wake": lambda job: job.wake(1),
    "old run": lambda job: job.failed(0, PERMANENT, 1),
}

# Phase before, event: phase after, and the effects as short texts.
TABLE = {
    Phase.IDLE: {
        "changed": (Phase.IDLE, []),
        "paused": (Phase.IDLE, ["PAUSED"]),
        "stopped by a person": (Phase.IDLE, ["STOPPED"]),
        "removed": (Phase.IDLE, []),
        "engine up": (Phase.STARTING, ["start a"]),
        "engine refused": (Phase.IDLE, ["UNASSIGNED"]),
        "restart": (Phase.IDLE, ["RESTARTING", "UNASSIGNED"]),
    },
    Phase.STARTING: {
        "engine down": (Phase.IDLE, ["UNASSIGNED"]),
        "started": (Phase.RUNNING, ["RUNNING"]),
        "failed": (Phase.WAITING, ["RESTARTING"]),
        "restart": (Phase.STARTING, ["RESTARTING"]),
    },
    Phase.RUNNING: {
        "changed": (Phase.STOPPING, ["stop"]),
        "paused": (Phase.STOPPING, ["stop"]),
        "stopped by a person": (Phase.STOPPING, ["stop"]),
        "removed": (Phase.STOPPING, ["stop"]),
        "engine down": (Phase.IDLE, ["UNASSIGNED"]),
        "restart": (Phase.STOPPING, ["RESTARTING", "stop"]),
        "failed": (Phase.WAITING, ["RESTARTING"]),
    },
    Phase.STOPPING: {
        "engine down": (Phase.IDLE, ["UNASSIGNED"]),
        "failed": (Phase.STARTING, ["start b"]),
        "stopped": (Phase.STARTING, ["start b"]),
        "restart": (Phase.STOPPING, ["RESTARTING"]),
    },
    Phase.WAITING: {
        "changed": (Phase.STARTING, ["start c"]),
        "paused": (Phase.IDLE, ["PAUSED"]),
        "stopped by a person": (Phase.IDLE, ["STOPPED"]),
        "removed": (Phase.IDLE, []),
        "restart": (Phase.STARTING, ["RESTARTING", "start a"]),
        "wake": (Phase.STARTING, ["start a"]),
    },
    Phase.FAILED: {
        "changed": (Phase.STARTING, ["start c"]),
        "paused": (Phase.IDLE, ["PAUSED"]),
        "stopped by a person": (Phase.IDLE, ["STOPPED"]),
        "removed": (Phase.IDLE, []),
        "restart": (Phase.STARTING, ["RESTARTING", "start a"]),
    },
}


def shown(effects: list[Effect]) -> list[str]:
    texts: list[str] = []
    for effect in effects:
        if isinstance(effect, StartRun):
            texts.append(f"start {effect.spec}")
        elif isinstance(effect, StopRun):
            texts.append("stop")
        else:
            texts.append(effect.state.value)
    return texts


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("event", EVENTS)
def test_supervision_acts_as_the_table_says(phase: Phase, event: str) -> None:
    job = supervised(phase)
    effects = EVENTS[event](job)
    if phase is Phase.RUNNING and event == "restart":
        # RESTARTING differs from the last report, so it is written again.
        assert [type(effect) for effect in effects] == [ReportState, StopRun]
    assert (job.phase, shown(effects)) == TABLE[phase].get(event, (phase, []))


def test_start_that_is_no_longer_wanted_stops_once_it_started() -> None:
    job = supervised(Phase.STARTING)
    assert job.desire("a", PAUSED, 1) == []
    assert shown(job.started(1, 2)) == ["stop"]
    assert shown(job.stopped(1, 3)) == ["PAUSED"]


def test_job_that_waits_for_an_engine_says_why_it_cannot_start() -> None:
    job = supervised(Phase.IDLE)
    (report,) = job.engine_refused("install Java", 1)
    assert report == ReportState(JobState.UNASSIGNED, "install Java")
    assert job.engine_refused("install Java", 2) == []
    assert shown(job.engine_up(3)) == ["start a"]
    job.started(2, 4)
    (report,) = job.engine_down(5)
    assert report == ReportState(JobState.UNASSIGNED), "the engine starts again"


def test_late_event_of_an_earlier_run_is_ignored() -> None:
    job = supervised(Phase.STOPPING)
    assert shown(job.failed(1, PASSING, 1)) == ["start b"]
    assert job.started(1, 2) == []
    assert job.phase is Phase.STARTING
    assert job.started(2, 2) == []  # RUNNING is its last reported state
    assert job.failed(1, PERMANENT, 3) == []
    assert job.phase is Phase.RUNNING
    job.desire("c", STARTED, 3)
    assert job.stopped(1, 4) == []
    assert job.phase is Phase.STOPPING
    assert shown(job.stopped(2, 5)) == ["start c"]


def test_removed_job_is_over_once_its_run_ended() -> None:
    job = supervised(Phase.RUNNING)
    job.desire(None, STOPPED, 1)
    assert not job.is_over
    job.stopped(1, 2)
    assert job.is_over


def test_backoff_doubles_up_to_ten_minutes() -> None:
    job = supervised(Phase.STARTING)
    now, delays = 0.0, []
    for run in range(1, 13):
        job.failed(run, PASSING, now)
        delays.append(job.wake_at - now)
        now = job.wake_at
        assert shown(job.wake(now)) == ["start a"]
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]
    assert job.restarts == 12


def test_backoff_after_ten_minutes_of_health_begins_again() -> None:
    job = supervised(Phase.STARTING)
    for run in (1, 2, 3):
        job.failed(run, PASSING, 0)
        job.wake(job.wake_at)
    job.started(4, 100)
    job.failed(4, PASSING, 699)
    assert job.wake_at == 699 + 8
    job.wake(job.wake_at)
    job.started(5, 800)
    job.failed(5, PASSING, 1400)
    assert job.wake_at == 1401


def test_failure_without_restarts_allowed_stays_failed() -> None:
    job = supervised(Phase.RUNNING, RestartPolicy(restarts_max=0))
    assert shown(job.failed(1, PASSING, 1)) == ["FAILED"]
    assert job.wake_at == float("inf")


def test_failures_beyond_the_allowed_restarts_stay_failed() -> None:
    job = supervised(Phase.STARTING, RestartPolicy(restarts_max=2))
    assert shown(job.failed(1, PASSING, 0)) == ["RESTARTING"]
    job.wake(1)
    assert shown(job.failed(2, PASSING, 1)) == ["RESTARTING"]
    job.wake(3)
    assert shown(job.failed(3, PASSING, 3)) == ["FAILED"]


class Engine:
    """A model of the engine: runs take time to start and to stop, and fail at random."""

    def __init__(self, job: JobSupervision, rng: random.Random) -> None:
        self.job, self.rng, self.now = job, rng, 0.0
        self.is_up = False
        self.starting: list[StartRun] = []
        self.running: list[StartRun] = []
        self.stopping: list[int] = []
        self.reported = JobState.UNASSIGNED

    def apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, StartRun):
                assert not self.starting, "a second start before the first ended"
                assert not self.running, "a second run of the job"
                assert self.is_up
                self.starting.append(effect)
            elif isinstance(effect, StopRun):
                self.stopping.append(effect.run)
            else:
                self.reported = effect.state

    def step(self) -> None:
        self.now += self.rng.random()
        if self.now >= self.job.wake_at:
            self.apply(self.job.wake(self.now))
        elif self.starting and self.rng.random() < 0.5:
            started = self.starting.pop()
            self.running.append(started)
            self.apply(self.job.started(started.run, self.now))
        elif self.stopping and self.rng.random() < 0.5:
            run = self.stopping.pop()
            self.running = [each for each in self.running if each.run != run]
            self.apply(self.job.stopped(run, self.now))

    def crash(self) -> None:
        self.is_up = False
        self.starting, self.running, self.stopping = [], [], []
        self.apply(self.job.engine_down(self.now))

    def fail(self) -> None:
        failure = PERMANENT if self.rng.random() < 0.2 else PASSING
        for each in [*self.starting, *self.running]:
            self.starting, self.running = [], []
            self.apply(self.job.failed(each.run, failure, self.now))

    def disturb(self) -> None:
        match self.rng.randrange(6):
            case 0:
                self.crash()
            case 1:
                self.is_up = True
                self.apply(self.job.engine_up(self.now))
            case 2:
                self.fail()
            case 3:
                self.apply(self.job.restart(self.now))
            case _:
                spec = self.rng.choice(["a", "b", None])
                self.apply(self.job.desire(spec, self.rng.choice(list(TargetState)), self.now))


@pytest.mark.parametrize("seed", range(200))
def test_simulation_never_runs_twice_and_ends_as_wanted(seed: int) -> None:
    rng = random.Random(seed)
    engine = Engine(JobSupervision(RestartPolicy()), rng)
    for _ in range(300):
        engine.step() if rng.random() < 0.7 else engine.disturb()
    engine.is_up = True
    engine.apply(engine.job.engine_up(engine.now))
    engine.apply(engine.job.desire("z", STARTED, engine.now))
    for _ in range(100):
        engine.step()
    assert [each.spec for each in engine.running] == ["z"]
    assert engine.reported is JobState.RUNNING
    engine.apply(engine.job.desire("z", STOPPED, engine.now))
    for _ in range(20):
        engine.step()
    assert engine.running == []
    assert engine.reported is JobState.STOPPED
