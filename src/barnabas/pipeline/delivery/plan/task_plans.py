"""From a job's plan to the plan of its tasks, with client properties under librdkafka's names."""

from collections.abc import Mapping
from typing import Any

from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.delivery.plan.job_plan import JobPlan
from barnabas.pipeline.delivery.plan.worker_plan import LIMIT_S, TaskPlan


def consumer_properties(plan: JobPlan) -> dict[str, str]:
    """Return the properties of a job's consumers under the names that the job has."""
    return {
        **plan.client_properties,
        **plan.consumer_overrides,
        "bootstrap.servers": plan.bootstrap,
    }


def task_plan(
    plan: JobPlan,
    *,
    topic_ids: Mapping[str, str],
    record_bytes_max: int | None = None,
    is_single_task: bool = False,
) -> TaskPlan:
    """Return the plan of a job's tasks. Raises ConfigError."""
    client = {**plan.client_properties, "bootstrap.servers": plan.bootstrap}
    producer: dict[str, Any] = {
        # Java's clients choose the partition of a key by this function.
        "partitioner": "murmur2_random",
        "delivery.report.only.error": True,
        "linger.ms": 5,
        "queue.buffering.max.kbytes": 65_536,
        **({"message.max.bytes": record_bytes_max} if record_bytes_max else {}),
        **kafka_properties.for_librdkafka({**client, **plan.producer_overrides}),
        "enable.idempotence": True,
        "acks": "all",
        "transaction.timeout.ms": plan.transaction_timeout_ms,
    }
    consumer = kafka_properties.for_librdkafka({**client, **plan.consumer_overrides})
    return TaskPlan(
        job=plan.name,
        generation=plan.generation,
        kind=plan.kind.value,
        group_id=plan.group_id,
        transactional_id=plan.transactional_id,
        producer=producer,
        consumer={**consumer},
        properties=plan.properties,
        target_topic=plan.target_topic,
        connector_class=plan.connector_class,
        task_configs=plan.task_configs,
        topic_ids=topic_ids,
        is_single_task=is_single_task,
        offsets_topic=plan.offsets_topic,
        slice_ms=plan.slice_ms,
        records_max=plan.max_records_per_batch,
        poll_records_max=kafka_properties.poll_records_max(plan.consumer_overrides),
        limit_s=min(LIMIT_S, plan.transaction_timeout_ms / 4_000),
        records_per_second_max=plan.records_per_second_max / max(1, len(plan.task_configs)),
    )
