"""The producer of Spark's tasks, against a node."""

import gc
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.writing import transactional_producer
from barnabas.pipeline.delivery.writing.record_producer import AbortableError, FencedError
from barnabas.pipeline.delivery.writing.transactional_producer import (
    ProducerCache,
    TransactionalProducer,
    TransactionSettings,
    abandon,
    committed_after,
    transaction,
)
from barnabas.testing import Node
from barnabas.testing.eventually import wait_until


def test_batch_that_the_broker_refuses_as_too_large_is_a_permanent_failure_with_its_topic() -> None:
    """Otherwise the supervisor starts the job again and again."""
    with Node() as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        small = NewTopic("small", 1, 1, config={"max.message.bytes": "1000"})
        admin.create_topics([small])["small"].result(60)
        producer = TransactionalProducer(
            {"bootstrap.servers": node.bootstrap, "transactional.id": "job-small-0"}
        )
        producer.begin()
        producer.produce("small", b"x" * 5_000, None, 0, 0, None)
        with pytest.raises(TaskFailureError, match=r"as too large .*small") as caught:
            producer.commit()
        producer.abort()
    assert caught.value.failure.is_permanent


@pytest.mark.parametrize(
    ("config", "key", "timestamp_ms"),
    [({}, b"k", 4_000_000_000_000), ({"cleanup.policy": "compact"}, None, 0)],
    ids=["timestamp in the future", "no key in a compacted topic"],
)
@pytest.mark.parametrize("records", [1, 500])
def test_record_that_the_topic_does_not_take_is_a_permanent_failure_with_its_topic(
    config: dict[str, str], key: bytes | None, timestamp_ms: int, records: int
) -> None:
    with Node() as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.create_topics([NewTopic("strict", 1, 1, config=config)])["strict"].result(60)
        producer = TransactionalProducer(
            {"bootstrap.servers": node.bootstrap, "transactional.id": "job-strict-0"}
        )
        producer.begin()
        for _ in range(records - 1):
            producer.produce("strict", b"x", b"k", 0, 0, None)
        producer.produce("strict", b"x", key, 0, timestamp_ms, None)
        with pytest.raises(TaskFailureError, match=r"topic strict refuses.*: correct") as caught:
            producer.commit()
        producer.abort()
    assert caught.value.failure.is_permanent


def test_topic_whose_name_is_not_valid_is_a_permanent_failure_with_the_name() -> None:
    with Node() as node:
        producer = TransactionalProducer(
            {"bootstrap.servers": node.bootstrap, "transactional.id": "job-wrong-0"}
        )
        producer.begin()
        producer.produce("a b/c", b"x", b"k", -1, 0, None)
        with pytest.raises(TaskFailureError, match="topic a b/c cannot be written") as caught:
            producer.commit()
        producer.abort()
    assert caught.value.failure.is_permanent


def test_failure_that_may_pass_names_the_topic() -> None:
    with Node(config={"auto.create.topics.enable": "false"}) as node:
        producer = TransactionalProducer(
            {
                "bootstrap.servers": node.bootstrap,
                "transactional.id": "job-missing-0",
                "topic.metadata.propagation.max.ms": 100,
            }
        )
        producer.begin()
        producer.produce("missing", b"x", b"k", -1, 0, None)
        with pytest.raises(AbortableError, match="topic missing cannot be written"):
            producer.commit()
        producer.abort()


def test_offsets_that_no_coordinator_takes_end_the_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """librdkafka ignores the timeout of the call, which may never return."""
    monkeypatch.setattr(transactional_producer, "_CALL_TIMEOUT_S", 0.0)
    monkeypatch.setattr(transactional_producer, "_CALL_GRACE_S", 0.1)
    ending = threading.Event()
    producer: Any = TransactionalProducer.__new__(TransactionalProducer)
    producer._producer = SimpleNamespace(send_offsets_to_transaction=lambda *_: ending.wait(60))
    producer._refusal = SimpleNamespace(error=None, topic=None)
    try:
        with pytest.raises(AbortableError, match="offsets were not sent to the transaction"):
            producer.send_offsets([], None)
    finally:
        ending.set()


def create_topic(node: Node, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)


