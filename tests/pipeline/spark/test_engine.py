"""The engine's jobs beside its session: isolated ones and views."""

from pathlib import Path

import pytest

from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan
from barnabas.pipeline.spark import own_application
from barnabas.pipeline.spark.engine import Engine
from barnabas.pipeline.spark.session import SessionSettings
from tests.pipeline.runner.fake_engine import FakeJob


class EndedSession:
    """A driver JVM that was killed."""

    def __init__(self) -> None:
        self.is_stopped = False

    def is_alive(self) -> bool:
        return False

    def stop(self) -> None:
        self.is_stopped = True


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr(own_application, "start", lambda _, plan: FakeJob(plan))
    return Engine(SessionSettings(tmp_path))


def isolated(name: str) -> JobPlan:
    return JobPlan(name, 1, JobKind.SINK, "h:9092", name, name, is_isolated=True)


def test_isolated_job_ends_with_an_engine_whose_session_never_started(engine: Engine) -> None:
    job = engine.start_job(isolated("own"))
    assert not engine.is_alive()
    engine.stop()
    assert not job.is_running()


def test_isolated_job_continues_when_the_session_ends(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = EndedSession()
    monkeypatch.setattr(engine, "_process", session)
    job = engine.start_job(isolated("own"))
    shared = FakeJob(JobPlan("shared", 1, JobKind.SINK, "h:9092", "g", "t"))
    engine._kept(shared)
    engine.end_session()
    assert session.is_stopped
    assert job.is_running()
    engine.stop()
    assert not job.is_running()
    assert shared.is_running(), "a job of a JVM that is gone was stopped"
