"""Rows on their way from Spark's tasks to the functions of the Python workers."""

from typing import Any, Final

from barnabas.pipeline.delivery.driver.spark_library import DataFrame, pyspark

_HEADERS: Final = "headers"


def map_in_workers(frame: DataFrame, function: Any, schema: Any) -> DataFrame:
    """Return the rows that `function` makes of the Arrow batches of a frame (`mapInArrow`).

    Headers that are null become empty lists. Spark computes the size of an Arrow batch after each
    row, and Arrow's list vector then visits all null lists at the end of the batch: 10,000 rows
    without headers cost 50 million visits.
    """
    if _HEADERS in frame.columns:
        functions = pyspark("sql.functions")
        empty = functions.array().cast(frame.schema[_HEADERS].dataType)
        frame = frame.withColumn(_HEADERS, functions.coalesce(_HEADERS, empty))
    return frame.mapInArrow(function, schema)
