"""A job that a thread of the runner runs as one bounded Spark job after the other."""

import abc
import contextlib
import threading
import time
import uuid
from collections.abc import Mapping, Sequence

import attrs

from barnabas.pipeline.delivery.driver.spark_library import SparkSession
from barnabas.pipeline.delivery.plan import task_failures
from barnabas.pipeline.delivery.plan.job_plan import JobFailure, JobPlan, JobProgress
from barnabas.pipeline.delivery.plan.task_failures import JobStartError
from barnabas.pipeline.delivery.rows.task_figures import SUMS, Figures


class LoopedJob(abc.ABC):
    """A thread that takes one turn after the other, until it is stopped or a turn raises."""

    def __init__(self, session: SparkSession, plan: JobPlan, progress: JobProgress) -> None:
        self._context = session.sparkContext
        self._plan = plan
        self._progress = progress
        self._failure: JobFailure | None = None
        self._group = f"{plan.name}-{plan.generation}-{uuid.uuid4().hex[:8]}"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self._group, daemon=True)

    @property
    def plan(self) -> JobPlan:
        """Return the plan that the job was started with."""
        return self._plan

    def start(self) -> None:
        """Take the first turn."""
        self._thread.start()

    def is_running(self) -> bool:
        """True until the job was stopped or failed."""
        return self._failure is None and self._thread.is_alive()

    def progress(self) -> JobProgress:
        """Return the totals up to now."""
        return self._progress

    def failure(self) -> JobFailure | None:
        """Return why the job ended by itself, or None."""
        return self._failure

    def stop(self, timeout_s: float = 30.0) -> None:
        """End after the running turn, or cancel it when the time is over."""
        self._stopping.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._cancel()
            self._thread.join(timeout_s)

    @abc.abstractmethod
    def _turn(self) -> float:
        """Run a Spark job, if there is work; return the seconds to wait before the next turn."""

    def _explained(self, failure: JobFailure) -> JobFailure:
        """Return why a turn failed, given what Spark says."""
        return failure

    def _fail(self, failure: JobFailure) -> None:
        """End the job from another thread; its own may wait for the cluster."""
        self._failure = failure
        self._stopping.set()
        self._cancel()

    def _cancel(self) -> None:
        """End the running Spark job."""
        with contextlib.suppress(Exception):
            self._context.cancelJobGroup(self._group)

    def _run(self) -> None:
        try:
            self._context.setJobGroup(self._group, self._plan.name, interruptOnCancel=True)
            while not self._stopping.is_set():
                self._stopping.wait(self._turn())
        except Exception as error:
            if not self._stopping.is_set():
                is_known = isinstance(error, JobStartError)
                failure = error.failure if is_known else task_failures.from_text(str(error))
                self._failure = self._explained(failure)

    def _add(
        self, figures: Sequence[Figures], elapsed_s: float, phases_ms: Mapping[str, int]
    ) -> None:
        """Add the figures of a Spark job's tasks to the totals."""
        total = self._progress
        sums = {name: sum(getattr(each, name) for each in figures) for name in SUMS}
        now_ms = int(time.time() * 1000)
        times = [each.oldest_ms for each in figures if each.oldest_ms is not None]
        self._progress = attrs.evolve(
            total,
            **{name: getattr(total, name) + added for name, added in sums.items()},
            batches=total.batches + 1,
            batch_ms=int(elapsed_s * 1000),
            phases_ms=phases_ms,
            records_per_second=sums["records"] / elapsed_s if elapsed_s else 0.0,
            lag_s=max(0.0, (now_ms - min(times)) / 1000) if times else 0.0,
            updated_ms=now_ms,
        )
