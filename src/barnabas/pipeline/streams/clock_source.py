"""The wall clock as a streaming source of Spark: a row when the clock reaches a multiple of a time.

The time of a row is its offset, which the checkpoint keeps: an epoch that is repeated after a
failure sees the time that it saw before. This module needs PySpark, so `wall_clock` imports it
when an app asks for the clock.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from barnabas.pipeline.delivery.driver.spark_library import pyspark
from barnabas.pipeline.streams.kernels.user_kernels import is_due

NAME: Final = "barnabas-clock"
EVERY_MS: Final = "every_ms"
"""The option with the time between two rows."""
TIME_MS: Final = "time_ms"
"""The column of the rows."""

_library: Final[Any] = pyspark("sql.datasource")
_Partition: Final[Any] = _library.InputPartition


class ClockSource(_library.DataSource):
    """The format `barnabas-clock`, with the option `every_ms`."""

    options: dict[str, str]

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> str:
        """Return the columns: the time in milliseconds since 1970."""
        return f"{TIME_MS} BIGINT"

    def streamReader(self, schema: Any) -> "ClockReader":  # noqa: N802 (PySpark's name)
        """Return the reader of a query."""
        return ClockReader(int(self.options[EVERY_MS]))


class ClockReader(_library.DataSourceStreamReader):
    """Reports a new offset, and with it a row, when the clock has reached the next multiple.

    Multiples that pass while a batch runs, or while no query runs, make one row.
    """

    def __init__(self, every_ms: int) -> None:
        self._every_ms = every_ms
        self._newest_ms = -1

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the time at which a new query starts."""
        self._newest_ms = _now_ms()
        return {TIME_MS: self._newest_ms}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the present time at the first call and when it is due, else the same as before."""
        now_ms = _now_ms()
        if self._newest_ms < 0 or is_due(self._newest_ms, now_ms, self._every_ms):
            self._newest_ms = now_ms
        return {TIME_MS: self._newest_ms}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Any]:
        """Return the row between two offsets, when there is one."""
        if not is_due(start[TIME_MS], end[TIME_MS], self._every_ms):
            return []
        return [_Partition(end[TIME_MS])]

    def read(self, partition: Any) -> Iterator[tuple[int]]:
        """Yield the row."""
        yield (int(partition.value),)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
