"""The queries of an app while it runs: start, watch, restart after a failure, stop.

A query that fails starts again after a second, then after two, and so on up to a minute. A failure
that would repeat ends the app.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from barnabas.pipeline.delivery.driver.trimmed_offsets import TrimmedReports
from barnabas.pipeline.delivery.plan.job_plan import JobFailure, JobPlan, JobProgress, RunningJob
from barnabas.pipeline.delivery.plan.task_failures import JobStartError
from barnabas.pipeline.streams.position_keeper import PositionKeeper
from barnabas.pipeline.streams.repartition_topics import RepartitionTrimmer

_logger: Final = logging.getLogger("barnabas.streams")

_FIRST_DELAY_S: Final = 1.0
_LONGEST_DELAY_S: Final = 60.0
_HEALTHY_S: Final = 600.0
_POLL_S: Final = 0.2


_SESSION_ENDED: Final = JobFailure(
    "the driver JVM of Spark ended, such as by a kill for lack of memory: run the app again",
    is_permanent=True,
)


class StreamFailedError(Exception):
    """A query of an app failed, and would fail again."""

    def __init__(self, query: str, failure: JobFailure) -> None:
        super().__init__(f"query {query} failed: {failure.message}")
        self.query = query
        self.failure = failure


@attrs.define(eq=False)
class StreamQuery:
    """A query that `App.write` described; it runs while the app runs."""

    name: str
    """The name of the query, of its consumer group and the prefix of its transactional ids."""
    start_job: Callable[[int], RunningJob] = attrs.field(repr=False)
    """Starts the job of a generation. Raises JobStartError."""
    has_committed_positions: bool = False
    """True when the position is the group's committed offsets, False for a query with state."""
    is_session_alive: Callable[[], bool] = attrs.field(default=lambda: True, repr=False)
    """False when the Spark session has ended, in which no query starts again."""
    _job: RunningJob | None = attrs.field(default=None, init=False, repr=False)
    _generation: int = attrs.field(default=0, init=False, repr=False)
    _failures: int = attrs.field(default=0, init=False, repr=False)
    _started_s: float = attrs.field(default=0.0, init=False, repr=False)
    _due_s: float | None = attrs.field(default=None, init=False, repr=False)
    _trimmed: TrimmedReports = attrs.field(factory=TrimmedReports, init=False, repr=False)
    _late: TrimmedReports = attrs.field(factory=TrimmedReports, init=False, repr=False)

    def progress(self) -> JobProgress:
        """Return the figures since the query started: records, rows written, lag."""
        return JobProgress() if self._job is None else self._job.progress()

    def is_running(self) -> bool:
        """True while the query processes records."""
        return self._job is not None and self._job.is_running()

    def position_plan(self) -> JobPlan | None:
        """Return the plan whose positions are committed offsets, None before the first start."""
        return self._job.plan if self._job is not None and self.has_committed_positions else None

    def start(self) -> None:
        """Start the job. Raises StreamFailedError when a restart would not help."""
        self._generation += 1
        self._due_s = None
        self._trimmed, self._late = TrimmedReports(), TrimmedReports()
        self._started_s = time.monotonic()
        try:
            self._job = self.start_job(self._generation)
        except JobStartError as error:
            self._failed(error.failure)
        else:
            _logger.info("started query %s", self.name)

    def watch(self) -> None:
        """Start a failed job again when its time has come. Raises StreamFailedError."""
        if self._due_s is not None:
            if time.monotonic() >= self._due_s:
                self.start()
            return
        if self._job is None:
            return
        self._report_losses()
        failure = self._job.failure()
        if failure is None and not self._job.is_running():
            failure = JobFailure("the query was stopped from outside", is_permanent=True)
        if failure is not None:
            self._report_losses(is_last=True)
            self._job.stop(5)
            self._failed(failure)

    def stop(self, timeout_s: float = 30.0) -> None:
        """Stop the job after its running transaction."""
        self._due_s = None
        if self._job is not None:
            self._job.stop(timeout_s)
            self._report_losses(is_last=True)

    def _report_losses(self, *, is_last: bool = False) -> None:
        """Log what the query skipped and dropped since the last lines, at most every 10 seconds."""
        progress = self.progress()
        if count := _due(self._trimmed, progress.trimmed, is_last=is_last):
            _logger.warning(
                "query %s skipped %d offsets that retention deleted before they were read",
                self.name,
                count,
            )
        if count := _due(self._late, progress.late, is_last=is_last):
            _logger.warning(
                "query %s dropped %d records that came after their windows were closed",
                self.name,
                count,
            )

    def _failed(self, failure: JobFailure) -> None:
        if not failure.is_permanent and not self.is_session_alive():
            failure = _SESSION_ENDED
        if failure.is_permanent:
            raise StreamFailedError(self.name, failure)
        if time.monotonic() - self._started_s > _HEALTHY_S:
            self._failures = 0
        delay_s = min(_FIRST_DELAY_S * 2 ** min(self._failures, 10), _LONGEST_DELAY_S)
        self._failures += 1
        self._due_s = time.monotonic() + delay_s
        _logger.warning(
            "query %s failed, restarting in %.0f s: %s", self.name, delay_s, failure.message
        )


def _due(reports: TrimmedReports, total: int, *, is_last: bool) -> int:
    """Return the number that the log names now, given the total; at the end, all that is left."""
    count = reports.due(total, time.monotonic())
    return count + reports.rest() if is_last else count


class QueryWatcher:
    """A thread that watches the queries of an app until one fails for good or all are stopped."""

    def __init__(
        self, queries: Sequence[StreamQuery], trimmer: RepartitionTrimmer | None = None
    ) -> None:
        """Take the queries, and what deletes the records between two of them."""
        self._queries = queries
        self._trimmer = trimmer
        self._keeper = PositionKeeper(self._position_plans)
        self._ended = threading.Event()
        self._stopping = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="barnabas-streams", daemon=True)

    def start(self) -> None:
        """Start all queries, then watch them. Raises StreamFailedError."""
        try:
            for query in self._queries:
                query.start()
        except StreamFailedError:
            self._stop_queries()
            raise
        self._keeper.start()
        if self._trimmer is not None:
            self._trimmer.start()
        self._thread.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the queries end; return False when the time is over before.

        Raises StreamFailedError when one failed for good, or what ended the thread otherwise.
        """
        is_over = self._ended.wait(timeout_s)
        if self._error is not None:
            raise self._error
        return is_over

    def stop(self) -> None:
        """Stop all queries."""
        self._stopping.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(_POLL_S):
                for query in self._queries:
                    query.watch()
        except Exception as error:  # without it the app would end as if it had been stopped
            self._error = error
        finally:
            self._keeper.stop()
            if self._trimmer is not None:
                self._trimmer.stop()
            self._stop_queries()
            self._ended.set()

    def _position_plans(self) -> list[JobPlan]:
        plans = [query.position_plan() for query in self._queries]
        return [plan for plan in plans if plan is not None]

    def _stop_queries(self) -> None:
        for query in self._queries:
            query.stop()
