"""A job that is a streaming query: its progress, its failure, its end.

Progress is read from the query in the runner's own time, not by a listener, whose callbacks would
cost a round trip to the JVM for each field of each batch.
"""

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs

from barnabas.pipeline.delivery.driver import spark_internals
from barnabas.pipeline.delivery.driver.query_progress import BatchProgress, added
from barnabas.pipeline.delivery.driver.skipped_batches import SkippedBatches
from barnabas.pipeline.delivery.driver.spark_library import StreamingQuery
from barnabas.pipeline.delivery.plan import task_failures
from barnabas.pipeline.delivery.plan.job_plan import JobFailure, JobPlan, JobProgress, PartitionLag

_WATCH_EVERY_S: Final = 5.0
_SETTLE_S: Final = 10.0


class QueryJob:
    """A running query with the plan that it came from."""

    def __init__(
        self,
        plan: JobPlan,
        query: StreamingQuery,
        *,
        progress: JobProgress,
        watch: Callable[[], JobFailure | None] | None = None,
        on_batch: Callable[[Sequence[PartitionLag]], None] | None = None,
        scratch: Path | None = None,
        settle: Callable[[float], None] | None = None,
        skipped: SkippedBatches | None = None,
    ) -> None:
        """Take a running query.

        `on_batch` takes the positions after a batch, `settle` waits for a good moment to stop the
        query, and `skipped` counts offsets that retention deleted, where tasks do not.
        """
        self._plan = plan
        self._query = query
        self._watch = watch
        self._on_batch = on_batch
        self._settle = settle
        self._skipped = skipped
        self._positions: Sequence[PartitionLag] = ()
        """The positions after the newest batch, until `on_batch` has taken them."""
        self._watched_s = time.monotonic()
        self._scratch = scratch
        self._progress = progress
        self._newest_report = ""
        self._failure: JobFailure | None = None
        self._reading = threading.Lock()
        """Held while reports are added: the watcher and the caller of an app ask for progress."""

    @property
    def plan(self) -> JobPlan:
        """Return the plan that the job was started with."""
        return self._plan

    def is_running(self) -> bool:
        """True until the query was stopped or failed."""
        try:
            return self._failure is None and bool(self._query.isActive)
        except Exception:
            return False

    def progress(self) -> JobProgress:
        """Return the totals up to now."""
        # The JVM may be gone, which `failure` reports. A part that fails because the cluster does
        # not answer is repeated at the next call.
        parts = (self._add_batches, self._pass_positions, self._add_skipped, self._look_after)
        with self._reading:
            for part in parts:
                with contextlib.suppress(Exception):
                    part()
            return self._progress

    def failure(self) -> JobFailure | None:
        """Return why the query ended by itself, or None."""
        if self._failure is None:
            try:
                exception = self._query.exception()
            except Exception as error:
                self._failure = JobFailure(f"the driver JVM ended: {error}", is_permanent=False)
            else:
                if exception is not None:
                    self._failure = self._explained(task_failures.from_text(str(exception)))
        return self._failure

    def stop(self, timeout_s: float = 30.0) -> None:
        """Stop the query, and remove its scratch files."""
        if self._settle is not None and self.is_running():
            with contextlib.suppress(Exception):
                self._settle(min(timeout_s, _SETTLE_S))
        with contextlib.suppress(Exception):
            self._query.stop()
            self._query.awaitTermination(int(timeout_s))
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _explained(self, failure: JobFailure) -> JobFailure:
        """Return the failure of the topics where they are why the query failed."""
        if failure.is_permanent or self._watch is None:
            return failure
        try:
            changed = self._watch()
        except Exception:  # the cluster does not answer
            return failure
        return failure if changed is None else attrs.evolve(changed, trace=failure.trace)

    def _add_batches(self) -> None:
        for batch in self._new_batches():
            self._progress = added(self._progress, batch, int(time.time() * 1000))
            if batch.has_rows or batch.figures:
                self._positions = batch.lag
            if self._skipped is not None:
                self._skipped.add(batch)

    def _pass_positions(self) -> None:
        if self._on_batch is not None and self._positions:
            self._on_batch(self._positions)
            self._positions = ()

    def _add_skipped(self) -> None:
        if self._skipped is not None and (count := self._skipped.take()):
            self._progress = attrs.evolve(self._progress, trimmed=self._progress.trimmed + count)

    def _new_batches(self) -> list[BatchProgress]:
        """Return the reports since the last call, oldest first.

        An idle query reports the number of the batch to come, so only the time identifies a report.
        """
        recent = spark_internals.recent_progress(self._query)
        found: list[BatchProgress] = []
        for index in range(len(recent) - 1, -1, -1):
            batch = BatchProgress.read(recent[index].json())
            if batch.started <= self._newest_report:
                break
            found.append(batch)
        found.reverse()
        if found:
            self._newest_report = found[-1].started
        return found

    def _look_after(self) -> None:
        if self._watch is None or time.monotonic() - self._watched_s < _WATCH_EVERY_S:
            return
        self._watched_s = time.monotonic()
        failure = self._watch()
        if failure is not None:
            self._failure = failure
            # The query may wait for the topic: its end must not hold up the caller.
            threading.Thread(target=self.stop, daemon=True).start()
