"""A task of a micro-batch: the rows of a shuffle partition, in one transaction with the marker."""

from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import Any

import attrs
from confluent_kafka import TopicPartition

from barnabas.pipeline.delivery.driver.spark_library import pyspark
from barnabas.pipeline.delivery.micro_batches import marker_records, micro_batch_markers
from barnabas.pipeline.delivery.micro_batches.checkpoint_files import CheckpointFiles
from barnabas.pipeline.delivery.micro_batches.marker_records import MarkerRecord
from barnabas.pipeline.delivery.micro_batches.micro_batch_markers import (
    Decision,
    Marker,
    MicroBatchMismatchError,
)
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan
from barnabas.pipeline.delivery.rows.arrow_rows import column_list, headers_of
from barnabas.pipeline.delivery.rows.collected_rows import FAILED
from barnabas.pipeline.delivery.rows.task_figures import Figures
from barnabas.pipeline.delivery.writing.produced_records import BY_KEY
from barnabas.pipeline.delivery.writing.record_producer import RecordTooLargeError
from barnabas.pipeline.delivery.writing.transactional_producer import (
    Transaction,
    TransactionSettings,
    transaction,
)


@attrs.frozen
class MicroBatchPlan:
    """The values that tasks of micro-batches use in addition to those of every job."""

    task: TaskPlan
    markers_topic: str
    partitions: int
    checkpoint: str
    topic_ids: Mapping[str, str] = attrs.field(factory=dict[str, str])
    """The ids of the source topics, which the markers' records keep."""


def run(plan: MicroBatchPlan, batches: Iterator[Any]) -> Figures:
    """Write the rows of this task's partition, unless they are written already.

    Raises TaskFailureError when the checkpoint does not belong to the markers.
    """
    context = pyspark().TaskContext.get()
    batch = int(context.getLocalProperty("streaming.sql.batchId"))
    query_id = str(context.getLocalProperty("sql.streaming.queryId"))
    partition = int(context.partitionId())
    if partition >= plan.partitions:
        raise TaskFailureError(
            f"the query has more than {plan.partitions} partitions: micro-batches need the "
            "partitions of a shuffle, whose number the checkpoint fixes",
            is_permanent=True,
        )
    return _MicroBatchTask(plan, batch, query_id, partition).run(batches)


def transaction_settings(task: TaskPlan) -> TransactionSettings:
    """Return what the transactions of a job's tasks use."""
    return TransactionSettings(task.group_id, task.generation, task.producer, task.consumer)


def transactional_id(task: TaskPlan, partition: int) -> str:
    """Return the transactional id of the task that writes one partition of the markers."""
    return f"{task.transactional_id}-{partition}"


class _MicroBatchTask:
    def __init__(self, plan: MicroBatchPlan, batch: int, query_id: str, partition: int) -> None:
        self._plan = plan
        self._where = (plan.markers_topic, partition)
        self._figures = Figures()
        content = CheckpointFiles(plan.checkpoint).input_of(batch)
        if content is None:
            raise TaskFailureError(
                f"the checkpoint {plan.checkpoint} has no input of micro-batch {batch}, or this "
                "host does not share it",
                is_permanent=True,
            )
        self._current = Marker(batch + 1, query_id, micro_batch_markers.digest_of(content))

    def run(self, batches: Iterator[Any]) -> Figures:
        task = self._plan.task
        name = transactional_id(task, self._where[1])
        with transaction(transaction_settings(task), name, [self._where]) as begun:
            decision = self._decide(begun)
            for batch in batches:
                self._figures.records += batch.num_rows
                if decision is Decision.WRITE:
                    self._write(begun, batch)
                else:
                    self._figures.skipped += batch.num_rows
            self._write_record(begun)
            begun.send_offsets([self._position()])
        self._figures.transactions += 1
        self._figures.fenced += begun.fenced
        return self._figures

    def _decide(self, begun: Transaction) -> Decision:
        found = begun.positions[self._where]
        marker = micro_batch_markers.decode(found.offset, found.metadata)
        if marker is None:  # the first micro-batch, or the offset has expired
            topic, partition = self._where
            records = marker_records.newest(self._plan.task.consumer, topic, [partition])
            marker = records[0].marker if records else None
        try:
            return micro_batch_markers.decide(marker, self._current)
        except MicroBatchMismatchError as error:
            raise TaskFailureError(str(error), is_permanent=True) from error

    def _position(self) -> TopicPartition:
        marker = self._current
        return TopicPartition(*self._where, marker.next_batch, metadata=marker.encode())

    def _write_record(self, begun: Transaction) -> None:
        """Write the marker as a record, which does not expire."""
        topic, partition = self._where
        value = MarkerRecord(self._current, self._plan.topic_ids).encode()
        begun.producer.produce(topic, value, str(partition).encode(), partition, 0, None)

    def _write(self, begun: Transaction, batch: Any) -> None:
        names = ("topic", "value", "key", "partition", "timestamp_ms")
        columns = [column_list(batch.column(name)) for name in names]
        headers = headers_of(batch.column("headers")) or repeat(None, batch.num_rows)
        produce = begun.producer.produce
        failed = column_list(batch.column(FAILED))
        for topic, value, key, partition, timestamp_ms, own in zip(*columns, headers, strict=True):
            if topic is None:  # a record that failed, without a topic for dead letters
                continue
            try:
                target = BY_KEY if partition is None else partition
                produce(topic, value, key, target, timestamp_ms or 0, own or None)
            except RecordTooLargeError as error:
                message = (
                    f"a record of micro-batch {self._current.next_batch - 1} is too large: {error}"
                )
                raise TaskFailureError(message, is_permanent=True) from error
        begun.producer.poll()
        self._figures.dead_letters += sum(failed)
        self._figures.written += batch.num_rows - sum(failed)
