"""Totals of a running query."""

import json
from types import SimpleNamespace
from typing import Any

from barnabas.pipeline.delivery.job_plan import JobKind, JobPlan, JobProgress
from barnabas.pipeline.delivery.query_job import QueryJob

PLAN = JobPlan("job", 1, JobKind.COPY, "h:1", group_id="job", transactional_id="job")


def report(second: int, batch: int, records: int) -> Any:
    """Return Spark's report of a batch, or of an idle query when it has no records."""
    fields = {
        "timestamp": f"2026-11-22T12:00:{second:02}.000Z",
        "batchId": batch,
        "numInputRows": records,
        "observedMetrics": {"figures": {"records": records}} if records else {},
    }
    return SimpleNamespace(json=lambda: json.dumps(fields))


def running(reports: list[Any]) -> QueryJob:
    query = SimpleNamespace(_jsq=SimpleNamespace(recentProgress=lambda: reports))
    return QueryJob(PLAN, query, progress=JobProgress())


def test_each_batch_is_counted_once_over_several_calls() -> None:
    reports = [report(1, 0, 5), report(2, 1, 7)]
    job = running(reports)
    assert job.progress().records == 12
    assert job.progress().records == 12
    reports += [report(3, 2, 1)]
    assert (job.progress().records, job.progress().batches) == (13, 3)


def test_batch_behind_an_idle_report_of_its_number_is_counted() -> None:
    reports = [report(1, 0, 5), report(11, 1, 0)]
    job = running(reports)
    assert job.progress().records == 5
    reports += [report(12, 1, 7)]
    assert job.progress().records == 12
