"""Records that are late for their windows, by the stream time of their partition.

Spark's watermark is one for a query: by it, a partition that is ahead would close the windows of
the others. So records are compared with the time of their partition before Spark aggregates them,
in the task that reads the partition. Spark's watermark is the time of the slowest partition, and
only says which state is no longer needed.
"""

import importlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from barnabas.pipeline.delivery.driver.query_progress import LATE, late_figure
from barnabas.pipeline.delivery.driver.spark_library import DataFrame, pyspark
from barnabas.pipeline.delivery.micro_batches.repeatable_rows import STREAM_TIME
from barnabas.pipeline.delivery.micro_batches.stream_times import UNKNOWN_MS, StreamTimes, lane_of
from barnabas.pipeline.streams.serdes import Column, functions
from barnabas.pipeline.streams.stream_columns import KEY, PARTITION, TIMESTAMP, TOPIC, VALUE, WINDOW
from barnabas.pipeline.streams.window_specs import Window

_TIMES: Final = "_times"
_SLOWEST: Final = "_slowest"
_MARK: Final = "spark.watermarkDelayMs"
_SCHEMA: Final = "stream_ms BIGINT, slowest_ms BIGINT"


def on_time(frame: DataFrame, windows: Window, *, waits_for_all: bool) -> DataFrame:
    """Return the records with each of their windows that is open, as the column WINDOW.

    The number of others is observed, for each window that a record misses. State is kept until the
    slowest partition is past it; with `waits_for_all`, partitions without records count as well.
    """
    col, grace = functions().col, f"{windows.grace_ms} milliseconds"
    times = _stream_times(waits_for_all=waits_for_all)(
        TOPIC, PARTITION, functions().unix_millis(TIMESTAMP), col(KEY).isNotNull()
    )
    timed = frame.select("*", times.alias(_TIMES))
    slowest = functions().timestamp_millis(col(_TIMES)["slowest_ms"])
    marked = timed.withColumn(_SLOWEST, slowest).withWatermark(_SLOWEST, grace)
    # Spark removes groups by the column that has this mark, which is not that of the watermark.
    window = _window(windows).alias(WINDOW, metadata={_MARK: windows.grace_ms})
    rows = marked.select("*", window)
    closes_ms = functions().unix_millis(col(WINDOW)["end"]) + functions().lit(windows.grace_ms)
    is_closed = closes_ms <= col(_TIMES)["stream_ms"]
    # Spark has windows from before 1970 for records just after it; Kafka Streams has none.
    exists = functions().unix_millis(col(WINDOW)["start"]) >= 0
    is_late = exists & is_closed & col(KEY).isNotNull() & col(VALUE).isNotNull()
    late = functions().sum(functions().when(is_late, 1).otherwise(0)).alias(LATE)
    observed = rows.observe(late_figure("windows"), late)
    return observed.filter(exists & ~is_closed).drop(_TIMES, _SLOWEST)


def _window(window: Window) -> Column:
    size, advance = (f"{length} milliseconds" for length in (window.size_ms, window.advance_ms))
    return functions().window(TIMESTAMP, size, advance)


def _stream_times(*, waits_for_all: bool) -> Callable[..., Column]:
    """Return the function of topic, partition, time, and whether a record moves time."""
    library = pyspark("sql.functions")

    def run(batches: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        return timed(batches, StreamTimes.of_task(), waits_for_all=waits_for_all)

    run.__name__ = STREAM_TIME
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark would like types of pandas, which has none
        found = library.pandas_udf(run, _SCHEMA, library.PandasUDFType.SCALAR_ITER)
    # Without it, Spark would move filters before the function, and call it twice.
    return found.asNondeterministic()


def timed(
    batches: Iterable[tuple[Any, ...]], times: StreamTimes, *, waits_for_all: bool
) -> Iterator[Any]:
    """Yield frames with the stream time at each record of a task, and the slowest partition's.

    A batch has columns of pandas: topic, partition, time, and whether the record moves time.
    """
    pandas: Any = importlib.import_module("pandas")
    reached: dict[str, int] = {}
    slowest_ms: int | None = None
    for topics, partitions, times_ms, counts in batches:
        if slowest_ms is None:
            slowest_ms = max(0, times.slowest_ms(waits_for_all=waits_for_all))
        found = times_ms.where(counts, UNKNOWN_MS)
        for topic in topics.unique():
            for partition in partitions[topics == topic].unique():
                lane = lane_of(topic, int(partition))
                if lane not in reached:
                    reached[lane] = times.before(lane)
                mine = (topics == topic) & (partitions == partition)
                running = found[mine].cummax().clip(lower=reached[lane])
                found[mine] = running
                reached[lane] = int(running.iloc[-1])
        yield pandas.DataFrame({"stream_ms": found, "slowest_ms": slowest_ms})
    for lane, time_ms in reached.items():
        times.keep(lane, time_ms)
