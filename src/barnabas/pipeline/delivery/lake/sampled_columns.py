"""The columns of a lake sink from the first record that has some.

The driver reads from where the job starts, through the job's converters and transformations, so
the columns are those of what the tasks will get.
"""

import contextlib
import time
from collections.abc import Generator
from typing import Any, Final

from confluent_kafka import Consumer, Message, TopicPartition

from barnabas.pipeline.connect.error_handling import RecordFailureError
from barnabas.pipeline.connect.record_chain import build_record_chain
from barnabas.pipeline.data.connect_errors import DataError, RetriableError
from barnabas.pipeline.data.connect_schema import Struct
from barnabas.pipeline.data.records import CREATE_TIME, LOG_APPEND_TIME, RawRecord
from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.delivery.plan.job_plan import JobPlan
from barnabas.pipeline.delivery.plan.start_positions import StartPositions
from barnabas.pipeline.delivery.plan.task_plans import consumer_properties
from barnabas.pipeline.delivery.rows.spark_columns import spark_type
from barnabas.pipeline.delivery.writing.record_producer import QUIET

_RECORDS_MAX: Final = 1_000
_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.5
_LOG_APPEND: Final = 2


def sampled_columns(plan: JobPlan, positions: StartPositions) -> dict[str, Any] | None:
    """Return the type of a row in Spark's JSON, None while there is no record with a value.

    Raises DataError when records are there and none of them has a schema with fields.
    """
    chain = build_record_chain(plan.properties)
    seen, reason = 0, ""
    with contextlib.closing(_messages(plan, positions)) as messages:
        for message in messages:
            if message.value() is None:
                continue
            seen += 1
            try:
                record = chain.sink_record(_raw(message))
            except RecordFailureError as failure:
                if isinstance(failure.__cause__, RetriableError):
                    raise
                reason = reason or str(failure)
                continue
            if record is not None and isinstance(record.value, Struct):
                found = spark_type(record.value.schema)
                if isinstance(found, dict) and found["fields"]:
                    return found
    if not seen:
        return None
    because = f": {reason}" if reason else ""
    raise DataError(
        f"none of the first {seen} records has a schema with fields{because}; use a converter with "
        "schemas, or set the property schema"
    )


def _messages(plan: JobPlan, positions: StartPositions) -> Generator[Message]:
    """Yield the first records from where the job starts."""
    properties = kafka_properties.for_librdkafka(consumer_properties(plan))
    consumer = Consumer(
        {
            **properties,
            "group.id": plan.group_id,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "logger": QUIET,
        }
    )
    try:
        left = {
            (topic, partition)
            for topic, partitions in positions.offsets.items()
            for partition in partitions
        }
        consumer.assign(
            [
                TopicPartition(topic, partition, positions.offsets[topic][partition])
                for topic, partition in left
            ]
        )
        deadline, count = time.monotonic() + _TIMEOUT_S, 0
        while left and count < _RECORDS_MAX and time.monotonic() < deadline:
            message = consumer.poll(_POLL_S)
            if message is None:
                continue
            if message.error() is not None:
                left.discard((message.topic() or "", message.partition() or 0))
                continue
            count += 1
            yield message
    finally:
        consumer.close()


def _raw(message: Message) -> RawRecord:
    kind, timestamp_ms = message.timestamp()
    headers: Any = message.headers() or ()
    return RawRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        timestamp_ms,
        LOG_APPEND_TIME if kind == _LOG_APPEND else CREATE_TIME,
        message.key(),
        message.value(),
        tuple(headers),
    )
