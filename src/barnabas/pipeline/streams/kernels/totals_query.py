"""Totals of windows on Spark: parts before the shuffle, and one state for each bucket of keys."""

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import attrs

from barnabas.pipeline.delivery.driver.query_progress import LATE as LATE_FIGURE
from barnabas.pipeline.delivery.driver.query_progress import late_figure
from barnabas.pipeline.delivery.driver.spark_library import DataFrame, pyspark
from barnabas.pipeline.delivery.driver.worker_rows import map_in_workers
from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.bucket_tasks import damaged, state_of
from barnabas.pipeline.streams.kernels.bucketed_query import OUTPUT_MODE
from barnabas.pipeline.streams.kernels.paged_stores import DamagedPageError
from barnabas.pipeline.streams.kernels.partial_totals import overflow, partial_totals
from barnabas.pipeline.streams.kernels.partition_times import PartitionTimes
from barnabas.pipeline.streams.kernels.state_codec import encode
from barnabas.pipeline.streams.kernels.stream_aggregates import LATE
from barnabas.pipeline.streams.kernels.window_totals import Partial, Reached, Total, WindowTotals

_PARTIAL: Final = ("key", "start_ms", "partition", "total", "rows", "newest_ms")
_BIGINT: Final = range(-(2**63), 2**63)
_pandas: Final[Any] = importlib.import_module("pandas")  # it has no types


@attrs.frozen
class TotalsPlan:
    """The windows of a query with the form of its state, for the tasks."""

    kernel: WindowTotals
    buckets: int
    partitions: int
    """The partitions among which keys are distributed, when they are new."""
    kind: str
    """Spark's type of the totals."""

    @property
    def signature(self) -> dict[str, Any]:
        """Return what the meaning of a state depends on."""
        return {
            **self.kernel.signature,
            "buckets": self.buckets,
            "partitions": self.partitions if self.kernel.has_new_keys else None,
            "type": self.kind,
        }


def window_totals(
    frame: DataFrame, plan: TotalsPlan, times: Callable[[], PartitionTimes]
) -> DataFrame:
    """Return the totals of windows that are closed: key, total, timestamp_ms, start_ms.

    The frame has the columns that `partial_totals` takes. `times` is called in a task that reads
    partitions. Rows that are dropped as late are observed.
    """
    functions = pyspark("sql.functions")
    windows, buckets = plan.kernel.windows, plan.buckets

    def add(batches: Iterable[Any]) -> Iterator[Any]:
        return partial_totals(windows, buckets, batches, times())

    def close(bucket: tuple[int], frames: Iterable[Any], state: Any) -> Iterator[Any]:
        return closed(plan, frames, state)

    schema = (
        f"key BINARY, start_ms BIGINT, partition INT, total {plan.kind}, rows BIGINT, "
        "newest_ms BIGINT, before_ms BIGINT, bucket INT"
    )
    parts = map_in_workers(frame, add, schema)
    number = functions.xxhash64("key")
    bucket = functions.coalesce("bucket", functions.pmod(number, functions.lit(buckets)))
    parts = parts.withColumn("bucket", bucket.cast("int"))
    if plan.kernel.has_new_keys:
        partition = functions.pmod(number, functions.lit(plan.partitions)).cast("int")
        parts = parts.withColumn("partition", partition)
    result = f"key BINARY, total {plan.kind}, timestamp_ms BIGINT, start_ms BIGINT, late BIGINT"
    totals = parts.groupBy("bucket").applyInPandasWithState(
        close, result, "`state` binary", OUTPUT_MODE, "NoTimeout"
    )
    late = functions.sum("late").alias(LATE_FIGURE)
    return totals.observe(late_figure("windows"), late).filter("late = 0").drop("late")


def closed(plan: TotalsPlan, frames: Iterable[Any], state: Any) -> Iterator[Any]:
    """Add the parts of a bucket to its state, and yield the totals of closed windows as a frame.

    `state` is Spark's GroupState with one blob. Raises TaskFailureError, which a restart does not
    change, when it is not a state of the plan.
    """
    try:
        yield from _closed(plan, frames, state)
    except DamagedPageError as error:
        raise damaged(plan.signature, error) from error


def _closed(plan: TotalsPlan, frames: Iterable[Any], state: Any) -> Iterator[Any]:
    partials, reached, late = _taken(frames)
    if not partials and not state.exists:
        if late:
            yield _frame([], late)
        return
    signature = plan.signature
    bucket = state_of(state.get[0], signature) if state.exists else BucketState()
    totals = list(plan.kernel.step(partials, reached, bucket))
    late += bucket.dropped[LATE]
    # The state is not written for the time alone: all buckets take the times that close windows.
    if partials or totals:
        state.update((encode(bucket, signature),))
    if plan.kind == "bigint" and any(each.total not in _BIGINT for each in totals):
        raise overflow(plan.kind)
    if totals or late:
        yield _frame(totals, late)


def _taken(frames: Iterable[Any]) -> tuple[list[Partial], list[Reached], int]:
    """Return the parts, the times, and the number of late rows in the frames of a bucket."""
    partials: list[Partial] = []
    reached: list[Reached] = []
    late = 0
    for frame in frames:
        columns = (frame[name].tolist() for name in (*_PARTIAL, "before_ms"))
        for *part, before_ms in zip(*columns, strict=True):
            if part[0] is not None:
                partials.append(Partial(*part))
                continue
            time = Partial(*part)
            reached.append(Reached(time.partition, before_ms, time.newest_ms))
            late += time.rows
    return partials, reached, late


def _frame(totals: Sequence[Total], late: int) -> Any:
    keys, starts, numbers, times = zip(*totals, strict=True) if totals else ((),) * 4
    extra = 1 if late else 0
    return _pandas.DataFrame(
        {
            "key": [*keys, *[None] * extra],
            "total": [*numbers, *[0] * extra],
            "timestamp_ms": [*times, *[0] * extra],
            "start_ms": [*starts, *[0] * extra],
            "late": [*[0] * len(keys), *[late] * extra],
        }
    )
