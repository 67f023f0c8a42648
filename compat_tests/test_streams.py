"""Kafka Streams with exactly_once_v2: after kills and restarts, its results are right."""

import random
import struct
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests import jars
from compat_tests.jars import ROOT

pytestmark = pytest.mark.timeout(400)

PARTITIONS = 2
WORDS = ("castle", "village", "letter", "barnabas", "surveyor", "inn", "snow")
USERS = tuple(f"user-{i}" for i in range(5))
LINES, ORDERS = 6_000, 3_000
TOPICS = ("lines", "counts", "users", "orders", "joined")


@contextmanager
def application(bootstrap: str, name: str, state: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the Streams application until the end of the block, then kill it."""
    program = ROOT / "compat_tests" / "java" / "ExactlyOnce.java"
    options = [*jars.TOOL_OPTIONS, *jars.archive_options(), *jars.LOG_OPTIONS]
    command = ["java", *options, "-cp", jars.classpath(), str(program), bootstrap, name, str(state)]
    log = state.parent / "streams.log"
    with log.open("ab") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            yield process
        finally:
            process.kill()


def read(bootstrap: str, topic: str) -> list[Message]:
    """Return all committed records of the topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    messages: list[Message] = []
    left = PARTITIONS
    while left:
        message = consumer.poll(60)
        assert message is not None, topic
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            left -= 1
        else:
            messages.append(message)
    consumer.close()
    return messages


def produce_input(bootstrap: str) -> tuple[Counter[str], list[str]]:
    """Fill the sources; return the count of each word, and the expected join."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for user in USERS:
        producer.produce("users", key=user, value=user.upper())
    producer.flush(30)
    time.sleep(0.5)  # the table's rows are older than the orders
    counts: Counter[str] = Counter()
    for number in range(LINES):
        words = random.choices(WORDS, k=3)
        counts.update(words)
        producer.produce("lines", value=" ".join(words), partition=number % PARTITIONS)
    joined: list[str] = []
    for number in range(ORDERS):
        user = random.choice(USERS)
        producer.produce("orders", key=user, value=f"order-{number}")
        joined.append(f"order-{number} of {user.upper()}")
    assert producer.flush(30) == 0
    return counts, joined


def wait_until(done: Callable[[], bool], state: Path, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline:
            log = (state.parent / "streams.log").read_text(errors="replace")
            raise AssertionError(f"not done in time:\n{log[-3000:]}")
        time.sleep(0.1)


def test_words_are_counted_and_orders_joined_exactly_once(start_server, unique, tmp_path) -> None:
    if reason := jars.missing():
        pytest.skip(reason)
    server = start_server()
    bootstrap = server.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in TOPICS]).values():
        future.result(30)
    counts, joined = produce_input(bootstrap)
    state = tmp_path / "state"
    name = unique("app")
    total = 3 * LINES
    # Killed right after its first output, and again in the middle.
    for share in (0.0, 0.4):
        with application(bootstrap, name, state):
            wait_until(
                lambda share=share: len(read(bootstrap, "counts")) > share * total, state, 90
            )
    with application(bootstrap, name, state):
        wait_until(
            lambda: (
                len(read(bootstrap, "counts")) >= total and len(read(bootstrap, "joined")) >= ORDERS
            ),
            state,
            120,
        )
    assert sorted(m.value().decode() for m in read(bootstrap, "joined")) == sorted(joined)
    seen: dict[str, list[int]] = defaultdict(list)
    for message in read(bootstrap, "counts"):
        seen[message.key().decode()] += struct.unpack(">q", message.value())
    assert seen == {word: list(range(1, count + 1)) for word, count in counts.items()}
