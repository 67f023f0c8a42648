"""Engines and databases that the tests of a module share, and the JVM that all engines share."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from compat_tests import mariadb, postgres
from compat_tests import spark as setup
from compat_tests.installed import Installed
from compat_tests.mariadb import MariadbServer
from compat_tests.pace import WAIT_S, Pace
from compat_tests.postgres import PostgresServer

if TYPE_CHECKING:
    from barnabas.pipeline.delivery.plan.job_plan import JobFailure, RunningJob
    from barnabas.pipeline.spark.session import SparkProcess


class SharedJvm:
    """The driver JVM of this process, which is started once and compiles Spark's code once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: SparkProcess | None = None

    def process(self) -> "SparkProcess":
        """Return the running JVM; one that a test has ended is started again."""
        from barnabas.pipeline.spark.session import SessionSettings, SparkProcess

        if self._process is None or not self._process.is_alive():
            self.stop()
            settings = SessionSettings(
                self._directory,
                master="local[2]",
                is_short_lived=True,
                properties=setup.INTERPRETED,
            )
            self._process = SparkProcess.start(settings)
        return self._process

    def stop(self) -> None:
        """Stop the JVM: a process has one at a time."""
        process, self._process = self._process, None
        if process is not None:
            process.stop()


class OwnSession:
    """A separate session in the shared JVM: properties, temporary views and queries."""

    def __init__(self, jvm: SharedJvm, *, compiles: bool) -> None:
        self._process = jvm.process()
        self.session = self._process.session.newSession()
        if compiles:
            for name, value in setup.COMPILED.items():
                self.session.conf.set(name, value)

    def is_alive(self) -> bool:
        return self._process.is_alive()

    def stop(self) -> None:
        """Stop the queries that the tests have left. The JVM continues."""
        if self.is_alive():
            for query in self.session.streams.active:
                query.stop()


@pytest.fixture(scope="session")
def shared_jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedJvm]:
    jvm = SharedJvm(tmp_path_factory.mktemp("jvm"))
    yield jvm
    jvm.stop()


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The environment of the README, which the tests of the pages share: 30 s of one core."""
    base = tmp_path_factory.getbasetemp()
    # The directory of a process of xdist is below that of the run.
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return Installed(run / "installed")


@pytest.fixture(scope="module")
def engine(
    request: pytest.FixtureRequest,
    shared_jvm: SharedJvm,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Any]:
    if reason := setup.missing():
        pytest.skip(reason)
    from barnabas.pipeline.spark.engine import Engine
    from barnabas.pipeline.spark.session import SessionSettings

    work: Path = tmp_path_factory.mktemp("engine")
    running = Engine(SessionSettings(work, master="local[2]", is_short_lived=True))
    own: Any = OwnSession(shared_jvm, compiles=getattr(request.module, "COMPILES", False))
    running._process = own
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
    pace = Pace(0.05)
    while not (found := condition()):
        failure = job.failure() if job is not None else None
        assert failure is None, f"{failure}\n{failure.trace}"
        assert time.monotonic() < deadline, "the condition did not become true"
        pace.pause()
    return found


def failure_of(job: "RunningJob") -> "JobFailure":
    """Return why a job fails."""

    def failed() -> "JobFailure | None":
        job.progress()
        return job.failure()

    return eventually(failed)
