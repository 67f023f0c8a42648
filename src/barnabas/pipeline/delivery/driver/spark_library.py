"""PySpark as modules of type Any: it is an extra, so type checks must pass without it."""

import importlib
from typing import Any, TypeAlias

SparkSession: TypeAlias = Any
"""A `pyspark.sql.SparkSession`."""

DataFrame: TypeAlias = Any
"""A `pyspark.sql.DataFrame`."""

StreamingQuery: TypeAlias = Any
"""A `pyspark.sql.streaming.query.StreamingQuery`."""


def pyspark(module: str = "") -> Any:
    """Return the package `pyspark`, or a module in it."""
    return importlib.import_module(f"pyspark.{module}" if module else "pyspark")
