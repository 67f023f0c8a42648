"""Table formats whose libraries are not part of Spark: their packages and their settings."""

import os
from collections.abc import Sequence
from typing import Final

import attrs

from barnabas.pipeline.connect.connectors.spark_sink import FORMATS_PROPERTY


@attrs.frozen
class TableFormat:
    """A format: its Maven package, and the class that extends Spark's SQL."""

    package: str
    extension: str


FORMATS: Final = {
    "delta": TableFormat(
        "io.delta:delta-spark_2.13:4.0.0", "io.delta.sql.DeltaSparkSessionExtension"
    ),
    "iceberg": TableFormat(
        "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0",
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    ),
}
# The catalog of tables that are named by their path; by default it expects a Hive metastore.
_ICEBERG_CATALOG: Final = "spark.sql.catalog.default_iceberg"
_DELTA_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


def packages(formats: Sequence[str]) -> list[str]:
    """Return the packages of formats."""
    return [FORMATS[each].package for each in formats]


def properties(formats: Sequence[str], warehouse: str) -> dict[str, str]:
    """Return the properties of a session with the formats.

    No table is in the directory `warehouse`, which a catalog wants to have.
    """
    if not formats:
        return {}
    found = {
        FORMATS_PROPERTY: ",".join(formats),
        "spark.sql.extensions": ",".join(FORMATS[each].extension for each in formats),
    }
    if "delta" in formats:
        found["spark.sql.catalog.spark_catalog"] = _DELTA_CATALOG
        # Delta reads its log with 50 tasks by default, which small batches would wait for.
        found["spark.databricks.delta.snapshotPartitions"] = str(2 * (os.cpu_count() or 1))
    if "iceberg" in formats:
        found |= {
            _ICEBERG_CATALOG: "org.apache.iceberg.spark.SparkCatalog",
            f"{_ICEBERG_CATALOG}.type": "hadoop",
            f"{_ICEBERG_CATALOG}.warehouse": warehouse,
            f"{_ICEBERG_CATALOG}.cache-enabled": "false",
        }
    return found
