"""Transactions of confluent-kafka and of Java's clients: all or nothing, exactly once."""

import asyncio
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import kafka
import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from barnabas.testing.history import History, Operation, check
from compat_tests import jars
from compat_tests.jars import ROOT
from compat_tests.servers import ServerProcess
from compat_tests.stable_ends import hanging_partitions
from compat_tests.transform import Transformer

pytestmark = pytest.mark.timeout(300)

PARTITIONS = 3
READ_S = 60


def producer(bootstrap: str, transactional_id: str, **settings: object) -> Producer:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    made = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "linger.ms": 1,
            **named,
        }
    )
    made.init_transactions(60)
    return made


def write(made: Producer, topic: str, *values: str, partitions: int = PARTITIONS) -> None:
    for number, value in enumerate(values):
        made.produce(topic, value=value, partition=number % partitions)


def read_all(
    bootstrap: str,
    topic: str,
    partitions: int = PARTITIONS,
    *,
    level: str = "read_committed",
    into: Operation | None = None,
) -> list[str]:
    """Return every value up to the end of each partition, at the isolation level."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": level,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    values: list[str] = []
    left = set(range(partitions))
    deadline = time.monotonic() + READ_S
    while left:
        assert time.monotonic() < deadline, f"{left} did not end"
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is not None:
            assert message.error().name() == "_PARTITION_EOF", message.error()
            left.discard(message.partition())
            continue
        value = message.value().decode()
        values.append(value)
        if into is not None:
            into.read(topic, message.partition(), message.offset(), value)
    consumer.close()
    return values


def until(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


# One producer


def test_read_committed_returns_only_committed_records(bootstrap, topics, unique) -> None:
    topic = topics.create("txn", partitions=PARTITIONS)
    made = producer(bootstrap, unique("id"))
    for number in range(6):
        made.begin_transaction()
        write(made, topic, *(f"{number}-{i}" for i in range(7)))
        made.flush(30)
        if number % 2:
            made.abort_transaction(30)
        else:
            made.commit_transaction(30)
    committed = {f"{number}-{i}" for number in (0, 2, 4) for i in range(7)}
    assert sorted(read_all(bootstrap, topic)) == sorted(committed)
    everything = read_all(bootstrap, topic, level="read_uncommitted")
    assert len(everything) == 6 * 7


def test_open_transaction_limits_read_committed_consumers(bootstrap, topics, unique) -> None:
    topic = topics.create("open")
    made, plain = producer(bootstrap, unique("id")), Producer({"bootstrap.servers": bootstrap})
    plain.produce(topic, value="before")
    plain.flush(30)
    made.begin_transaction()
    write(made, topic, "inside", partitions=1)
    made.flush(30)
    plain.produce(topic, value="after")
    plain.flush(30)
    assert read_all(bootstrap, topic, 1) == ["before"]
    uncommitted = read_all(bootstrap, topic, 1, level="read_uncommitted")
    assert uncommitted == ["before", "inside", "after"]
    made.commit_transaction(30)
    until(lambda: read_all(bootstrap, topic, 1) == ["before", "inside", "after"])


@pytest.mark.parametrize("codec", ["gzip", "zstd", "lz4", "snappy"])
def test_compressed_batches_of_transactions(bootstrap, topics, unique, codec) -> None:
    topic = topics.create("codec", partitions=PARTITIONS)
    made = producer(bootstrap, unique("id"), compression_type=codec)
    made.begin_transaction()
    write(made, topic, *(f"kept {i} " + "." * 200 for i in range(300)))
    made.commit_transaction(30)
    made.begin_transaction()
    write(made, topic, *(f"lost {i} " + "." * 200 for i in range(300)))
    made.flush(30)
    made.abort_transaction(30)
    assert sum(value.startswith("kept") for value in read_all(bootstrap, topic)) == 300
    assert not any(value.startswith("lost") for value in read_all(bootstrap, topic))


def test_a_second_instance_fences_the_first(bootstrap, topics, unique) -> None:
    topic, name = topics.create("fence", partitions=PARTITIONS), unique("id")
    first = producer(bootstrap, name)
    first.begin_transaction()
    write(first, topic, "zombie-1", "zombie-2")
    first.flush(30)
    second = producer(bootstrap, name)
    second.begin_transaction()
    write(second, topic, "alive-1", "alive-2")

    def go_on() -> None:
        write(first, topic, "zombie-3")
        first.commit_transaction(30)

    with pytest.raises(KafkaException) as raised:
        go_on()
    assert raised.value.args[0].name() == "_FENCED"
    second.commit_transaction(30)
    until(lambda: sorted(read_all(bootstrap, topic)) == ["alive-1", "alive-2"])


def test_a_transaction_that_takes_too_long_is_aborted(start_server, unique) -> None:
    server = start_server({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"})
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.create_topics([NewTopic("slow", 1, 1)])["slow"].result(30)
    made = producer(server.bootstrap, unique("id"), transaction_timeout_ms=2_000)
    began = time.monotonic()
    made.begin_transaction()
    write(made, "slow", "too late", partitions=1)
    made.flush(30)
    plain = Producer({"bootstrap.servers": server.bootstrap})
    plain.produce("slow", value="after")
    plain.flush(30)
    assert read_all(server.bootstrap, "slow", 1) == [] or time.monotonic() - began > 2
    until(lambda: read_all(server.bootstrap, "slow", 1) == ["after"])
    with pytest.raises(KafkaException):
        made.commit_transaction(30)


# Consume, transform, produce


def fill(bootstrap: str, topic: str, count: int) -> list[str]:
    plain = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    values = [f"value-{i}" for i in range(count)]
    for number, value in enumerate(values):
        plain.produce(topic, value=value, partition=number % PARTITIONS)
    assert plain.flush(60) == 0
    return values


def committed(bootstrap: str, group: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    asked = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    found = [each.offset for each in consumer.committed(asked, 30)]
    consumer.close()
    return found


def test_offsets_are_part_of_the_transaction(bootstrap, topics, unique) -> None:
    source, group = topics.create("source", partitions=PARTITIONS), unique("g")
    fill(bootstrap, source, 30)
    made = producer(bootstrap, unique("id"))
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([source])
    until(lambda: consumer.poll(0.1) is not None)
    offsets = [TopicPartition(source, 0, 4), TopicPartition(source, 1, 5)]
    unset = -1001
    for commit in (False, True):
        made.begin_transaction()
        made.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
        if commit:
            made.commit_transaction(30)
        else:
            made.abort_transaction(30)
            assert committed(bootstrap, group, source) == [unset] * PARTITIONS
    until(lambda: committed(bootstrap, group, source) == [4, 5, unset])
    consumer.close()


def test_transactional_copy_is_exact_with_killed_clients(bootstrap, topics, unique) -> None:
    source = topics.create("source", partitions=PARTITIONS)
    sink = topics.create("sink", partitions=PARTITIONS)
    values = fill(bootstrap, source, 3_000)
    names = [bootstrap, source, sink, unique("g"), unique("id")]
    command = [sys.executable, "-m", "compat_tests.transform", *names]
    wanted = sorted(value.upper() for value in values)
    for _ in range(4):
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as worker:
            assert worker.stdout is not None
            for _ in range(random.randrange(5, 30)):
                if not worker.stdout.readline():
                    break
            worker.kill()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as worker:
        until(lambda: len(read_all(bootstrap, sink)) >= len(wanted), 120)
        worker.kill()
    assert sorted(read_all(bootstrap, sink)) == wanted


def test_transactional_copy_is_exact_with_a_killed_server(start_server, unique) -> None:
    server: ServerProcess = start_server()
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    for future in admin.create_topics(
        [NewTopic(name, PARTITIONS, 1) for name in ("source", "sink")]
    ).values():
        future.result(30)
    values = fill(server.bootstrap, "source", 4_000)
    stopping = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        while not stopping.is_set():
            transformer = Transformer(server.bootstrap, "source", "sink", "g", "id")
            try:
                while not stopping.is_set():
                    transformer.step()
            except KafkaException as error:
                if not error.args[0].fatal():
                    failures.append(error)
                    return
            finally:
                transformer.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    for _ in range(3):
        time.sleep(random.uniform(0.5, 2.0))
        server.kill()
        time.sleep(0.3)
        server.start()
    wanted = sorted(value.upper() for value in values)
    try:
        until(lambda: bool(failures) or len(read_all(server.bootstrap, "sink")) >= len(wanted), 150)
    finally:
        stopping.set()
        thread.join(60)
    assert failures == []
    assert sorted(read_all(server.bootstrap, "sink")) == wanted


# Many producers, and a checked history


def random_transactions(
    bootstrap: str, topic: str, name: str, history: History, stopping: threading.Event
) -> None:
    """Commit and abort at random until the limit; a fatal error starts a new instance."""
    made, count = producer(bootstrap, name, transaction_timeout_ms=10_000), 0
    while not stopping.is_set():
        operation = history.begin(name)
        values = [f"{name}-{count + i}" for i in range(random.randrange(1, 6))]
        count += len(values)
        try:
            write_noted(made, topic, values, operation)
            if random.random() < 0.3:
                made.abort_transaction(30)
                operation.fail()
            else:
                made.commit_transaction(30)
                operation.ok()
        except KafkaException as failure:
            if not (failure.args[0].txn_requires_abort() and aborts(made, operation)):
                made = producer(bootstrap, name, transaction_timeout_ms=10_000)


def write_noted(made: Producer, topic: str, values: list[str], operation: Operation) -> None:
    made.begin_transaction()
    for value in values:
        partition = random.randrange(PARTITIONS)
        operation.sent(topic, partition, value)
        made.produce(
            topic,
            value=value,
            partition=partition,
            on_delivery=lambda error, message: (
                error is None
                and operation.acked(
                    topic, message.partition(), message.value().decode(), message.offset()
                )
            ),
        )
    made.flush(30)


def aborts(made: Producer, operation: Operation) -> bool:
    """Abort after an error; return True when the producer can continue."""
    try:
        made.abort_transaction(30)
    except KafkaException:
        return False
    operation.fail()
    return True


def poll_on(bootstrap: str, topic: str, name: str, history: History, done: threading.Event) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    while not done.is_set():
        operation = history.begin(name)
        for message in consumer.consume(100, 0.2):
            if message.error() is None:
                value = message.value().decode()
                operation.read(topic, message.partition(), message.offset(), value)
        operation.ok()
    consumer.close()


def run_history(bootstrap: str, topic: str, unique: Callable[[str], str], disturb: object) -> None:
    history, stopping, done = History(), threading.Event(), threading.Event()
    with ThreadPoolExecutor(5) as pool:
        writers = [
            pool.submit(random_transactions, bootstrap, topic, unique("w"), history, stopping)
            for _ in range(3)
        ]
        readers = [pool.submit(poll_on, bootstrap, topic, f"r{i}", history, done) for i in range(2)]
        if callable(disturb):
            disturb()
        time.sleep(6)
        stopping.set()
        try:
            for future in writers:
                future.result(120)
            # The transactions that are still open time out.
            until(lambda: not hanging_partitions(bootstrap, topic, PARTITIONS))
        finally:
            done.set()
        for future in readers:
            future.result(60)
    last = history.begin("last")
    read_all(bootstrap, topic, into=last)
    last.ok()
    assert any(operation.sends for operation in history.operations)
    assert [str(each) for each in check(history, everything_was_read=True)] == []


def test_the_history_of_many_producers_is_sound(bootstrap, topics, unique) -> None:
    run_history(bootstrap, topics.create("history", partitions=PARTITIONS), unique, None)


def test_history_is_sound_with_a_killed_server(start_server, unique) -> None:
    server: ServerProcess = start_server(
        {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
    )
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.create_topics([NewTopic("history", PARTITIONS, 1)])["history"].result(30)

    def disturb() -> None:
        for _ in range(3):
            time.sleep(random.uniform(1.0, 2.5))
            server.kill()
            server.start()

    run_history(server.bootstrap, "history", unique, disturb)


# Other clients in Python


def test_aiokafka_commits_and_aborts(bootstrap, topics, unique) -> None:
    topic = topics.create("aiokafka", partitions=PARTITIONS)

    async def work() -> None:
        made = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=unique("id"))
        await made.start()
        try:
            for number in range(6):
                await made.begin_transaction()
                for partition in range(PARTITIONS):
                    value = f"{number}-{partition}".encode()
                    await made.send_and_wait(topic, value, partition=partition)
                if number % 2:
                    await made.abort_transaction()
                else:
                    await made.commit_transaction()
        finally:
            await made.stop()

    asyncio.run(work())
    wanted = sorted(f"{number}-{i}" for number in (0, 2, 4) for i in range(PARTITIONS))
    until(lambda: sorted(read_all(bootstrap, topic)) == wanted)


def test_kafka_python_commits_aborts_and_stores_offsets(bootstrap, topics, unique) -> None:
    topic, group = topics.create("kafka-python", partitions=PARTITIONS), unique("g")
    made = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=unique("id"))
    made.init_transactions()
    where = kafka.TopicPartition(topic, 0)
    for number in range(6):
        made.begin_transaction()
        for partition in range(PARTITIONS):
            made.send(topic, f"{number}-{partition}".encode(), partition=partition)
        offsets = {where: kafka.OffsetAndMetadata(10 * number, "", -1)}
        made.send_offsets_to_transaction(offsets, group)
        if number % 2:
            made.abort_transaction()
        else:
            made.commit_transaction()
    made.close()
    wanted = sorted(f"{number}-{i}" for number in (0, 2, 4) for i in range(PARTITIONS))
    until(lambda: sorted(read_all(bootstrap, topic)) == wanted)
    until(lambda: committed(bootstrap, group, topic)[0] == 40)


# Java: producers of the second version, and the transaction tools


@pytest.fixture
def java_transactions(bootstrap) -> Callable[..., str]:
    """Run the Java program beside this file and return its output."""

    def run(scenario: str, topic: str, *arguments: str) -> str:
        program = ROOT / "compat_tests" / "java" / "Transactions.java"
        return jars.java(str(program), bootstrap, scenario, topic, *arguments).stdout

    return run


def test_java_commits_and_aborts(bootstrap, topics, unique, java_transactions) -> None:
    topic = topics.create("java", partitions=PARTITIONS)
    java_transactions("alternate", topic, unique("id"), "40")
    wanted = sorted(f"{number}-{i}" for number in range(0, 40, 2) for i in range(5))
    assert sorted(read_all(bootstrap, topic)) == wanted


def test_java_fences(bootstrap, topics, unique, java_transactions) -> None:
    topic = topics.create("java", partitions=PARTITIONS)
    printed = java_transactions("fence", topic, unique("id"))
    assert "first: ProducerFencedException" in printed or "InvalidProducerEpoch" in printed
    until(lambda: read_all(bootstrap, topic) == ["second"])


def test_java_commits_offsets_and_reads_its_own_copy(
    bootstrap, topics, unique, java_transactions
) -> None:
    source = topics.create("source", partitions=PARTITIONS)
    sink = topics.create("sink", partitions=PARTITIONS)
    values = fill(bootstrap, source, 300)
    group = unique("g")
    java_transactions("copy", source, unique("id"), sink, group, str(len(values)))
    assert sorted(read_all(bootstrap, sink)) == sorted(values)
    until(lambda: committed(bootstrap, group, source) == [100] * PARTITIONS)


def test_javas_tool_describes_and_aborts_transactions(bootstrap, topics, unique) -> None:
    topic, name = topics.create("tool"), unique("id")
    made = producer(bootstrap, name)
    made.begin_transaction()
    write(made, topic, "hanging", partitions=1)
    made.flush(30)
    tool = ["org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", bootstrap]
    listed = jars.java(*tool, "list").stdout
    assert any(name in line and "Ongoing" in line for line in listed.splitlines()), listed
    described = jars.java(*tool, "describe", "--transactional-id", name).stdout
    assert f"{topic}-0" in described
    where = ["--topic", topic, "--partition", "0"]
    producers = jars.java(*tool, "describe-producers", *where).stdout
    assert len(producers.splitlines()) == 2, producers
    assert read_all(bootstrap, topic, 1) == []
    node = str(next(iter(AdminClient({"bootstrap.servers": bootstrap}).list_topics().brokers)))
    hanging = ["find-hanging", "--broker-id", node, "--topic", topic, "--partition", "0"]
    assert topic not in jars.java(*tool, *hanging, "--max-transaction-timeout", "15").stdout
    jars.java(*tool, "abort", *where, "--start-offset", "0")
    assert read_all(bootstrap, topic, 1) == []
    assert read_all(bootstrap, topic, 1, level="read_uncommitted") == ["hanging"]
    plain = Producer({"bootstrap.servers": bootstrap})
    plain.produce(topic, value="after")
    plain.flush(30)
    assert read_all(bootstrap, topic, 1) == ["after"]


def test_javas_performance_tool_produces_in_transactions(bootstrap, topics, unique) -> None:
    topic = topics.create("perf", partitions=PARTITIONS)
    done = jars.java(
        "org.apache.kafka.tools.ProducerPerformance",
        "--topic", topic, "--num-records", "5000", "--record-size", "100",
        "--throughput", "-1", "--transactional-id", unique("id"),
        "--transaction-duration-ms", "20",
        "--producer-props", f"bootstrap.servers={bootstrap}",
    )  # fmt: skip
    assert "5000 records sent" in done.stdout
    assert len(read_all(bootstrap, topic)) == 5000