@pytest.mark.usefixtures("fenced_clients")
def test_producer_that_is_fenced_while_records_are_in_its_queue_raises_fenced() -> None:
    """librdkafka raises its own exception from poll; a source's task begins again when fenced."""
    with Node() as node:
        create_topic(node, "to", partitions=4)
        properties = {"bootstrap.servers": node.bootstrap, "transactional.id": "job-to-0"}
        fenced = TransactionalProducer(properties)
        fenced.begin()
        for partition in range(4):
            fenced.produce("to", b"x", b"k", partition, 0, None)
        assert fenced._producer.flush(60) == 0
        TransactionalProducer(properties)

        def write() -> None:
            for number in range(1_000):
                fenced.produce("to", b"x", b"k", number % 4, 0, None)
            poll_for(60, fenced)

        with pytest.raises(FencedError):  # by poll, or by produce when the answer comes sooner
            write()


@pytest.mark.usefixtures("fenced_clients")
def test_producer_that_is_fenced_while_it_queues_records_raises_fenced() -> None:
    """librdkafka says no more than "Local: Fatal error" then, which failed sources."""
    with Node() as node:
        create_topic(node, "to", partitions=1)
        properties = {"bootstrap.servers": node.bootstrap, "transactional.id": "job-to-0"}
        fenced = TransactionalProducer(properties)
        fenced.begin()
        fenced.produce("to", b"x", b"k", 0, 0, None)
        fenced.commit()
        TransactionalProducer(properties)
        fenced.begin()
        with pytest.raises(FencedError, match="fenced by a newer instance"):
            produce_for(60, fenced)
        with pytest.raises(FencedError):
            fenced.produce("to", b"x", b"k", 0, 0, None)


def test_producer_without_a_coordinator_raises_after_a_limited_time(monkeypatch) -> None:
    monkeypatch.setattr(transactional_producer, "_INIT_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        properties = {
            "bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}",
            "transactional.id": "job-unreachable-0",
        }
        with pytest.raises(AbortableError, match="imed out"):
            TransactionalProducer(properties)


def poll_for(seconds: float, producer: TransactionalProducer) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        producer.poll()


def test_offsets_after_a_killed_worker_are_read_without_waiting_for_its_transaction() -> None:
    """It would end after transaction.timeout.ms, here 15 minutes."""
    with Node() as node:
        create_topic(node, "source", partitions=1)
        properties = {"bootstrap.servers": node.bootstrap}
        settings = TransactionSettings(
            "job", 1, {**properties, "transaction.timeout.ms": 900_000}, properties
        )
        for number in range(2):
            with transaction(settings, f"job-{number}", [SOURCE]) as begun:
                begun.send_offsets([TopicPartition(*SOURCE, 5 + number)])
        killed = TransactionalProducer({**settings.producer, "transactional.id": "job-1"})
        killed.begin()
        killed.send_offsets([TopicPartition(*SOURCE, 9)], begun.reader.consumer_group_metadata())
        (found,) = committed_after(settings, ["job-0", "job-1"], [SOURCE])
        assert found.offset == 6
        with pytest.raises(FencedError):
            killed.commit()


def produce_for(seconds: float, producer: TransactionalProducer) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        producer.produce("to", b"x", b"k", 0, 0, None)
        time.sleep(0.001)


SOURCE = ("source", 0)
Task = Callable[[ProducerCache, int], int]


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Iterator[Task]:
    """A task that advances the committed offset by some records, in the worker of a cache."""
    with Node() as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        for future in admin.create_topics(
            [NewTopic("source", 1, 1), NewTopic("to", 1, 1)]
        ).values():
            future.result(60)
        properties = {"bootstrap.servers": node.bootstrap}
        settings = TransactionSettings("job", 1, properties, properties)

        def run(worker: ProducerCache, records: int) -> int:
            monkeypatch.setattr(transactional_producer, "PRODUCERS", worker)
            with transaction(settings, "job-source-0", [SOURCE]) as begun:
                first = max(0, begun.positions[SOURCE].offset)
                begun.producer.produce("to", b"x", None, 0, 0, None)
                begun.send_offsets([TopicPartition(*SOURCE, first + records)])
            return first + records

        yield run


