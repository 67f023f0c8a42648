"""Forward tasks that read ranges, against a node."""

import time
import uuid
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.pipeline.delivery.forward import forward_ranges, range_reader
from barnabas.pipeline.delivery.plan import offset_metadata
from barnabas.pipeline.delivery.plan.offset_ranges import OffsetRange
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan
from barnabas.pipeline.delivery.rows.arrow_rows import PartitionRows
from barnabas.pipeline.delivery.writing.topic_writers import BytesCopy
from barnabas.pipeline.delivery.writing.transactional_producer import committed, offset_reader
from barnabas.testing import Node

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@pytest.fixture
def plan(node: Node, admin: AdminClient) -> TaskPlan:
    """Return a copy of a topic with three partitions, named like the job."""
    name = f"job-{uuid.uuid4().hex[:8]}"
    topics = [NewTopic(name, 3, 1), NewTopic(f"{name}-target", 1, 1)]
    for future in admin.create_topics(topics).values():
        future.result(60)
    client = {"bootstrap.servers": node.bootstrap}
    return TaskPlan(
        name,
        1,
        "copy",
        name,
        name,
        client,
        client,
        {"key.converter": BYTES, "value.converter": BYTES},
        target_topic=f"{name}-target",
        topic_ids={name: "id"},
    )


def fill(plan: TaskPlan, count: int, partition: int = 0) -> None:
    producer = Producer({**plan.producer})
    for number in range(count):
        producer.produce(plan.job, str(number).encode(), partition=partition)
    assert producer.flush(60) == 0


def positions(plan: TaskPlan) -> list[TopicPartition]:
    reader = offset_reader(plan.group_id, plan.consumer)
    return committed(reader, [(plan.job, number) for number in range(3)])


def test_range_is_copied_once_although_two_tasks_have_it(plan: TaskPlan) -> None:
    fill(plan, 30)
    wanted = OffsetRange(plan.job, 0, 0, 30, 100)
    first = forward_ranges.run(plan, [wanted])
    again = forward_ranges.run(plan, [attrs.evolve(wanted, start=10)])
    assert (first.figures.records, first.positions) == (30, {(plan.job, 0): 30})
    assert (again.figures.records, again.figures.skipped) == (0, 20)
    assert again.positions == {(plan.job, 0): 30}
    assert [each.offset for each in positions(plan)] == [30, -1001, -1001]


def test_copy_at_least_once_commits_offsets_after_records_without_a_transaction(
    plan: TaskPlan,
) -> None:
    plan = attrs.evolve(plan, is_at_least_once=True)
    producer = Producer({**plan.producer})
    for number in range(30):
        producer.produce(plan.job, str(number), partition=0, timestamp=1_000 + number)
    assert producer.flush(60) == 0
    first = forward_ranges.run(plan, [OffsetRange(plan.job, 0, 0, 20, 100)])
    again = forward_ranges.run(plan, [OffsetRange(plan.job, 0, 10, 30, 100)])
    assert (first.figures.written, first.figures.transactions) == (30, 0)
    assert (again.figures.written, again.figures.skipped) == (0, 20)
    assert positions(plan)[0].offset == 30
    # A control record would be an offset more.
    copies = target(plan)
    assert [(each.offset(), each.timestamp()[1]) for each in copies] == [
        (number, 1_000 + number) for number in range(30)
    ]


def test_copy_at_least_once_commits_no_offset_before_its_records(
    plan: TaskPlan, admin: AdminClient
) -> None:
    compacted = f"{plan.job}-compacted"
    new = NewTopic(compacted, 1, 1, config={"cleanup.policy": "compact"})
    admin.create_topics([new])[compacted].result(60)
    fill(plan, 5)
    plan = attrs.evolve(plan, is_at_least_once=True)
    refused = attrs.evolve(plan, target_topic=compacted, generation=2)
    with pytest.raises(TaskFailureError, match="refuses records"):
        forward_ranges.run(refused, [OffsetRange(plan.job, 0, 0, 5, 100)])
    assert positions(plan)[0].offset == -1001
    forward_ranges.run(plan, [OffsetRange(plan.job, 0, 0, 5, 100)])
    assert positions(plan)[0].offset == 5
    assert {each.value() for each in target(plan)} == {str(number).encode() for number in range(5)}


def test_copy_keeps_partitions_where_both_topics_have_the_same_number(
    plan: TaskPlan, admin: AdminClient
) -> None:
    """librdkafka chooses the partition of a key by another hash than Java's clients do."""
    named = f"{plan.job}-same"
    admin.create_topics([NewTopic(named, 3, 1)])[named].result(60)
    producer = Producer({**plan.producer})
    for number in range(60):
        producer.produce(plan.job, f"value {number}", f"key {number}", number % 3)
    assert producer.flush(60) == 0
    plan = attrs.evolve(plan, target_topic=named)
    forward_ranges.run(plan, [OffsetRange(plan.job, number, 0, 20, 100) for number in range(3)])
    for partition in range(3):
        found = [each.key() for each in target(plan, partition)]
        assert found == [f"key {number}".encode() for number in range(partition, 60, 3)]


