"""Kafka's DumpLogSegments on barnabas' files: every batch is valid and every index matches."""

import math
import random
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing import Node
from barnabas.testing.eventually import wait_until
from compat_tests import jars
from compat_tests.servers import BarnabasProcess

pytestmark = [
    jars.needed,
    pytest.mark.barnabas_only,
]

DUMP = "org.apache.kafka.tools.DumpLogSegments"
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
SMALL_SEGMENTS = {"segment.bytes": "1048576", "index.interval.bytes": "1024", "retention.ms": "-1"}
# The tool's messages about an index that does not match its log.
MISMATCHES = re.compile(r"mismatch|out of order|non-consecutive|not found", re.I)


def create(bootstrap: str, *topics: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    named = {name.replace("_", "."): value for name, value in config.items()}
    new = [NewTopic(topic, 1, 1, config={**SMALL_SEGMENTS, **named}) for topic in topics]
    for future in admin.create_topics(new).values():
        future.result(30)


def produce(bootstrap: str, topic: str, count: int, **settings: object) -> None:
    """Write records of about 300 bytes that compress a little."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2, **named})
    generator = random.Random(topic)
    for number in range(count):
        value = b"%d:" % number + generator.randbytes(150) + b"." * 150
        while True:
            try:
                producer.produce(topic, value, key=b"%d" % (number % 100), headers={"n": b"x"})
                break
            except BufferError:
                producer.poll(0.1)
        if number % 20 == 0:
            producer.poll(0)
            if number % 400 == 0:
                producer.flush(30)
    assert producer.flush(60) == 0


def dump(files: Iterable[Path], *options: str) -> str:
    done = jars.java(DUMP, *options, "--files", ",".join(map(str, files)))
    return done.stdout + done.stderr  # where the tool reports mismatches


def judge(directory: Path, records: int | None = None) -> None:
    """Let the tool check every file of a partition."""
    logs = sorted(directory.glob("*.log"))
    indexes = sorted(directory.glob("*.*index"))
    text = dump(logs, "--deep-iteration", "--skip-record-metadata")
    batches = re.findall(r"^baseOffset: (\d+) lastOffset: (\d+) .*isvalid: (\w+)", text, re.M)
    assert batches
    assert {valid for _, _, valid in batches} == {"true"}
    ends = [int(last) + 1 for _, last, _ in batches]
    if records is not None:
        assert ends[-1] == records
        assert [int(first) for first, _, _ in batches] == [0, *ends[:-1]]
    text = dump(indexes, "--index-sanity-check")
    fine = text.count("passed sanity check") + text.count(
        " is empty."
    )  # compaction removed everything
    assert fine == len(indexes)
    text = dump([*logs, *indexes, *sorted(directory.glob("*.snapshot"))], "--verify-index-only")
    # Compaction leaves gaps between offsets; the tool reports them.
    holes = "non-consecutive" if records is None else ""
    told = [line for line in text.splitlines() if MISMATCHES.search(line)]
    assert [line for line in told if not holes or holes not in line.lower()] == []
    assert "isvalid: false" not in text


def test_batches_of_clients_in_every_codec_pass(tmp_path) -> None:
    with Node(tmp_path / "data") as node:
        create(node.bootstrap, *CODECS)
        for codec in CODECS:
            produce(node.bootstrap, codec, 4000, compression_type=codec)
    for codec in CODECS:
        directory = tmp_path / "data" / f"{codec}-0"
        if codec == "none":
            assert len(list(directory.glob("*.log"))) > 1
            assert sum(file.stat().st_size for file in directory.glob("*.index")) > 8
        judge(directory, 4000)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_batches_that_the_broker_recompresses_pass(tmp_path, codec) -> None:
    with Node(tmp_path / "data") as node:
        create(node.bootstrap, "t", compression_type=codec)
        produce(node.bootstrap, "t", 1000, compression_type="none")
    judge(tmp_path / "data" / "t-0", 1000)
    text = dump([tmp_path / "data" / "t-0" / f"{0:020d}.log"])
    assert set(re.findall(r"compresscodec: (\w+)", text)) == {codec}


def test_idempotent_producers_and_their_snapshots_pass(tmp_path) -> None:
    with Node(tmp_path / "data") as node:
        create(node.bootstrap, "t")
        for _ in range(3):
            produce(node.bootstrap, "t", 2000, enable_idempotence=True)
    directory = tmp_path / "data" / "t-0"
    judge(directory, 6000)
    snapshots = sorted(directory.glob("*.snapshot"))
    assert len(snapshots) > 1
    text = dump(snapshots[-1:])
    found = re.findall(r"producerId: (\d+) producerEpoch: 0 .*lastSequence: (\d+)", text)
    assert len({producer for producer, _ in found}) == 3
    assert {sequence for _, sequence in found} == {"1999"}


def logged_bytes(directory: Path) -> float:
    """Return the size of all segments; infinite while one of them is being replaced."""
    try:
        return sum(file.stat().st_size for file in directory.glob("*.log"))
    except FileNotFoundError:
        return math.inf


def test_compacted_logs_pass(tmp_path) -> None:
    directory = tmp_path / "data" / "t-0"
    with Node(tmp_path / "data", {"log.cleaner.backoff.ms": "300"}) as node:
        create(node.bootstrap, "t", cleanup_policy="compact")
        for codec in ("lz4", "none"):
            produce(node.bootstrap, "t", 6000, compression_type=codec, enable_idempotence=True)
        wait_until(lambda: logged_bytes(directory) < 12_000 * 300 * 0.6)
    judge(directory)


def test_committed_offsets_are_decoded(tmp_path) -> None:
    with Node(tmp_path / "data", {"offsets.topic.num.partitions": "1"}) as node:
        create(node.bootstrap, "t")
        produce(node.bootstrap, "t", 100)
        consumer = Consumer(
            {
                "bootstrap.servers": node.bootstrap,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["t"])
        assert len(consumer.consume(100, timeout=60)) == 100
        consumer.commit(offsets=[TopicPartition("t", 0, 77)], asynchronous=False)
        consumer.close()
    log = tmp_path / "data" / "__consumer_offsets-0" / f"{0:020d}.log"
    text = dump([log], "--offsets-decoder", "--deep-iteration")
    assert "isvalid: false" not in text
    assert re.search(r'"group":"readers","topic":"t","partition":0', text)
    assert re.search(r'"offset":77', text)
    assert re.search(r'"protocolType":"consumer"', text)


def test_log_after_a_kill_and_after_recovery_passes() -> None:
    server = BarnabasProcess()
    try:
        server.start()
        create(server.bootstrap, "t")
        for _ in range(2):
            produce(server.bootstrap, "t", 5000, enable_idempotence=True)
            server.kill()
            judge_killed(server.data / "t-0")
            server.start()
        assert server.stop() in (0, 143)
        judge(server.data / "t-0", 10000)
    finally:
        server.close()


def test_the_tool_reports_a_planted_wrong_index(tmp_path) -> None:
    with Node(tmp_path / "data") as node:
        create(node.bootstrap, "t")
        produce(node.bootstrap, "t", 2000)
    for suffix, at in (("index", 11), ("timeindex", 6)):
        [index] = (tmp_path / "data" / "t-0").glob(f"*.{suffix}")
        content = bytearray(index.read_bytes())
        content[at] ^= 1
        index.write_bytes(content)
        assert MISMATCHES.search(dump([index], "--verify-index-only"))


def judge_killed(directory: Path) -> None:
    """A killed node's indexes are valid up to their last entry."""
    indexes = sorted(directory.glob("*.*index"))
    assert dump(indexes, "--index-sanity-check").count("passed sanity check") == len(indexes)
