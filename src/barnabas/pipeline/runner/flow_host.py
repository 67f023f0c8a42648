"""Flows without a runner: Spark and the jobs in this process, until they are interrupted.

Nothing is stored but what the flow keeps at the target, so a flow that is started again with the
same name resumes there.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import attrs

from barnabas.pipeline.connect.config_providers import ConfigProviders, ProviderLimits
from barnabas.pipeline.connect.plugin_registry import plugin_registry
from barnabas.pipeline.delivery.plan.job_plan import JobFailure, JobPlan, JobProgress, RunningJob
from barnabas.pipeline.delivery.plan.task_failures import JobStartError
from barnabas.pipeline.jobs.core.job_supervision import RestartPolicy
from barnabas.pipeline.jobs.job_config import RunnerDefaults
from barnabas.pipeline.jobs.job_planning import JobPlanner, JobSpec
from barnabas.pipeline.spark.engine import Engine
from barnabas.pipeline.spark.session import SessionSettings

_LOOK_EVERY_S: Final = 0.5
_STOP_S: Final = 20.0
_RESTARTS: Final = RestartPolicy(longest_delay_s=60.0)


class FlowEndedError(Exception):
    """A flow ended by itself; the message says why."""


def flow_plan(config: Mapping[str, str], bootstrap: str) -> JobPlan:
    """Return the plan of a flow. Raises ConfigValueError, ConnectRestError."""
    defaults = RunnerDefaults(group_id="", bootstrap=bootstrap)
    planner = JobPlanner(plugin_registry(), ConfigProviders(ProviderLimits()), defaults)
    return planner.plan(JobSpec(config["name"], config), 1).plan


def host_flow(
    plan: JobPlan,
    spark: Mapping[str, str],
    on_progress: Callable[[JobProgress], None],
    on_failure: Callable[[JobFailure, float], None],
) -> None:
    """Run a flow until it is interrupted (KeyboardInterrupt).

    A failure that may pass is reported with the delay after which the flow starts again. Raises
    FlowEndedError for any other, and SparkUnavailableError when Spark cannot start.
    """
    with TemporaryDirectory(prefix="barnabas-mirror-") as directory:
        engine = Engine(_session(Path(directory), spark))
        engine.start()
        try:
            _run(engine, plan, on_progress, on_failure)
        finally:
            engine.stop()


def host_flows(
    plans: Sequence[JobPlan],
    spark: Mapping[str, str],
    on_start: Callable[[], None],
    on_failure: Callable[[str, JobFailure, float], None],
) -> None:
    """Run several flows in one Spark session, until they are interrupted; see `host_flow`."""
    with TemporaryDirectory(prefix="barnabas-mirror-") as directory:
        engine = Engine(_session(Path(directory), spark))
        engine.start()
        hosted = [_HostedFlow(engine, plan, on_failure) for plan in plans]
        try:
            for each in hosted:
                each.look()
            on_start()
            while True:
                if not engine.is_alive():
                    raise FlowEndedError("Spark's driver ended; start the flows again")
                time.sleep(_LOOK_EVERY_S)
                for each in hosted:
                    each.look()
        finally:
            for each in hosted:
                each.stop()
            engine.stop()


class _HostedFlow:
    """One of several flows: it starts again after failures that may pass."""

    def __init__(
        self,
        engine: Engine,
        plan: JobPlan,
        on_failure: Callable[[str, JobFailure, float], None],
    ) -> None:
        self._engine = engine
        self._plan = plan
        self._on_failure = on_failure
        self._job: RunningJob | None = None
        self._failures = 0
        self._start_at_s = self._began_s = time.monotonic()

    def look(self) -> None:
        """Start the job when it is time. Raises FlowEndedError when it cannot run."""
        if self._job is not None and self._job.is_running():
            return
        if self._job is not None:
            failure, self._job = self._job.failure(), None
            self._failed(failure or JobFailure("the job ended by itself", is_permanent=False))
        if time.monotonic() < self._start_at_s:
            return
        self._began_s = time.monotonic()
        try:
            self._job = self._engine.start_job(self._plan)
        except JobStartError as error:
            self._failed(error.failure)

    def stop(self) -> None:
        """Stop the job."""
        if self._job is not None:
            self._job.stop(_STOP_S)

    def _failed(self, failure: JobFailure) -> None:
        if time.monotonic() - self._began_s > _RESTARTS.healthy_s:
            self._failures = 0
        self._failures += 1
        delay_s = _RESTARTS.delay_s(self._failures)
        if failure.is_permanent or delay_s is None:
            raise FlowEndedError(f"{self._plan.name}: {failure.message}")
        self._on_failure(self._plan.name, failure, delay_s)
        self._start_at_s = time.monotonic() + delay_s


def _session(directory: Path, spark: Mapping[str, str]) -> SessionSettings:
    # A flow has no checkpoint, so that hosts of a cluster need not share the directory.
    settings = SessionSettings(
        directory, checkpoint_directory=str(directory), application="barnabas mirror"
    )
    own = dict(spark)
    return attrs.evolve(
        settings,
        master=own.pop("spark.master", settings.master),
        driver_memory=own.pop("spark.driver.memory", settings.driver_memory),
        properties=own,
    )


def _run(
    engine: Engine,
    plan: JobPlan,
    on_progress: Callable[[JobProgress], None],
    on_failure: Callable[[JobFailure, float], None],
) -> None:
    failures = 0
    while True:
        began_s = time.monotonic()
        failure = _run_once(engine, plan, on_progress)
        if time.monotonic() - began_s > _RESTARTS.healthy_s:
            failures = 0
        failures += 1
        delay_s = _RESTARTS.delay_s(failures)
        if failure.is_permanent or delay_s is None:
            raise FlowEndedError(failure.message)
        on_failure(failure, delay_s)
        time.sleep(delay_s)


def _run_once(
    engine: Engine, plan: JobPlan, on_progress: Callable[[JobProgress], None]
) -> JobFailure:
    """Run the job until it fails; return why."""
    try:
        job: RunningJob = engine.start_job(plan)
    except JobStartError as error:
        return error.failure
    try:
        while job.is_running():
            on_progress(job.progress())
            if not engine.is_alive():
                raise FlowEndedError("Spark's driver ended; start the flow again")
            time.sleep(_LOOK_EVERY_S)
    finally:
        job.stop(_STOP_S)
    return job.failure() or JobFailure("the flow ended by itself", is_permanent=False)
