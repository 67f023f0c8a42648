"""The wall clock of a query with a processor, and the clock of a test in its place."""

import importlib
from pathlib import Path
from typing import Final

from barnabas.pipeline.delivery.driver.spark_library import DataFrame, SparkSession
from barnabas.pipeline.streams.serdes import functions

TEST_CLOCK: Final = "spark.barnabas.streams.test.clock"
"""The property of Spark with the directory of a test's clock; without it, time is real."""
BEFORE_MS: Final = "before_ms"
TIME_MS: Final = "time_ms"


def ticks(session: SparkSession, every_ms: int) -> DataFrame:
    """Return the times at which a multiple of `every_ms` is reached, as the column `time_ms`.

    Each micro-batch has one row at most: multiples that have passed in the meantime are left out.
    """
    directory = session.conf.get(TEST_CLOCK, None)
    if directory is not None:
        return _test_ticks(session, Path(directory), every_ms)
    source = importlib.import_module("barnabas.pipeline.streams.clock_source")  # needs PySpark
    session.dataSource.register(source.ClockSource)
    return session.readStream.format(source.NAME).option(source.EVERY_MS, every_ms).load()


def _test_ticks(session: SparkSession, directory: Path, every_ms: int) -> DataFrame:
    """Return the ticks of files, which have a row for each step of a test's clock."""
    directory.mkdir(parents=True, exist_ok=True)
    steps = session.readStream.schema(f"{BEFORE_MS} BIGINT, {TIME_MS} BIGINT")
    floor, col = functions().floor, functions().col
    is_due = floor(col(TIME_MS) / every_ms) > floor(col(BEFORE_MS) / every_ms)
    return steps.parquet(str(directory)).filter(is_due).select(TIME_MS)