def target(plan: TaskPlan, partition: int = 0) -> list[Any]:
    """Return the records of the target topic."""
    consumer = Consumer({**plan.consumer, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition(str(plan.target_topic), partition, 0)])
    found: list[Any] = []
    while (message := consumer.poll(60)) is not None:
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF
            break
        found.append(message)
    consumer.close()
    return found


def test_slow_writer_commits_within_the_timeout_of_its_transactions(
    plan: TaskPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One transaction for the range would take 4 s of the reader's clock, and a second is allowed.

    The clock passes with the writes only, so a busy machine changes nothing.
    """
    write, now_s = BytesCopy.write, 0.0

    def write_slowly(writer: BytesCopy, rows: PartitionRows) -> None:
        nonlocal now_s
        write(writer, rows)
        now_s += 0.02 * len(rows)

    monkeypatch.setattr(BytesCopy, "write", write_slowly)
    clock = SimpleNamespace(monotonic=lambda: now_s, sleep=time.sleep)
    monkeypatch.setattr(range_reader, "time", clock)
    fill(plan, 200)
    plan = attrs.evolve(plan, limit_s=0.25)
    position, transactions, where = 0, 0, (plan.job, 0)
    while position < 200:
        began_s = now_s
        found = forward_ranges.run(plan, [OffsetRange(*where, position, 200, 500)])
        assert now_s - began_s < 1
        assert found.positions[where] == position + found.figures.written
        position = found.positions[where]
        transactions += 1
    assert 4 <= transactions <= 16
    assert positions(plan)[0].offset == 200


@pytest.mark.parametrize("is_single_task", [False, True])
def test_transaction_commits_the_offsets_of_its_ranges_only(
    plan: TaskPlan, is_single_task: bool
) -> None:
    """An offset of zero for another partition would have the next run read it from its start."""
    plan = attrs.evolve(plan, is_single_task=is_single_task)
    fill(plan, 5, partition=1)
    forward_ranges.run(plan, [OffsetRange(plan.job, 1, 0, 5, 100)])
    assert [each.offset for each in positions(plan)] == [-1001, 5, -1001]
    fill(plan, 5, partition=2)
    forward_ranges.run(plan, [OffsetRange(plan.job, 2, 0, 5, 100)])
    assert [each.offset for each in positions(plan)] == [-1001, 5, 5]


def test_position_behind_a_control_record_is_committed_with_the_offset(plan: TaskPlan) -> None:
    producer = Producer({**plan.producer, "transactional.id": f"{plan.job}-input"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(plan.job, b"v", partition=0)
    producer.commit_transaction(60)
    result = forward_ranges.run(plan, [OffsetRange(plan.job, 0, 0, 2, 100)])
    assert result.positions == {(plan.job, 0): 2}
    found = positions(plan)[0]
    assert (found.offset, offset_metadata.decode(found.metadata).position) == (1, 2)


@pytest.mark.parametrize("has_offset", [False, True])
@pytest.mark.parametrize("skips", [False, True])
def test_offsets_that_retention_deleted_fail_the_task_or_are_counted(
    plan: TaskPlan, admin: AdminClient, has_offset: bool, skips: bool
) -> None:
    plan = attrs.evolve(plan, skips_trimmed=skips)
    fill(plan, 30)
    start = 0
    if has_offset:
        start = forward_ranges.run(plan, [OffsetRange(plan.job, 0, 0, 30, 10)]).positions[
            plan.job, 0
        ]
    cut = TopicPartition(plan.job, 0, 20)
    admin.delete_records([cut])[cut].result(60)
    # Another worker, which has fetched nothing ahead.
    plan = attrs.evolve(plan, generation=2)
    wanted = OffsetRange(plan.job, 0, start, 30, 100)
    if skips:
        figures = forward_ranges.run(plan, [wanted]).figures
        assert (figures.records, figures.trimmed) == (10, 20 - start)
        return
    with pytest.raises(TaskFailureError, match=f"deleted offsets {start} to 19 of") as caught:
        forward_ranges.run(plan, [wanted])
    assert caught.value.failure.is_permanent


def test_position_that_the_log_has_continues_after_an_event_of_an_earlier_one(
    plan: TaskPlan, admin: AdminClient
) -> None:
    fill(plan, 30)
    cut = TopicPartition(plan.job, 0, 20)
    admin.delete_records([cut])[cut].result(60)
    current: Any = SimpleNamespace(figures=SimpleNamespace(trimmed=0))
    assert forward_ranges._after_trimmed(plan, current, (plan.job, 0), 25) == 25
    assert current.figures.trimmed == 0
    with pytest.raises(TaskFailureError, match="does not have offset 31") as caught:
        forward_ranges._after_trimmed(plan, current, (plan.job, 0), 31)
    assert not caught.value.failure.is_permanent