def test_worker_whose_producer_was_fenced_takes_the_id_back(task: Task) -> None:
    one, other = ProducerCache(), ProducerCache()
    assert [task(one, 5), task(other, 7), task(one, 1), task(other, 1)] == [5, 12, 13, 14]


def fenced_after(begun: TransactionalProducer, properties: dict[str, str]) -> None:
    """Fence a producer whose transaction has a record."""
    begun.produce("to", b"x", b"k", 0, 0, None)
    assert begun._producer.flush(60) == 0
    TransactionalProducer(properties)


def abandoned(properties: dict[str, str]) -> None:
    producer = TransactionalProducer(properties)
    producer.begin()
    fenced_after(producer, properties)
    try:
        raise ValueError("the task failed")
    except ValueError:
        abandon(producer)


def given_up(properties: dict[str, str]) -> None:
    clients = {"bootstrap.servers": properties["bootstrap.servers"]}
    settings = TransactionSettings("group", 1, clients, clients)

    def task() -> None:
        with transaction(settings, properties["transactional.id"], [("to", 0)]) as begun:
            fenced_after(begun.producer, properties)
            raise ValueError("the task failed")

    with pytest.raises(ValueError, match="the task failed"):
        task()


def committed_while_handling(properties: dict[str, str]) -> None:
    producer = TransactionalProducer(properties)
    producer.begin()
    fenced_after(producer, properties)
    try:
        raise ValueError("a record failed")
    except ValueError:
        with pytest.raises(FencedError):
            producer.commit()


@pytest.mark.parametrize("fail", [abandoned, given_up, committed_while_handling])
def test_client_that_fails_while_an_exception_is_handled_is_closed(
    fail: Callable[[dict[str, str]], None],
) -> None:
    """The error of librdkafka's exception, which is never freed, would keep the client."""
    with Node() as node:
        create_topic(node, "to", partitions=1)
        gc.collect()
        before = connections(node)
        fail({"bootstrap.servers": node.bootstrap, "transactional.id": "job-kept-0"})
        transactional_producer.PRODUCERS.clear()
        transactional_producer.READERS.clear()
        gc.collect()  # exceptions refer to their frames, which refer to them
        wait_until(lambda: connections(node) <= before)


def connections(node: Node) -> int:
    """The established connections to a node in the tables of the system."""
    host, _, port = node.bootstrap.partition(":")
    wanted = f":{int(port):04X}"
    assert host == "127.0.0.1"
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    fields = (line.split() for line in lines)
    return sum(remote.endswith(wanted) and state == "01" for _, _, remote, state, *_ in fields)


@pytest.mark.usefixtures("fenced_clients")
def test_producer_cache_without_probe_fails_tasks(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probe can be missed: without it the cached producer fails with its first record."""
    monkeypatch.setattr(TransactionalProducer, "send_offsets", skip_first())
    one, other = ProducerCache(), ProducerCache()
    assert [task(one, 5), task(other, 7)] == [5, 12]
    with pytest.raises(FencedError):
        task(one, 1)


def skip_first() -> Callable[..., None]:
    """Return `send_offsets` without the first call of each transaction, which is the probe."""
    send_offsets = TransactionalProducer.send_offsets
    calls: dict[int, int] = {}

    def sent(self: Any, offsets: Sequence[TopicPartition], group: object) -> None:
        calls[id(self)] = calls.get(id(self), 0) + 1
        if calls[id(self)] % 2 == 0:
            send_offsets(self, offsets, group)

    return sent


def test_offset_that_is_committed_while_it_is_read_is_read_again(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task of another worker commits between the read and the probe: the probe finds it."""
    one, other = ProducerCache(), ProducerCache()
    task(one, 5)
    committed, overtaken = transactional_producer.committed, []

    def read(reader: Any, partitions: Any) -> Any:
        found = committed(reader, partitions)
        if not overtaken:
            overtaken.append(True)
            task(other, 7)
            monkeypatch.setattr(transactional_producer, "PRODUCERS", one)
        return found

    monkeypatch.setattr(transactional_producer, "committed", read)
    assert task(one, 1) == 13
