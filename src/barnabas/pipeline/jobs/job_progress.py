"""Figures of jobs: as JSON, and as Prometheus metrics."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import attrs
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from barnabas.pipeline.delivery.plan.job_plan import JobProgress
from barnabas.pipeline.jobs.core.job_supervision import JobSupervision, Phase

if TYPE_CHECKING:
    from barnabas.pipeline.jobs.active_runner import ActiveRunner

_NOTHING: Final = JobProgress()

_COUNTERS: Final = {
    "records": "Records read from the source since the job started.",
    "written": "Records written, without dead letters, since the job started.",
    "dead_letters": "Records sent to the dead letter topic since the job started.",
    "transactions": "Transactions committed since the job started.",
    "fenced": "Producers that another task replaced since the job started.",
    "skipped": "Records that an earlier transaction had committed already.",
    "trimmed": "Offsets that retention deleted before they were read.",
    "late": "Records dropped because their windows were closed.",
}
_GAUGES: Final = {
    "records_per_second": "Records per second of the newest batches.",
    "batch_ms": "Duration of the newest batch in ms.",
    "lag_s": "Age in seconds of the oldest record of the newest batch when it was committed.",
}


def progress_json(job: JobSupervision | None, progress: JobProgress | None) -> dict[str, Any]:
    """Return the figures of a job; zeros for one that has not run here."""
    found = progress or _NOTHING
    failure = None if job is None else job.last_failure
    return {
        "phase": Phase.IDLE.value if job is None else job.phase.value,
        "restarts": 0 if job is None else job.restarts,
        "failures_in_a_row": 0 if job is None else job.failures,
        "last_failure": None if failure is None else failure.message,
        "is_permanent": failure is not None and failure.is_permanent,
        "records": found.records,
        "written": found.written,
        "records_per_second": round(found.records_per_second, 1),
        "batches": found.batches,
        "batch_ms": found.batch_ms,
        "phases_ms": dict(found.phases_ms),
        "lag_records": sum(each.lag for each in found.lag),
        "lag_bytes": _lag_bytes(found),
        "lag_seconds": round(found.lag_s, 3),
        "partitions": [
            {**attrs.asdict(each), "lag": each.lag}
            for each in sorted(found.lag, key=lambda each: (each.topic, each.partition))
        ],
        "dead_letters": found.dead_letters,
        "transactions": found.transactions,
        "fenced": found.fenced,
        "skipped": found.skipped,
        "trimmed": found.trimmed,
        "late": found.late,
        "deleted_topics": list(found.deleted_topics),
        "updated_ms": found.updated_ms,
    }


def _lag_bytes(progress: JobProgress) -> int | None:
    """Return the size of what a job has yet to read; None when a partition's is not known."""
    sizes = [each.bytes for each in progress.lag]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def add_job_metrics(
    registry: CollectorRegistry, active: "Callable[[], ActiveRunner | None]"
) -> None:
    """Add the metrics of all jobs to a registry; `active` returns the active runner, if it runs."""
    registry.register(_JobMetrics(active))


class _JobMetrics(Collector):
    """Reads the figures when Prometheus asks."""

    def __init__(self, active: "Callable[[], ActiveRunner | None]") -> None:
        self._active = active

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        active = self._active()
        up = GaugeMetricFamily("barnabas_pipeline_active", "1 when this runner runs the jobs.")
        up.add_metric([], 0 if active is None else 1)
        yield up
        if active is None:
            return
        yield from _job_states(active)
        for name, text in _COUNTERS.items():
            yield _family(CounterMetricFamily, name, text, active)
        for name, text in _GAUGES.items():
            yield _family(GaugeMetricFamily, name, text, active)
        yield from _lags_and_phases(active)


def _job_states(active: "ActiveRunner") -> Iterator[Metric]:
    engine = GaugeMetricFamily("barnabas_pipeline_engine_up", "1 when Spark runs.")
    engine.add_metric([], 1 if active.engine_problem is None else 0)
    yield engine
    phases = GaugeMetricFamily(
        "barnabas_pipeline_job_phase", "1 for the phase that a job is in.", labels=["job", "phase"]
    )
    restarts = CounterMetricFamily(
        "barnabas_pipeline_job_restarts", "Restarts after a failure.", labels=["job"]
    )
    for name, job in active.fleet.jobs.items():
        phases.add_metric([name, job.phase.value], 1)
        restarts.add_metric([name], job.restarts)
    yield phases
    yield restarts


def _family(kind: Any, name: str, text: str, active: "ActiveRunner") -> Metric:
    family: Any = kind(f"barnabas_pipeline_job_{name}", text, labels=["job"])
    for job, progress in active.progress.items():
        family.add_metric([job], getattr(progress, name))
    return family


def _lags_and_phases(active: "ActiveRunner") -> Iterator[Metric]:
    lag = GaugeMetricFamily(
        "barnabas_pipeline_job_lag_records",
        "Offsets between a job's position and the end of a partition.",
        labels=["job", "topic", "partition"],
    )
    phases = GaugeMetricFamily(
        "barnabas_pipeline_job_batch_phase_ms",
        "Duration of each phase of the newest batch in ms.",
        labels=["job", "phase"],
    )
    for job, progress in active.progress.items():
        for each in progress.lag:
            lag.add_metric([job, each.topic, str(each.partition)], each.lag)
        for phase, duration_ms in progress.phases_ms.items():
            phases.add_metric([job, phase], duration_ms)
    yield lag
    yield phases
