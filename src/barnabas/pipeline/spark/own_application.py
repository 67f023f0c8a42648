"""A job in its own Spark application (`isolation=own`): another process, with its own limits.

The process gets its settings as one line of JSON on its standard input, writes its state as lines
of JSON, and ends with its input: so it does not outlive the runner.
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

import attrs

from barnabas.pipeline.delivery.plan.job_plan import JobFailure, JobPlan, JobProgress
from barnabas.pipeline.delivery.plan.task_failures import JobStartError, refused
from barnabas.pipeline.spark import application_messages
from barnabas.pipeline.spark.session import SessionSettings

_MAIN: Final = "barnabas.pipeline.spark.application_process"
_START_TIMEOUT_S: Final = 180.0
_DEPLOY_MODE: Final = "spark.submit.deployMode"
_OF_DRIVER: Final = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
"""What ties a runner to the JVM of spark-submit: the application starts its own."""
_EXIT_TIMEOUT_S: Final = 35.0
"""The driver JVM of the process has 30 seconds."""


def start(settings: SessionSettings, plan: JobPlan) -> "OwnApplication":
    """Start the application and its job. Raises JobStartError."""
    if settings.properties.get(_DEPLOY_MODE) == "cluster":
        raise refused(
            "isolation=own is not possible in a runner that was submitted with --deploy-mode "
            "cluster: use isolation=shared, or submit another runner with its own group.id"
        )
    directory = settings.work_directory / f"own-{plan.name}-{plan.generation}"
    directory.mkdir(parents=True, exist_ok=True)
    job = OwnApplication(plan)
    job.spawn(_of_job(settings, plan, directory))
    return job


def _of_job(settings: SessionSettings, plan: JobPlan, directory: Path) -> SessionSettings:
    """Return the settings of the job's session: its own properties over the runner's."""
    own = dict(plan.spark_properties)
    return attrs.evolve(
        settings,
        work_directory=directory,
        application=f"barnabas {plan.name}",
        is_submitted=False,
        master=own.pop("spark.master", settings.master),
        driver_memory=own.pop("spark.driver.memory", settings.driver_memory),
        properties={**settings.properties, **own},
    )


class OwnApplication:
    """A running job in another process."""

    def __init__(self, plan: JobPlan) -> None:
        self._plan = plan
        self._process: subprocess.Popen[bytes] | None = None
        self._told = threading.Event()
        self._progress = JobProgress()
        self._failure: JobFailure | None = None
        self._is_running = False
        self._is_stopping = False

    @property
    def plan(self) -> JobPlan:
        """Return the plan that the job was started with."""
        return self._plan

    def spawn(self, settings: SessionSettings) -> None:
        """Start the process; return once its job runs. Raises JobStartError."""
        process = subprocess.Popen(
            [sys.executable, "-m", _MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={name: text for name, text in os.environ.items() if name not in _OF_DRIVER},
        )
        self._process = process
        if process.stdin is not None:
            # The job does not need another application in there.
            plan = attrs.evolve(self._plan, is_isolated=False)
            process.stdin.write(application_messages.encode_start(settings, plan) + b"\n")
            process.stdin.flush()
        threading.Thread(target=self._read, args=(process,), daemon=True).start()
        if not self._told.wait(_START_TIMEOUT_S):
            self._failure = JobFailure(
                f"the application did not start within {_START_TIMEOUT_S:.0f} s", is_permanent=False
            )
        if not self._is_running:
            failure = self._failure or JobFailure("the application ended", is_permanent=False)
            self.stop(0)
            raise JobStartError(failure)

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        """Take in the lines of the process until it ends."""
        for line in process.stdout or ():
            try:
                self._take_in(json.loads(line))
            except (ValueError, KeyError, TypeError):
                sys.stderr.buffer.write(line)  # of a library
        status = process.wait()
        self._is_running = False
        if self._failure is None and not self._is_stopping:
            self._failure = JobFailure(
                f"the application of the job ended with status {status}", is_permanent=False
            )
        self._told.set()

    def _take_in(self, message: Any) -> None:
        self._failure = application_messages.decode_failure(message["failure"])
        self._progress = application_messages.decode_progress(message["progress"])
        self._is_running = bool(message["running"])
        self._told.set()

    def is_running(self) -> bool:
        """True until the job was stopped or failed."""
        return self._is_running and self._failure is None

    def progress(self) -> JobProgress:
        """Return the totals up to now."""
        return self._progress

    def failure(self) -> JobFailure | None:
        """Return why the job ended by itself, or None."""
        return self._failure

    def stop(self, timeout_s: float = 30.0) -> None:
        """End the job after its running transaction, and its application."""
        self._is_stopping = True
        process = self._process
        if process is None:
            return
        deadline = time.monotonic() + timeout_s + _EXIT_TIMEOUT_S
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._is_running = False
