"""Totals of a job from Spark's progress reports."""

import json
from typing import Any

from barnabas.pipeline.delivery.driver.query_progress import BatchProgress, added
from barnabas.pipeline.delivery.plan.job_plan import JobProgress, PartitionLag

REPORT: dict[str, Any] = {
    "batchId": 4,
    "timestamp": "2026-11-22T12:00:00.000Z",
    "numInputRows": 10,
    "processedRowsPerSecond": 250.0,
    "durationMs": {"triggerExecution": 40, "addBatch": 30},
    "observedMetrics": {
        "figures": {
            "records": 10,
            "written": 9,
            "dead_letters": 1,
            "trimmed": 3,
            "oldest_ms": 1_000,
        }
    },
    "sources": [{"endOffset": {"t": {"0": 10}}, "latestOffset": {"t": {"0": 12, "1": 5}}}],
}


def test_batch_is_added_to_the_totals() -> None:
    before = JobProgress(records=5, written=5, batches=2, trimmed=4)
    total = added(before, BatchProgress.read(json.dumps(REPORT)), now_ms=3_500)
    assert (total.records, total.written, total.dead_letters) == (15, 14, 1)
    assert total.trimmed == 7
    assert (total.batches, total.batch_ms, total.lag_s) == (3, 40, 2.5)
    assert total.lag == (PartitionLag("t", 0, 10, 12),)
    assert total.lag[0].lag == 2


def test_late_records_of_all_operators_are_added() -> None:
    late = {"late-windows": {"late": 4}, "late-deduplicate": {"late": None}, "later": {"late": 9}}
    report = {**REPORT, "observedMetrics": {**REPORT["observedMetrics"], **late}}
    total = added(JobProgress(late=1), BatchProgress.read(json.dumps(report)), now_ms=9)
    assert total.late == 5


def test_idle_report_changes_the_lag_only() -> None:
    idle = {**REPORT, "numInputRows": 0, "observedMetrics": {}, "processedRowsPerSecond": 0.0}
    total = added(JobProgress(records=5, batches=2), BatchProgress.read(json.dumps(idle)), 9)
    assert (total.records, total.batches, total.records_per_second) == (5, 2, 0.0)
    assert total.lag


def test_offsets_of_other_sources_are_ignored() -> None:
    for offset in (7, "text", None):
        report = {**REPORT, "sources": [{"endOffset": offset, "latestOffset": offset}]}
        assert BatchProgress.read(json.dumps(report)).lag == ()


def test_offsets_that_look_like_topics_are_ignored_without_kafka() -> None:
    offset = {"shard": {"0": 5}}
    source = {"description": "FileStreamSource[..]", "endOffset": offset, "latestOffset": offset}
    total = added(JobProgress(), BatchProgress.read(json.dumps({**REPORT, "sources": [source]})), 9)
    assert total.lag == ()
