"""Tasks of queries whose rows stay in their task: transactions and positions, against a node."""

import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

import attrs
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

pytest.importorskip("pyarrow")

from barnabas.pipeline.delivery.forward import forward_rows
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan
from barnabas.pipeline.delivery.rows.frame_rows import FrameRows
from barnabas.pipeline.delivery.writing.transactional_producer import (
    committed,
    offset_reader,
)
from barnabas.testing import Node
from tests.pipeline.delivery.forwarded_rows import batches, plan_of, rows


@pytest.fixture
def plan(node: Node, admin: AdminClient) -> TaskPlan:
    name = f"q-{uuid.uuid4().hex[:8]}"
    for topic in (name, f"{name}-to"):
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    return plan_of(node.bootstrap, name)


def position(plan: TaskPlan) -> int:
    (found,) = committed(offset_reader(plan.group_id, plan.consumer), [(plan.job, 0)])
    return found.offset


def values(plan: TaskPlan, count: int) -> list[int]:
    """Return the values of the first committed records."""
    assert plan.target_topic is not None
    consumer = Consumer({**plan.consumer, "group.id": "g", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(plan.target_topic, 0, 0)])
    found: list[int] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), 120)
        assert messages
        found += [int(message.value() or b"") for message in messages]
    consumer.close()
    return found


def test_task_that_takes_long_has_transactions_one_after_the_other(plan: TaskPlan) -> None:
    runs = [rows(plan, 0, 1), rows(plan, 2, 3), rows(plan, 4)]
    figures = [batch.to_pylist()[0] for batch in forward_rows.run(plan, iter(runs))]
    assert [(each["records"], each["written"], each["transactions"]) for each in figures] == [
        (2, 2, 1), (2, 2, 1), (1, 1, 1),
    ]  # fmt: skip
    assert (position(plan), values(plan, 5)) == (5, [0, 1, 2, 3, 4])


def test_rows_of_one_record_are_in_one_transaction(plan: TaskPlan) -> None:
    runs = [rows(plan, 0, 1), rows(plan, 1, 1), rows(plan, 1, 2), rows(plan, 3)]
    figures = [batch.to_pylist()[0] for batch in forward_rows.run(plan, iter(runs))]
    assert [each["records"] for each in figures] == [6, 1]
    assert values(plan, 7) == [0, 1, 1, 1, 1, 2, 3]


def test_task_that_fails_keeps_its_earlier_transactions_and_is_repeated_after_them(
    plan: TaskPlan,
) -> None:
    def failing() -> Iterator[FrameRows]:
        yield rows(plan, 0, 1)
        yield rows(plan, 2, 3)
        yield rows(plan, 4, partition=1)

    written = forward_rows.run(plan, failing())
    next(written)
    with pytest.raises(TaskFailureError, match="one partition in each task"):
        next(written)
    assert position(plan) == 2
    again = [rows(plan, 0, 1), rows(plan, 2, 3), rows(plan, 4)]
    figures = [batch.to_pylist()[0] for batch in forward_rows.run(plan, iter(again))]
    assert [each["skipped"] for each in figures] == [2, 0, 0]
    assert (position(plan), values(plan, 5)) == (5, [0, 1, 2, 3, 4])


def test_rows_that_another_instance_has_committed_are_dropped_in_each_transaction(
    plan: TaskPlan,
) -> None:
    ahead = attrs.evolve(plan, limit_s=60.0)
    runs = [rows(plan, *range(5)), rows(plan, *range(5, 10))]
    assert len(list(forward_rows.run(ahead, iter(runs)))) == 1
    behind = [rows(plan, 0, 1), rows(plan, 2, 3), rows(plan, 4, 5)]
    figures = [batch.to_pylist()[0] for batch in forward_rows.run(plan, iter(behind))]
    assert [(each["skipped"], each["written"]) for each in figures] == [(2, 0)] * 3
    assert (position(plan), values(plan, 10)) == (10, list(range(10)))


def test_task_with_many_transactions_writes_each_row_once_when_it_is_killed(plan: TaskPlan) -> None:
    count = 2_000
    command = [sys.executable, "-m", "tests.pipeline.delivery.forwarded_rows"]
    command += [plan.consumer["bootstrap.servers"], plan.job, str(count)]
    for transactions, pause_s in ((1, 0.0), (4, 0.003), (7, 0.006), (5, 0.01)):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(transactions):
                assert process.stdout.readline() == b"committed\n"
            time.sleep(pause_s)
            process.kill()
    assert all(forward_rows.run(plan, batches(plan, count)))
    assert (position(plan), values(plan, count)) == (count, list(range(count)))
