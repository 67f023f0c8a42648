"""Totals of a running query."""

import contextlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

from barnabas.pipeline.delivery.driver.query_job import QueryJob
from barnabas.pipeline.delivery.driver.skipped_batches import SkippedBatches
from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan, JobProgress

PLAN = JobPlan("job", 1, JobKind.COPY, "h:1", group_id="job", transactional_id="job")


def report(second: int, batch: int, records: int) -> Any:
    """Return Spark's report of a batch, or of an idle query when it has no records."""
    fields = {
        "timestamp": f"2026-11-22T12:00:{second:02}.000Z",
        "batchId": batch,
        "numInputRows": records,
        "observedMetrics": {"figures": {"records": records}} if records else {},
        "sources": [{"endOffset": {"t": {"0": 10 * (batch + 1)}}}],
    }
    return SimpleNamespace(json=lambda: json.dumps(fields))


def running(reports: list[Any], **more: Any) -> QueryJob:
    query = SimpleNamespace(_jsq=SimpleNamespace(recentProgress=lambda: reports))
    return QueryJob(PLAN, query, progress=JobProgress(), **more)


def test_each_batch_is_counted_once_over_several_calls() -> None:
    reports = [report(1, 0, 5), report(2, 1, 7)]
    job = running(reports)
    assert job.progress().records == 12
    assert job.progress().records == 12
    reports += [report(3, 2, 1)]
    assert (job.progress().records, job.progress().batches) == (13, 3)


def test_batch_is_counted_once_when_two_threads_read_the_reports() -> None:
    both_read = threading.Barrier(2)
    text = report(1, 0, 5).json()

    def read() -> str:
        with contextlib.suppress(threading.BrokenBarrierError):
            both_read.wait(0.5)
        return text

    job = running([SimpleNamespace(json=read), report(2, 1, 7)])
    with ThreadPoolExecutor() as pool:
        for each in [pool.submit(job.progress) for _ in range(2)]:
            each.result()
    assert job.progress().records == 12


def test_batch_behind_an_idle_report_of_its_number_is_counted() -> None:
    reports = [report(1, 0, 5), report(11, 1, 0)]
    job = running(reports)
    assert job.progress().records == 5
    reports += [report(12, 1, 7)]
    assert job.progress().records == 12


def test_positions_that_cannot_be_committed_are_committed_later() -> None:
    taken: list[int] = []
    is_down = True

    def commit(positions: Any) -> None:
        if is_down:
            raise TimeoutError
        taken.append(positions[0].position)

    reports = [report(1, 0, 5), report(2, 1, 7)]
    job = running(reports, on_batch=commit)
    assert (job.progress().records, taken) == (12, [])
    is_down = False
    assert (job.progress().records, taken) == (12, [20])
    job.progress()
    assert taken == [20]


def test_skipped_offsets_are_added_when_the_cluster_answers() -> None:
    is_down = True

    def log_starts(pairs: Any) -> dict[tuple[str, int], int]:
        if is_down:
            raise TimeoutError
        return dict.fromkeys(pairs, 4)

    skipped = SkippedBatches({("t", 0): 0}, log_starts)
    job = running([report(1, 0, 6), report(2, 1, 10)], skipped=skipped)
    assert (job.progress().records, job.progress().trimmed) == (16, 0)
    is_down = False
    assert (job.progress().trimmed, job.progress().trimmed) == (4, 4)
