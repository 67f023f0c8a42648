"""A Spark engine, and databases, that the tests of a module share."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from compat_tests import mariadb, postgres
from compat_tests import spark as setup
from compat_tests.mariadb import MariadbServer
from compat_tests.postgres import PostgresServer

if TYPE_CHECKING:
    from barnabas.pipeline.delivery.plan.job_plan import JobFailure, RunningJob

WAIT_S = 120.0


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if reason := setup.missing():
        pytest.skip(reason)
    from barnabas.pipeline.spark.engine import Engine
    from barnabas.pipeline.spark.session import SessionSettings

    work: Path = tmp_path_factory.mktemp("engine")
    running = Engine(SessionSettings(work, master="local[2]", is_short_lived=True))
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    if reason := postgres.missing():
        pytest.skip(reason)
    process = PostgresServer()
    try:
        process.start()
        yield process
    finally:
        process.close()


@pytest.fixture(scope="module")
def maria() -> Iterator[MariadbServer]:
    if reason := mariadb.missing():
        pytest.skip(reason)
    process = MariadbServer()
    try:
        process.start()
        yield process
    finally:
        process.close()


def eventually(condition: Callable[[], Any], job: "RunningJob | None" = None) -> Any:
    """Return the first true result of `condition`."""
    deadline = time.monotonic() + WAIT_S
    while not (found := condition()):
        failure = job.failure() if job is not None else None
        assert failure is None, f"{failure}\n{failure.trace}"
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.05)
    return found


def failure_of(job: "RunningJob") -> "JobFailure":
    """Return why a job fails."""

    def failed() -> "JobFailure | None":
        job.progress()
        return job.failure()

    return eventually(failed)
