"""Spark's progress of a query, as JSON, added to the totals of a job."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, cast

import attrs

from barnabas.pipeline.delivery.plan.job_plan import JobProgress, PartitionLag
from barnabas.pipeline.delivery.rows.task_figures import SUMS

FIGURES: Final = "figures"
LATE: Final = "late"
"""The figure of records that an operator dropped because they came too late."""
_KAFKA: Final = "Kafka"
_Offsets: TypeAlias = Mapping[str, Mapping[str, int]]


@attrs.frozen
class BatchProgress:
    """One progress report: a batch, or an idle query with the offsets it waits at."""

    started: str
    """When the trigger started, in ISO 8601 with milliseconds."""
    has_rows: bool
    records_per_second: float
    phases_ms: Mapping[str, int]
    figures: Mapping[str, int | None]
    lag: tuple[PartitionLag, ...]
    starts: Mapping[tuple[str, int], int]
    """The first offset of the batch in each partition; the first batch of a query has none."""
    late: int = 0

    @classmethod
    def read(cls, text: str) -> "BatchProgress":
        """Return the report in Spark's JSON."""
        fields: dict[str, Any] = json.loads(text)
        observed: dict[str, Any] = fields.get("observedMetrics") or {}
        sources = _kafka_sources(fields.get("sources") or [])
        return cls(
            started=str(fields["timestamp"]),
            has_rows=bool(fields.get("numInputRows")),
            records_per_second=float(fields.get("processedRowsPerSecond") or 0.0),
            phases_ms=fields.get("durationMs") or {},
            figures=observed.get(FIGURES) or {},
            lag=_lag(sources),
            starts=_starts(sources),
            late=_late(observed),
        )


def late_figure(operator: str) -> str:
    """Return the name under which an operator's late records are observed."""
    return f"{LATE}-{operator}"


def added(total: JobProgress, batch: BatchProgress, now_ms: int) -> JobProgress:
    """Return the totals of a job with those of one more report."""
    figures = batch.figures
    oldest_ms = figures.get("oldest_ms")
    total = attrs.evolve(
        total,
        records_per_second=batch.records_per_second,
        late=total.late + batch.late,
        lag=batch.lag or total.lag,
        lag_s=0.0 if oldest_ms is None else max(0.0, (now_ms - oldest_ms) / 1000),
    )
    if not figures:
        return total
    return attrs.evolve(
        total,
        **{name: getattr(total, name) + (figures.get(name) or 0) for name in SUMS},
        batches=total.batches + 1,
        batch_ms=batch.phases_ms.get("triggerExecution", 0),
        phases_ms=batch.phases_ms,
        updated_ms=now_ms,
    )


def _late(observed: Mapping[str, Mapping[str, int | None] | None]) -> int:
    """Return the records that operators dropped as late."""
    found = [
        figures or {} for name, figures in observed.items() if name.startswith(late_figure(""))
    ]
    return sum(figures.get(LATE) or 0 for figures in found)


def _kafka_sources(sources: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in sources if str(each.get("description", _KAFKA)).startswith(_KAFKA)]


def _starts(sources: Iterable[dict[str, Any]]) -> dict[tuple[str, int], int]:
    return {
        (topic, int(number)): offset
        for source in sources
        for topic, partitions in _offsets(source.get("startOffset")).items()
        for number, offset in partitions.items()
    }


def _lag(sources: Iterable[dict[str, Any]]) -> tuple[PartitionLag, ...]:
    found: list[PartitionLag] = []
    for source in sources:
        positions, newest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        for topic, partitions in positions.items():
            for number, position in partitions.items():
                end = max(position, newest.get(topic, {}).get(number, position))
                found.append(PartitionLag(topic, int(number), position, end))
    return tuple(found)


def _offsets(value: Any) -> _Offsets:
    """Return the offsets of a Kafka source; other sources have offsets of another form."""
    return cast("_Offsets", value) if isinstance(value, dict) else {}
