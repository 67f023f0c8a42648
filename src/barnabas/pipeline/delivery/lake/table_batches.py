"""The batches that a table of a lake sink has, marked as done in the checkpoint before a start.

A driver that was killed after the table's commit and before Spark's leaves a batch that the table
has and the checkpoint does not. Spark would repeat it. Delta skips a repeated batch, Iceberg does
not: it names a data file after the batch and the number of the task, and would write into files
that the table has already. And the job could not start with other conversions, because a repeated
batch needs those that began it (see `lake_version`). The table knows its batches: Delta by the
transactions of the query, Iceberg by the summaries of its snapshots.
"""

import json
from typing import Any, Final

from barnabas.pipeline.connect.connectors.spark_sink import (
    DELTA,
    ICEBERG,
    TABLE_FORMATS,
    SparkSinkSettings,
)
from barnabas.pipeline.delivery.driver import spark_internals
from barnabas.pipeline.delivery.driver.spark_library import SparkSession
from barnabas.pipeline.delivery.lake import iceberg_table
from barnabas.pipeline.delivery.lake.lake_positions import DONE, PLANNED
from barnabas.pipeline.delivery.lake.lake_version import SmallFiles
from barnabas.pipeline.delivery.plan.task_failures import refused

_QUERY: Final = "summary['spark.sql.streaming.queryId']"
_EPOCH: Final = "CAST(summary['spark.sql.streaming.epochId'] AS BIGINT)"
_FIRST_COMMIT: Final = 'v1\n{"nextBatchWatermarkMs":0}'


def mark_done(session: SparkSession, files: SmallFiles, settings: SparkSinkSettings) -> None:
    """Mark the newest batch of the table as done. Raises JobStartError for another checkpoint."""
    checkpoint = settings.checkpoint
    metadata = files.read(f"{checkpoint}/metadata")
    if metadata is None or settings.format not in TABLE_FORMATS:
        return
    written = newest_batch(session, settings, str(json.loads(metadata)["id"]))
    planned = files.newest(f"{checkpoint}/{PLANNED}")
    if written > planned:
        raise refused(
            f"the checkpoint {checkpoint} was rolled back: the table {settings.path} ends at batch "
            f"{written}, the checkpoint at {planned}; set another path"
        )
    done = files.newest(f"{checkpoint}/{DONE}")
    if written > done:
        text = files.read(f"{checkpoint}/{DONE}/{done}") if done >= 0 else None
        files.write(f"{checkpoint}/{DONE}/{written}", text or _FIRST_COMMIT)


def newest_batch(session: SparkSession, settings: SparkSinkSettings, query_id: str) -> int:
    """Return the newest batch of a query in a table, -1 without one."""
    if settings.format == DELTA:
        logs: Any = spark_internals.jvm(session).org.apache.spark.sql.delta.DeltaLog
        log = logs.forTable(spark_internals.java_session(session), settings.path)
        return int(log.startTransaction().txnVersion(query_id))
    if not iceberg_table.exists(session, settings.path):
        return -1
    snapshots = session.read.format(ICEBERG).load(f"{settings.path}#snapshots")
    own = snapshots.where(f"{_QUERY} = '{query_id}'").selectExpr(f"max({_EPOCH})")
    found = own.collect()[0][0]
    return -1 if found is None else int(found)
