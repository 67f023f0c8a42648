"""A kernel on Spark: rows are hashed into buckets, and each bucket has one state.

A bucket's state is one value of Spark, in pages: a micro-batch that has rows for a bucket reads and
writes the value, and decodes the pages that have the rows' keys. More buckets make the values
smaller and cost more calls: 256 serve up to 50 million small keys.
`bench.stream_state` compares buckets with Spark's own state for each key.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from barnabas.pipeline.delivery.driver.query_progress import LATE, late_figure
from barnabas.pipeline.delivery.driver.spark_library import DataFrame, pyspark
from barnabas.pipeline.delivery.driver.worker_rows import map_in_workers
from barnabas.pipeline.streams.kernels import bucket_tasks
from barnabas.pipeline.streams.kernels.bucket_rows import COLUMNS, SCHEMA
from barnabas.pipeline.streams.kernels.bucket_tasks import BucketPlan
from barnabas.pipeline.streams.kernels.held_rows import JoinedTopics
from barnabas.pipeline.streams.kernels.kernel_protocol import Kernel
from barnabas.pipeline.streams.kernels.kernel_rows import Side
from barnabas.pipeline.streams.kernels.partition_times import (
    Backlog,
    BatchTimes,
    NoBacklog,
    PartitionTimes,
)

BUCKETS: Final = 256
OUTPUT_MODE: Final = "append"
"""The output mode that a query with a kernel must have."""


def bucketed(
    frame: DataFrame,
    kernel: Kernel,
    *,
    buckets: int = BUCKETS,
    key: str = "key",
    partitions: int | None = None,
    clock: DataFrame | None = None,
    times: Callable[[], PartitionTimes] = BatchTimes,
    joined: JoinedTopics | None = None,
    backlog: Callable[[], Backlog] = NoBacklog,
) -> DataFrame:
    """Return the outputs of a kernel, with the columns of `bucket_rows.COLUMNS`.

    The frame has `key`, `value` and a time: `timestamp_ms`, or `timestamp` as Spark's Kafka source
    has it. The other columns have defaults. For two inputs, it is the union of both with their
    `side`. The column `key` (another name for a global table) chooses the bucket. With
    `partitions`, the partition of a row is that of its key among this number, as in a repartition
    topic: needed for kernels with time when the key of rows was changed. Each row of `clock` is a
    time of the wall clock, `time_ms`, which all buckets with a state take. `times` is called in a
    task that reads partitions, for their stream times at the end of the micro-batch before; the
    column `source` distinguishes the partitions of several topics. With `joined`, rows wait for
    those of the other side that `backlog`, which is called in the same tasks, says are unread. The
    rows that the kernel drops as late are observed.

    The number of buckets and of partitions is fixed with the first state. The query runs in output
    mode "append". Raises ValueError when a column or a number is wrong.
    """
    plan = BucketPlan(kernel, buckets, partitions, joined)

    def place(batches: Iterable[Any]) -> Iterator[Any]:
        return bucket_tasks.place(plan, batches, times(), backlog())

    def step(bucket: tuple[int], frames: Iterable[Any], state: Any) -> Iterator[Any]:
        return bucket_tasks.step(plan, frames, state)

    placed = map_in_workers(_with_defaults(frame, key), place, f"{SCHEMA}, `bucket` int")
    if clock is not None:
        placed = placed.union(_in_all_buckets(clock, buckets))
    outputs = placed.groupBy("bucket").applyInPandasWithState(
        step, SCHEMA, "`state` binary", OUTPUT_MODE, "NoTimeout"
    )
    return _without_late(outputs, str(kernel.signature["kernel"]))


def _without_late(outputs: DataFrame, kernel: str) -> DataFrame:
    """Return the outputs of a kernel; the numbers of late rows among them are observed."""
    functions = pyspark("sql.functions")
    is_number = functions.col("side") == int(Side.LATE)
    late = functions.sum(functions.when(is_number, functions.col("offset")).otherwise(0))
    return outputs.observe(late_figure(kernel), late.alias(LATE)).filter(~is_number)


def completed(frame: DataFrame) -> DataFrame:
    """Return the rows with all columns of kernels, so that they unite with outputs of a kernel.

    Raises ValueError when the frame has no time.
    """
    return frame.select(*_typed(frame))


def _in_all_buckets(clock: DataFrame, buckets: int) -> DataFrame:
    functions = pyspark("sql.functions")
    rows = clock.select(
        functions.col("time_ms").alias("timestamp_ms"),
        functions.lit(int(Side.CLOCK)).alias("side"),
    )
    numbers = functions.sequence(functions.lit(0), functions.lit(buckets - 1))
    return rows.select(*_typed(rows), functions.explode(numbers).alias("bucket"))


def _with_defaults(frame: DataFrame, key: str) -> DataFrame:
    missing = [name for name in ("key", "value", key) if name not in frame.columns]
    if missing:
        raise ValueError(f"the frame has no column {missing[0]}; it has {', '.join(frame.columns)}")
    source = frame["source"] if "source" in frame.columns else pyspark("sql.functions").lit("")
    bucket_key = frame[key].cast("binary").alias("bucket_key")
    return frame.select(*_typed(frame), source.cast("string").alias("source"), bucket_key)


def _typed(frame: DataFrame) -> list[Any]:
    """Return the columns of kernels, with defaults for those that the frame lacks."""
    functions = pyspark("sql.functions")
    columns = {name: functions.lit(default) for name, (_, default) in COLUMNS.items()}
    columns |= {name: frame[name] for name in COLUMNS if name in frame.columns}
    if "timestamp_ms" not in frame.columns:
        if "timestamp" not in frame.columns:
            raise ValueError(
                "the frame has no time: it needs the column timestamp_ms, or timestamp"
            )
        columns["timestamp_ms"] = functions.unix_millis(frame["timestamp"])
    return [columns[name].cast(kind).alias(name) for name, (kind, _) in COLUMNS.items()]
