"""Final counts and sums of tumbling and hopping windows, which tasks add up before the shuffle."""

from typing import Final

from barnabas.pipeline.delivery.driver.spark_library import DataFrame
from barnabas.pipeline.delivery.micro_batches.stream_times import StreamTimes
from barnabas.pipeline.streams.kernel_frames import (
    BUCKETS_PROPERTY,
    PARTITIONS,
    kernel_input,
    key_serde,
)
from barnabas.pipeline.streams.kernels.bucketed_query import BUCKETS
from barnabas.pipeline.streams.kernels.time_windows import TimeWindows
from barnabas.pipeline.streams.kernels.totals_query import TotalsPlan, window_totals
from barnabas.pipeline.streams.kernels.window_totals import WindowTotals
from barnabas.pipeline.streams.serdes import Column, DataType, functions
from barnabas.pipeline.streams.stream_columns import KEY, TIMESTAMP, VALUE, WINDOW
from barnabas.pipeline.streams.window_specs import Window

_KINDS: Final = ("bigint", "double", "decimal")


def can_be_added(kind: DataType) -> bool:
    """True for the types of totals that tasks can add up."""
    return kind.simpleString().partition("(")[0] in _KINDS


def final_totals(
    frame: DataFrame, number: Column, kind: DataType, windows: Window, *, has_new_keys: bool
) -> DataFrame:
    """Return the sum of a number, of the type `kind`, for each key and window that is closed.

    Raises KeyTypeError.
    """
    col, to_time = functions().col, functions().timestamp_millis
    key_type = frame.schema[KEY].dataType
    value = functions().when(col(VALUE).isNotNull(), number.cast(kind))
    rows = kernel_input(frame, value)
    missing = {"partition": functions().lit(0), "source": functions().lit("")}
    for name in missing.keys() - set(rows.columns):
        rows = rows.withColumn(name, missing[name])
    sizes = TimeWindows(windows.size_ms, windows.advance_ms, windows.grace_ms)
    buckets = int(frame.sparkSession.conf.get(BUCKETS_PROPERTY, str(BUCKETS)))
    kernel = WindowTotals(sizes, has_new_keys)
    plan = TotalsPlan(kernel, buckets, PARTITIONS, kind.simpleString())
    places = ("key", "value", "timestamp_ms", "partition", "source")
    totals = window_totals(rows.select(*places), plan, StreamTimes.of_task)
    start = col("start_ms")
    window = functions().struct(
        to_time(start).alias("start"),
        to_time(start + functions().lit(windows.size_ms)).alias("end"),
    )
    serde = key_serde(key_type)
    return totals.select(
        serde.value(serde.parse(col("key"))).alias(KEY),
        col("total").alias(VALUE),
        to_time("timestamp_ms").alias(TIMESTAMP),
        window.alias(WINDOW),
    )
