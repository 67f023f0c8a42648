"""The drill of docs/mirror.md: producers and consumers fail over to another cluster, and back."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests import jars
from compat_tests import spark as setup
from compat_tests.pipeline.connect_workers import RunnerProcess
from compat_tests.servers import BarnabasProcess, ServerProcess

pytestmark = [setup.needed, pytest.mark.timeout(300), pytest.mark.barnabas_only]

PAGE = jars.ROOT / "docs" / "mirror.md"
TOPIC = "orders-1"
PARTITIONS = 2


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[ServerProcess, ServerProcess]]:
    first, second = BarnabasProcess(), BarnabasProcess()
    try:
        first.start()
        second.start()
        yield first, second
    finally:
        first.close()
        second.close()


@pytest.fixture(scope="module")
def runner(
    clusters: tuple[ServerProcess, ServerProcess], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunnerProcess]:
    if reason := setup.missing():
        pytest.skip(reason)
    found = RunnerProcess(clusters[1].bootstrap, tmp_path_factory.mktemp("runner"), "drill")
    found.start()
    try:
        yield found
    finally:
        found.stop()


def drill_commands() -> list[str]:
    """Return the commands of the drill, in order."""
    text = PAGE.read_text()
    section = text[text.index("### Failover and failback") : text.index("### Limits")]
    return re.findall(r"^ +\$ barnabas (.*)$", section, re.MULTILINE)


def run(line: str, replaced: dict[str, str] | None = None) -> str:
    """Run a command of the page with other addresses; return what it prints."""
    if replaced:
        line = re.sub("|".join(map(re.escape, replaced)), lambda found: replaced[found[0]], line)
    command = [sys.executable, "-m", "barnabas", *shlex.split(line)]
    done = subprocess.run(
        command, env=setup.environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write(server: ServerProcess, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap, "acks": "all"})
    for number in range(first, first + count):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(120) == 0


def read(server: ServerProcess, count: int) -> list[int]:
    """Return the next records of the group, and commit the offsets after them."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "billing",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    consumer.subscribe([TOPIC])
    found: list[int] = []
    while len(found) < count:
        message = consumer.poll(120)
        assert message is not None, f"{len(found)} of {count} records"
        assert message.error() is None, message.error()
        found.append(int(message.value() or b""))
    consumer.commit(asynchronous=False)
    assert consumer.poll(0.5) is None, "no record follows"
    consumer.close()
    return found


def commit_start(server: ServerProcess) -> None:
    """Have the group start at the beginning; later a missing offset is an error."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "billing",
            "enable.auto.commit": False,
        }
    )
    starts = [TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)]
    consumer.commit(offsets=starts, asynchronous=False)
    consumer.close()


def test_a_group_fails_over_and_back_and_reads_each_record_once(
    clusters: tuple[ServerProcess, ServerProcess],
    runner: RunnerProcess,
) -> None:
    first, second = clusters
    replaced = {
        "127.0.0.1:9092": first.bootstrap,
        "127.0.0.1:9094": second.bootstrap,
        "http://127.0.0.1:8083": runner.url,
    }
    create, promote, reverse, promote_back, again, verify = drill_commands()
    admin = AdminClient({"bootstrap.servers": first.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(120)
    write(first, 0, 1000)
    commit_start(first)
    assert sorted(read(first, 1000)) == list(range(1000))
    run(create, replaced)
    runner.wait_states("eu-to-us", "RUNNING", ["RUNNING"])
    write(first, 1000, 500)  # no consumer reads them before the failover

    shown = run(promote, replaced)
    assert f"promoted topic {TOPIC}" in shown
    assert "flow eu-to-us has caught up" in shown
    assert runner.ask("GET", "/connectors").body == []
    assert sorted(read(second, 500)) == list(range(1000, 1500))
    write(second, 1500, 500)
    assert sorted(read(second, 500)) == list(range(1500, 2000))

    shown = run(reverse, replaced)
    assert re.search(rf"{TOPIC} +0 +750\n{TOPIC} +1 +750\n", shown), shown
    runner.wait_states("eu-to-us-reverse", "RUNNING", ["RUNNING"])
    write(second, 2000, 500)
    run(promote_back, replaced)
    assert sorted(read(first, 500)) == list(range(2000, 2500))
    write(first, 2500, 500)

    run(again, replaced)
    runner.wait_states("eu-to-us", "RUNNING", ["RUNNING"])

    def is_equal() -> bool:
        shown = run(verify, replaced)
        return re.search(rf"{TOPIC} +1 +0 +(\d+) +\d+ +0 +equal", shown) is not None

    runner.wait(is_equal)
    run(promote, replaced)  # ends the flow


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=setup.long)])
def test_mirrors_of_a_lost_source_are_promoted_at_once(
    clusters: tuple[ServerProcess, ServerProcess], runner: RunnerProcess, number: signal.Signals
) -> None:
    """The source has an open transaction; producers write right after the promotion."""
    source, target = clusters
    topic = f"lost-{number.name.lower()}"
    admin = AdminClient({"bootstrap.servers": source.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(120)
    sides = f"--from {source.bootstrap} --to {target.bootstrap}"
    run(f"mirror create {topic} {sides} --topics {topic} --yes --runner {runner.url}")
    runner.wait_states(topic, "RUNNING", ["RUNNING"])
    settings = {"bootstrap.servers": source.bootstrap, "transactional.id": topic}
    unfinished = Producer(settings)
    unfinished.init_transactions(120)
    unfinished.begin_transaction()
    unfinished.produce(topic, b"open", partition=0)
    assert unfinished.flush(120) == 0
    runner.wait(lambda: end_of(target, topic) == 1)
    os.kill(source.pid, number)
    try:
        promote = f"mirror promote {topic} --to {target.bootstrap} --yes --runner {runner.url}"
        shown = run(f"{promote} --now")
        assert f"promoted topic {topic}" in shown
        new = Producer({**settings, "bootstrap.servers": target.bootstrap})
        new.init_transactions(120)
        new.begin_transaction()
        new.produce(topic, b"new", partition=0)
        new.commit_transaction(120)
        assert committed_values(target, topic) == [b"new"]
    finally:
        del unfinished
        source.kill()
        source.start()


def end_of(server: ServerProcess, topic: str) -> int:
    """Return the end of the topic's log; -1 when the topic does not exist."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "unused",
            "isolation.level": "read_uncommitted",
        }
    )
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), 10)[1]
    except KafkaException:
        return -1
    finally:
        consumer.close()


def committed_values(server: ServerProcess, topic: str) -> list[bytes]:
    """Return the committed records of the topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while True:
        message = consumer.poll(120)
        assert message is not None, "the topic has no end"
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF
            consumer.close()
            return found
        found.append(message.value() or b"")
