"""All jobs of a runner: what the store wants decides what runs."""

from barnabas.pipeline.jobs.core.job_fleet import FleetEffect, Forget, JobFleet, WantedJob
from barnabas.pipeline.jobs.core.job_supervision import (
    Failure,
    ReportState,
    RestartPolicy,
    StartRun,
    TargetState,
)


def shown(effects: list[FleetEffect]) -> list[str]:
    texts: list[str] = []
    for each in effects:
        if isinstance(each, Forget):
            texts.append(f"forget {each.job}")
        elif isinstance(each.effect, StartRun):
            texts.append(f"start {each.job}")
        elif isinstance(each.effect, ReportState):
            texts.append(f"{each.job} {each.effect.state.value}")
        else:
            texts.append(f"stop {each.job}")
    return texts


def wanted(*names: str, target: TargetState = TargetState.STARTED) -> dict[str, WantedJob]:
    return {name: WantedJob(f"spec of {name}", target) for name in names}


def test_jobs_start_once_the_engine_is_up() -> None:
    fleet = JobFleet(RestartPolicy())
    assert shown(fleet.desire(wanted("a", "b"), 0)) == ["a UNASSIGNED", "b UNASSIGNED"]
    assert shown(fleet.engine_up(1)) == ["start a", "start b"]
    assert shown(fleet.desire(wanted("a", "b", "c"), 2)) == ["start c"]


def test_removed_job_is_stopped_and_forgotten() -> None:
    fleet = JobFleet(RestartPolicy())
    fleet.engine_up(0)
    fleet.desire(wanted("a"), 0)
    fleet.started("a", 1, 0)
    assert shown(fleet.desire({}, 1)) == ["stop a"]
    assert shown(fleet.stopped("a", 1, 2)) == ["forget a"]
    assert fleet.jobs == {}
    assert fleet.stopped("a", 1, 3) == []


def test_job_that_is_created_again_before_its_end_starts_again() -> None:
    fleet = JobFleet(RestartPolicy())
    fleet.engine_up(0)
    fleet.desire(wanted("a"), 0)
    fleet.started("a", 1, 0)
    fleet.desire({}, 1)
    assert fleet.desire(wanted("a"), 1) == []
    assert shown(fleet.stopped("a", 1, 2)) == ["start a"]


def test_earliest_backoff_wakes_the_fleet() -> None:
    fleet = JobFleet(RestartPolicy())
    fleet.engine_up(0)
    fleet.desire(wanted("a", "b"), 0)
    assert fleet.wake_at == float("inf")
    fleet.failed("a", 1, Failure("x", "x"), 5)
    fleet.failed("b", 1, Failure("x", "x"), 3)
    assert fleet.wake_at == 4
    assert shown(fleet.wake(4)) == ["start b"]
    assert fleet.wake_at == 6


def test_end_of_the_engine_starts_all_jobs_again() -> None:
    fleet = JobFleet(RestartPolicy())
    fleet.engine_up(0)
    fleet.desire({**wanted("a"), **wanted("p", target=TargetState.PAUSED)}, 0)
    fleet.started("a", 1, 0)
    assert shown(fleet.engine_down(1)) == ["a UNASSIGNED"]
    assert shown(fleet.engine_up(2)) == ["start a"]


def beside(name: str, spec: str = "spec") -> dict[str, WantedJob]:
    return {name: WantedJob(spec, TargetState.STARTED, needs_engine=False)}


def test_job_beside_the_engine_starts_without_it() -> None:
    fleet = JobFleet(RestartPolicy())
    assert shown(fleet.desire({**beside("own"), **wanted("a")}, 0)) == ["start own", "a UNASSIGNED"]
    assert fleet.needs_engine
    assert shown(fleet.desire(beside("own"), 1)) == ["forget a"]
    assert not fleet.needs_engine


def test_job_beside_the_engine_stays_when_it_ends() -> None:
    fleet = JobFleet(RestartPolicy())
    fleet.engine_up(0)
    fleet.desire({**beside("own"), **wanted("a")}, 0)
    fleet.started("own", 1, 0)
    fleet.started("a", 1, 0)
    assert shown(fleet.engine_down(1)) == ["a UNASSIGNED"]
    assert shown(fleet.engine_up(2)) == ["start a"]


def test_job_that_moves_into_the_engine_ends_first_and_waits_for_it() -> None:
    fleet = JobFleet(RestartPolicy())
    fleet.desire(beside("a"), 0)
    fleet.started("a", 1, 0)
    moved = {"a": WantedJob("shared", TargetState.STARTED)}
    assert shown(fleet.desire(moved, 1)) == ["stop a"]
    assert fleet.needs_engine
    assert fleet.engine_down(1) == []
    assert shown(fleet.stopped("a", 1, 2)) == ["a UNASSIGNED"]
    assert shown(fleet.engine_up(3)) == ["start a"]


def test_job_that_moves_out_of_an_engine_that_ended_starts_at_once() -> None:
    fleet = JobFleet(RestartPolicy())
    fleet.engine_up(0)
    fleet.desire(wanted("a"), 0)
    fleet.started("a", 1, 0)
    fleet.engine_down(1)
    assert shown(fleet.desire(beside("a"), 2)) == ["start a"]
