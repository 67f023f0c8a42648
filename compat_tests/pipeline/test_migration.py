"""The page docs/migration.md to the letter: from Apache Kafka to barnabas, and back.

Through it run producers, a group of consumers, an application of Kafka Streams with exactly-once
processing, and a query of Spark with a checkpoint.
"""

import contextlib
import json
import os
import re
import shutil
import struct
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests import jars
from compat_tests import spark as setup
from compat_tests.pipeline.connect_workers import RunnerProcess
from compat_tests.pipeline.mirror_records import commit
from compat_tests.pipeline.test_mirror_drill import run
from compat_tests.servers import BarnabasProcess, KafkaProcess, ServerProcess
from compat_tests.test_streams import TOPICS, application, read, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [setup.needed, jars.needed, pytest.mark.timeout(400), pytest.mark.barnabas_only]

PAGE = jars.ROOT / "docs" / "migration.md"
NUMBERS = "numbers"
PARTITIONS = 2
APP = "word-counts"
WORDS = ("castle", "village", "letter")


def commands() -> Iterator[str]:
    """Yield the commands of the page, in order."""
    text = PAGE.read_text()
    section = text[text.index("## With a mirror") :]
    return iter(re.findall(r"^ +\$ barnabas (.*)$", section, re.MULTILINE))


@pytest.fixture
def clusters() -> Iterator[tuple[ServerProcess, ServerProcess]]:
    kafka, barnabas = KafkaProcess(), BarnabasProcess()
    try:
        kafka.start()
        barnabas.start()
        yield kafka, barnabas
    finally:
        kafka.close()
        barnabas.close()


@pytest.fixture
def runner(
    clusters: tuple[ServerProcess, ServerProcess], tmp_path: Path
) -> Iterator[RunnerProcess]:
    found = RunnerProcess(clusters[1].bootstrap, tmp_path, "migration")
    found.start()
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def spark() -> "Iterator[SparkSession]":
    os.environ.update(setup.environment())
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars.packages", setup.CONNECTOR)
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


class Workload:
    """The records of the producers, and the results that the applications must have."""

    def __init__(self, *, is_whole: bool) -> None:
        self.is_whole = is_whole
        self.numbers = 0
        self.orders = 0
        self.counts: Counter[str] = Counter()

    def write(self, server: ServerProcess, count: int) -> None:
        """Write numbers, lines of words, and orders."""
        producer = Producer({"bootstrap.servers": server.bootstrap, "acks": "all"})
        for number in range(self.numbers, self.numbers + count):
            producer.produce(NUMBERS, b"%d" % number, partition=number % PARTITIONS)
            words = [WORDS[number % 3], WORDS[number % 2]]
            self.counts.update(words)
            producer.produce("lines", " ".join(words), partition=number % PARTITIONS)
            producer.produce("orders", f"order-{number}", f"user-{number % 3}")
        assert producer.flush(120) == 0
        self.numbers += count
        self.orders += count

    def check(self, server: ServerProcess) -> None:
        """Check the output of Kafka Streams: each count and each order once."""
        if not self.is_whole:
            return
        seen: dict[str, list[int]] = defaultdict(list)
        for message in read(server.bootstrap, "counts"):
            seen[(message.key() or b"").decode()] += struct.unpack(">q", message.value() or b"")
        assert seen == {word: list(range(1, end + 1)) for word, end in self.counts.items()}
        joined = [(message.value() or b"").decode() for message in read(server.bootstrap, "joined")]
        wanted = [f"order-{number} of USER-{number % 3}" for number in range(self.orders)]
        assert sorted(joined) == sorted(wanted)

    def is_done(self, server: ServerProcess) -> bool:
        """True when the output has as many records as there must be."""
        if not self.is_whole:
            return True
        return len(read(server.bootstrap, "counts")) >= self.counts.total() and (
            len(read(server.bootstrap, "joined")) >= self.orders
        )

    @contextmanager
    def streams(self, server: ServerProcess, state: Path) -> Iterator[None]:
        """Run the application of Kafka Streams; stop it at the end, as its operator does.

        In the short form only its group is there.
        """
        if not self.is_whole:
            yield
            commit(server, APP, TopicPartition("lines", 0, 0))
            return
        with application(server.bootstrap, APP, state) as process:
            yield
            process.terminate()
            process.wait(60)


