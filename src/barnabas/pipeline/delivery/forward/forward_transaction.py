"""The transaction of a forward task: records, dead letters, and the offsets after them."""

import contextlib
import time
from collections.abc import Generator, Sequence

import attrs
from confluent_kafka import TopicPartition

from barnabas.pipeline.delivery.plan.offset_metadata import OffsetMetadata
from barnabas.pipeline.delivery.plan.offset_ranges import Partition
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan
from barnabas.pipeline.delivery.rows.task_figures import Figures
from barnabas.pipeline.delivery.writing.plain_delivery import PlainDelivery, plain_delivery
from barnabas.pipeline.delivery.writing.record_writers import WRITERS, RecordWriter
from barnabas.pipeline.delivery.writing.transactional_producer import (
    Transaction,
    TransactionSettings,
    transaction,
)


@attrs.define
class ForwardTransaction:
    """An open transaction with the writer of the job."""

    begun: Transaction | PlainDelivery
    writer: RecordWriter
    figures: Figures
    following: dict[Partition, int] = attrs.field(factory=dict[Partition, int])
    """The offsets to commit, after the last records."""
    reached: dict[Partition, int] = attrs.field(factory=dict[Partition, int])
    """Positions after them that are known to have no records before."""

    def committed(self, where: Partition) -> int:
        """Return the offset that the group had committed before; negative without one."""
        return self.begun.positions[where].offset


@contextlib.contextmanager
def forward_transaction(
    plan: TaskPlan, name: str, partitions: Sequence[Partition]
) -> Generator[ForwardTransaction]:
    """Begin the transaction `name`; at the end flush the writer, and commit.

    The caller sets `following`. An exception aborts the transaction. A job that delivers at least
    once has no transaction.
    """
    figures = Figures()
    settings = TransactionSettings(plan.group_id, plan.generation, plan.producer, plan.consumer)
    delivery = (
        plain_delivery(settings, partitions)
        if plan.is_at_least_once
        else transaction(settings, name, partitions)
    )
    with WRITERS.borrowed(plan) as writer, delivery as begun:
        writer.open(begun.producer, begun.positions, figures)
        current = ForwardTransaction(begun, writer, figures)
        yield current
        note = writer.flush(current.following) or ""
        begun.send_offsets(_entries(plan, current, note))
    figures.transactions += not plan.is_at_least_once
    figures.fenced += begun.fenced


def _entries(plan: TaskPlan, current: ForwardTransaction, note: str) -> list[TopicPartition]:
    now_ms = int(time.time() * 1000)
    found: list[TopicPartition] = []
    for where, offset in current.following.items():
        reached = current.reached.get(where, offset)
        position = reached if reached > offset else 0
        metadata = OffsetMetadata(plan.topic_ids.get(where[0]), note, now_ms, position)
        found.append(TopicPartition(*where, offset, metadata=metadata.encode()))
    return found
