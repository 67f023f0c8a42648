"""Spark queries that read topics, and queries whose tasks write: options, sums, triggers."""

import json
from pathlib import Path
from typing import Any

from barnabas.pipeline.delivery.driver.query_progress import FIGURES
from barnabas.pipeline.delivery.driver.spark_library import DataFrame, StreamingQuery, pyspark
from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.delivery.plan.job_plan import JobPlan
from barnabas.pipeline.delivery.plan.start_positions import StartPositions
from barnabas.pipeline.delivery.plan.task_plans import consumer_properties
from barnabas.pipeline.delivery.rows.task_figures import SUMS


def source_options(plan: JobPlan, positions: StartPositions) -> dict[str, str]:
    """Return the options of Spark's Kafka source.

    `minPartitions` and `maxRecordsPerPartition` must never be among the options of a query whose
    tasks commit offsets: they cut a partition into several tasks. Raises ConfigError.
    """
    subscription = (
        {"subscribePattern": plan.topics_pattern}
        if plan.topics_pattern is not None
        else {"subscribe": ",".join(plan.topics)}
    )
    client = {
        **kafka_properties.SPARK_READER,
        **consumer_properties(plan),
        "isolation.level": "read_committed",
    }
    return {
        **kafka_properties.for_spark(client),
        **subscription,
        "startingOffsets": json.dumps(positions.offsets),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": str(batch_limits(plan)[0]),
    }


def batch_limits(plan: JobPlan) -> tuple[int, int]:
    """Return the largest number of records of a batch, and the least ms from one to the next."""
    rate, trigger_ms = plan.records_per_second_max, plan.trigger_ms
    if not rate:
        return plan.max_records_per_batch, trigger_ms
    # Fewer than one batch of one record: the batches are further apart.
    trigger_ms = max(trigger_ms, 100, -(-1000 // rate))
    return max(1, min(plan.max_records_per_batch, rate * trigger_ms // 1000)), trigger_ms


def figures_of(frame: DataFrame) -> DataFrame:
    """Return the tasks' rows with their sums observed."""
    functions = pyspark("sql.functions")
    sums = [functions.sum(name).alias(name) for name in SUMS]
    return frame.observe(FIGURES, *sums, functions.min("oldest_ms").alias("oldest_ms"))


def started(writer: Any, plan: JobPlan, scratch: Path) -> StreamingQuery:
    """Start a query with its checkpoint in `scratch`."""
    return (
        writer.queryName(f"{plan.name}-{plan.generation}-{scratch.name[-8:]}")
        .option("checkpointLocation", str(scratch))
        .trigger(processingTime=f"{batch_limits(plan)[1]} milliseconds")
        .start()
    )
