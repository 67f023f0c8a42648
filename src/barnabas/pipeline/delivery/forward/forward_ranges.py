"""A forward task of a copy or a sink: it reads ranges of offsets itself, and writes their records.

The records of one topic partition, or of all when the sink needs one task, and the offsets after
them are one transaction. The task trusts the group's committed offsets, not the driver's: records
that an earlier transaction has committed are not read again.
"""

from collections.abc import Mapping, Sequence

import attrs

from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.forward.forward_transaction import (
    ForwardTransaction,
    forward_transaction,
)
from barnabas.pipeline.delivery.forward.range_reader import READERS, RangeReader
from barnabas.pipeline.delivery.plan import start_positions
from barnabas.pipeline.delivery.plan.job_plan import RecordPosition
from barnabas.pipeline.delivery.plan.offset_ranges import OffsetRange, Partition
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan, transactional_id
from barnabas.pipeline.delivery.rows.task_figures import Figures
from barnabas.pipeline.delivery.writing.transactional_producer import partitions_of


@attrs.frozen
class ForwardResult:
    """The work of one task, and the next offsets of its partitions."""

    figures: Figures
    positions: Mapping[Partition, int]


def run(plan: TaskPlan, ranges: Sequence[OffsetRange]) -> ForwardResult:
    """Write the records of ranges in one transaction. Raises TaskFailureError, KafkaException."""
    name = transactional_id(plan, ranges[0].topic, ranges[0].partition)
    partitions = [each.where for each in ranges]
    if plan.is_single_task:
        known = partitions_of(plan.group_id, plan.consumer, plan.topic_ids)
        partitions = list(dict.fromkeys([*partitions, *known]))
    consumer = {**plan.consumer, "group.id": plan.group_id}
    with (
        READERS.borrowed(name, plan.generation, consumer, plan.poll_records_max) as reader,
        forward_transaction(plan, name, partitions) as current,
    ):
        _copy(plan, reader, current, ranges)
    return ForwardResult(current.figures, current.reached)


def _copy(
    plan: TaskPlan, reader: RangeReader, current: ForwardTransaction, ranges: Sequence[OffsetRange]
) -> None:
    figures = current.figures
    wanted: list[OffsetRange] = []
    for each in ranges:
        committed = current.committed(each.where)
        start = max(each.start, committed)
        figures.skipped += start - each.start
        if start < each.end:
            wanted.append(attrs.evolve(each, start=start))
        current.following[each.where] = committed if committed >= 0 else start
        current.reached[each.where] = start

    def trimmed(where: Partition, offset: int) -> int:
        return _after_trimmed(plan, current, where, offset)

    for rows in reader.rows(wanted, trimmed, plan.limit_s):
        current.writer.write(rows)
        figures.records += len(rows)
        figures.see_timestamp(min(rows.timestamps_ms))
        current.following[rows.topic, rows.partition] = rows.last_offset + 1
    current.reached.update(reader.finish(wanted))


def _after_trimmed(
    plan: TaskPlan, current: ForwardTransaction, where: Partition, offset: int
) -> int:
    """Return where to continue after offsets that the broker does not have.

    Raises TaskFailureError when the job must not skip them, or the log ends before `offset`.
    """
    cluster = ClusterState(plan.consumer)
    start = cluster.log_starts([where])[where]
    record = RecordPosition(*where, offset)
    if start <= offset <= cluster.ends([where])[where]:
        return offset  # the event is of an earlier position
    if start <= offset:
        raise TaskFailureError(
            f"the broker does not have offset {offset} of {where[0]}-{where[1]}",
            is_permanent=False,
            record=record,
        )
    if not plan.skips_trimmed:
        raise TaskFailureError(
            start_positions.trimmed_text(record, start), is_permanent=True, record=record
        )
    current.figures.trimmed += start - offset
    return start
