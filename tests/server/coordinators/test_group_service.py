"""Consumer groups of confluent-kafka on a node: rebalances, commits, restarts and kills."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing import Node

CONFIG = {"group.initial.rebalance.delay.ms": "0"}
PARTITIONS = 4
DEADLINE_S = 60


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Node(config=CONFIG) as node:
        yield node.bootstrap


def create_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)


def produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number in range(count):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(60) == 0


@contextmanager
def consumer(bootstrap: str, group_id: str, **config: object) -> Iterator[Consumer]:
    made = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 100,
            "session.timeout.ms": 6000,
        }
        | config
    )
    try:
        yield made
    finally:
        made.close()


def poll_until(done: object, *consumers: Consumer) -> list[str]:
    """Poll the consumers in turn until `done` holds; the values they got."""
    values: list[str] = []
    deadline = time.monotonic() + DEADLINE_S
    while not done(values):  # type: ignore[operator]
        assert time.monotonic() < deadline, f"timed out with {len(values)} values"
        for each in consumers:
            message = each.poll(0.02)
            if message is not None and message.error() is None:
                values.append(message.value().decode())
    return values


def assigned(*consumers: Consumer) -> list[int]:
    return [len(each.assignment()) for each in consumers]


def test_group_members_share_partitions_and_take_over(bootstrap: str) -> None:
    create_topic(bootstrap, "shared")
    with consumer(bootstrap, "share") as one:
        one.subscribe(["shared"])
        poll_until(lambda _: assigned(one) == [4], one)
        with consumer(bootstrap, "share") as two:
            two.subscribe(["shared"])
            poll_until(lambda _: assigned(one, two) == [2, 2], one, two)
            held = [p.partition for each in (one, two) for p in each.assignment()]
            assert sorted(held) == [0, 1, 2, 3]
        poll_until(lambda _: assigned(one) == [4], one)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_group_rebalance_loses_no_record(bootstrap: str, strategy: str) -> None:
    topic = f"all-{strategy}"
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, 40)
    config = {"partition.assignment.strategy": strategy}
    with consumer(bootstrap, topic, **config) as one, consumer(bootstrap, topic, **config) as two:
        one.subscribe([topic])
        values = poll_until(lambda got: len(got) >= 10, one)
        one.commit(asynchronous=False)
        two.subscribe([topic])
        wanted = {str(number) for number in range(40)}
        poll_until(lambda got: wanted <= {*values, *got}, one, two)


def test_static_member_returns_without_a_rebalance(bootstrap: str) -> None:
    create_topic(bootstrap, "static")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    with consumer(bootstrap, "static", **{"group.instance.id": "first"}) as one:
        one.subscribe(["static"])
        poll_until(lambda _: assigned(one) == [4], one)
        with consumer(bootstrap, "static", **{"group.instance.id": "second"}) as two:
            two.subscribe(["static"])
            poll_until(lambda _: assigned(one, two) == [2, 2], one, two)
            held = {p.partition for p in two.assignment()}
        assert assigned(one) == [2]
        with consumer(bootstrap, "static", **{"group.instance.id": "second"}) as two:
            two.subscribe(["static"])
            poll_until(lambda _: assigned(two) == [2], one, two)
            assert {p.partition for p in two.assignment()} == held
            assert assigned(one) == [2]
        described = admin.describe_consumer_groups(["static"])["static"].result(60)
        assert described.state == ConsumerGroupState.STABLE
        instances = {member.group_instance_id for member in described.members}
        assert instances == {"first", "second"}


def test_group_is_listed_described_and_deleted(bootstrap: str) -> None:
    create_topic(bootstrap, "admin")
    produce(bootstrap, "admin", 4)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    with consumer(bootstrap, "admin") as one:
        one.subscribe(["admin"])
        poll_until(lambda got: len(got) == 4, one)
        one.commit(asynchronous=False)
        listed = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(60)
        assert "admin" in {group.group_id for group in listed.valid}
        with pytest.raises(Exception, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups(["admin"])["admin"].result(60)
    described = admin.describe_consumer_groups(["admin"])["admin"].result(60)
    assert described.state == ConsumerGroupState.EMPTY
    admin.delete_consumer_groups(["admin"])["admin"].result(60)
    listed = admin.list_consumer_groups().result(60)
    assert "admin" not in {group.group_id for group in listed.valid}


def committed(bootstrap: str, group_id: str, topic: str) -> list[int]:
    with consumer(bootstrap, group_id) as one:
        partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        return [p.offset for p in one.committed(partitions, timeout=DEADLINE_S)]


def commit(bootstrap: str, group_id: str, topic: str, offset: int) -> None:
    with consumer(bootstrap, group_id) as one:
        offsets = [TopicPartition(topic, index, offset) for index in range(PARTITIONS)]
        one.commit(offsets=offsets, asynchronous=False)


def test_committed_offsets_survive_a_restart(tmp_path: Path) -> None:
    with Node(data=tmp_path, config=CONFIG) as node:
        create_topic(node.bootstrap, "kept")
        commit(node.bootstrap, "keeper", "kept", 7)
    with Node(data=tmp_path, config=CONFIG) as node:
        assert committed(node.bootstrap, "keeper", "kept") == [7] * PARTITIONS


SERVE = """
import sys, time
from pathlib import Path
from barnabas.testing import Node
with Node(data=Path(sys.argv[1]), config={"group.initial.rebalance.delay.ms": "0"}) as node:
    print(node.bootstrap, flush=True)
    time.sleep(60)
"""


@contextmanager
def process(data: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, str(data)], stdout=subprocess.PIPE, text=True
    ) as served:
        try:
            assert served.stdout is not None
            yield served.stdout.readline().strip(), served
        finally:
            served.kill()


def test_committed_offsets_survive_a_kill(tmp_path: Path) -> None:
    acked = 0
    with process(tmp_path) as (bootstrap, served):
        create_topic(bootstrap, "killed")
        with consumer(bootstrap, "survivor") as one:
            for offset in range(1, 40):
                offsets = [TopicPartition("killed", index, offset) for index in range(PARTITIONS)]
                one.commit(offsets=offsets, asynchronous=False)
                acked = offset
            served.send_signal(signal.SIGKILL)
            served.wait()
    with process(tmp_path) as (bootstrap, _):
        assert committed(bootstrap, "survivor", "killed") == [acked] * PARTITIONS