def create_topics(server: ServerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    new = [NewTopic(name, PARTITIONS, 1) for name in (NUMBERS, *TOPICS)]
    for future in admin.create_topics(new).values():
        future.result(120)
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for number in range(3):
        producer.produce("users", f"USER-{number}", f"user-{number}")
    assert producer.flush(120) == 0


def consume(server: ServerProcess, first: int, end: int, reset: str = "error") -> None:
    """Have the group read these numbers, all of them and nothing else; commit the offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "billing",
            "enable.auto.commit": False,
            "auto.offset.reset": reset,
        }
    )
    consumer.subscribe([NUMBERS])
    found: list[int] = []
    while len(found) < end - first:
        message = consumer.poll(120)
        assert message is not None, f"{len(found)} of {end - first} numbers"
        assert message.error() is None, message.error()
        found.append(int(message.value() or b""))
    consumer.commit(asynchronous=False)
    assert consumer.poll(0.5) is None, "no record follows"
    consumer.close()
    assert sorted(found) == list(range(first, end))


def ends_of(server: ServerProcess) -> dict[str, int]:
    """Return the ends of the partitions of the numbers."""
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "unused"})
    ends = {
        str(number): consumer.get_watermark_offsets(TopicPartition(NUMBERS, number), 30)[1]
        for number in range(PARTITIONS)
    }
    consumer.close()
    return ends


def wait_copied(runner: RunnerProcess, flow: str, end: int) -> None:
    """Wait until a flow has copied each partition of the numbers to its end, and has no lag."""

    def is_copied() -> bool:
        found = runner.ask("GET", f"/connectors/{flow}/progress").body
        positions = [
            each["position"] for each in found.get("partitions", ()) if each["topic"] == NUMBERS
        ]
        return positions == [end] * PARTITIONS and found["lag_records"] == 0

    runner.wait(is_copied)


def positions_of(server: ServerProcess) -> dict[str, int]:
    """Return the offsets of the group in the partitions of the numbers."""
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "billing"})
    wanted = [TopicPartition(NUMBERS, number) for number in range(PARTITIONS)]
    found = {str(each.partition): each.offset for each in consumer.committed(wanted, 120)}
    consumer.close()
    return found


class Query:
    """A query of Spark over the numbers, which writes files exactly once; none without Spark."""

    def __init__(self, session: "SparkSession | None", directory: Path) -> None:
        self._session = session
        self._directory = directory / "query"
        self._starts = "earliest"
        self._outputs: list[Path] = []

    def begin(self, name: str, starts: str) -> None:
        """Use another checkpoint, and other files."""
        self._outputs.append(self._directory / name)
        self._starts = starts

    def process(self, server: ServerProcess, total: int) -> None:
        """Start the query, process what there is, and stop; check all output."""
        if self._session is None:
            return
        output = self._outputs[-1]
        stream = (
            self._session.readStream.format("kafka")
            .option("kafka.bootstrap.servers", server.bootstrap)
            .option("subscribe", NUMBERS)
            .option("startingOffsets", self._starts)
            .load()
            .selectExpr("CAST(value AS STRING) AS value")
        )
        writer: Any = stream.writeStream.format("json").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(output.with_suffix(".checkpoint")))
        query = writer.start(str(output))
        query.awaitTermination(120)
        assert query.exception() is None, query.exception()
        found = [
            int(row.value)
            for each in self._outputs
            for row in self._session.read.json(str(each)).collect()
        ]
        assert sorted(found) == list(range(total))


@pytest.mark.parametrize(
    "is_whole", [False, pytest.param(True, marks=setup.long)], ids=["consumers", "applications"]
)
def test_everything_moves_to_barnabas_and_back(
    clusters: tuple[ServerProcess, ServerProcess],
    runner: RunnerProcess,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    is_whole: bool,
) -> None:
    """The short form has producers and the group only."""
    spark = request.getfixturevalue("spark") if is_whole else None
    kafka, barnabas = clusters
    addresses = {
        "127.0.0.1:9092": kafka.bootstrap,
        "127.0.0.1:9094": barnabas.bootstrap,
        "http://127.0.0.1:8083": runner.url,
    }
    page = commands()

    def step() -> str:
        return run(next(page), addresses)

    work, state, query = Workload(is_whole=is_whole), tmp_path / "state", Query(spark, tmp_path)
    query.begin("there", "earliest")
    create_topics(kafka)
    with work.streams(kafka, state):
        work.write(kafka, 300)
        consume(kafka, 0, 300, "earliest")
        query.process(kafka, 300)
        # The flow begins while everything runs at Apache Kafka.
        step()
        runner.wait_states("leave", "RUNNING", ["RUNNING"])
        # The group and the query move first: a mirror can be read.
        wanted = {str(number): 150 for number in range(PARTITIONS)}

        def is_copied() -> bool:
            with contextlib.suppress(KafkaException):  # the topic is not there yet
                return ends_of(barnabas) == positions_of(barnabas) == wanted
            return False

        runner.wait(is_copied)
        shown = step()
        assert len(re.findall(rf"{NUMBERS} +\d +150 +150 +0", shown)) == PARTITIONS, shown
        work.write(kafka, 200)
        consume(barnabas, 300, 500)
        query.process(barnabas, 500)
        wait_until(lambda: work.is_done(kafka), state, 300)
        work.write(kafka, 100)
    # The producers and the application have stopped.
    assert "has caught up" in step()
    with work.streams(barnabas, state):
        work.write(barnabas, 200)
        wait_until(lambda: work.is_done(barnabas), state, 300)
        consume(barnabas, 500, 800)
    work.check(barnabas)
    query.process(barnabas, 800)

    # Back: the reverse flow runs while barnabas is in use.
    step()
    runner.wait_states("leave-reverse", "RUNNING", ["RUNNING"])
    with work.streams(barnabas, state):
        work.write(barnabas, 100)
        wait_until(lambda: work.is_done(barnabas), state, 300)
    consume(barnabas, 800, 900)
    query.process(barnabas, 900)
    wait_copied(runner, "leave-reverse", 450)
    assert "lag_records: 0\n" in step()
    runner.wait(lambda: work.is_done(kafka))
    step()
    for _ in range(2):
        step()
    shutil.rmtree(state, ignore_errors=True)
    query.begin("back", json.dumps({NUMBERS: ends_of(kafka)}))
    with work.streams(kafka, state):
        work.write(kafka, 100)
        wait_until(lambda: work.is_done(kafka), state, 300)
    work.check(kafka)
    consume(kafka, 900, 1000)
    query.process(kafka, 1000)
    assert next(page, None) is None, "the test runs all commands of the page"
