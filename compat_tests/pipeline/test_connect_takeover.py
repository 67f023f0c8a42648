"""Jobs of Java's Connect worker are taken over by a runner, and given back."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from barnabas.pipeline.jobs.core.store_records import (
    ConnectorRecord,
    RestartRecord,
    SessionKeyRecord,
    TaskRecord,
    decode_config,
    decode_offset,
    decode_status,
    encode_config,
    encode_offset,
    encode_status,
)
from compat_tests import jars, spark
from compat_tests.pipeline.connect_workers import JavaWorker, RunnerProcess
from compat_tests.pipeline.rest_script import SINK, SOURCE
from compat_tests.servers import ServerProcess

pytestmark = [pytest.mark.timeout(300), pytest.mark.barnabas_only]

CODECS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "configs": (decode_config, encode_config),
    "status": (decode_status, encode_status),
    "offsets": (decode_offset, encode_offset),
}


class Lines:
    """A file that a source reads, and the file that a sink writes."""

    def __init__(self, directory: Path) -> None:
        self.input = directory / "in.txt"
        self.output = directory / "out.txt"
        self.count = 0

    def append(self, count: int) -> None:
        with self.input.open("a") as file:
            for number in range(self.count, self.count + count):
                file.write(f"line {number}\n")
        self.count += count

    def are_copied(self) -> bool:
        """True when the output has every line."""
        found = self.output.read_text().splitlines() if self.output.exists() else []
        return len(found) >= self.count

    def check(self) -> None:
        """Every line is there once, in order."""
        assert self.output.read_text().splitlines() == [
            f"line {number}" for number in range(self.count)
        ]


def records(bootstrap: str, topic: str) -> Iterator[tuple[bytes, bytes | None]]:
    """Return keys and values of all committed records of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    partitions = consumer.list_topics(topic, 60).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    ends = 0
    while ends < len(partitions):
        message = consumer.poll(60)
        assert message is not None
        if message.error() is None:
            yield message.key(), message.value()
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ends += 1
    consumer.close()


def check_records(bootstrap: str, prefix: str) -> None:
    """Each record of Java's worker is read, and written again with the same content.

    A configuration is a map without order; all other records are equal byte by byte.
    """
    counts = dict.fromkeys(CODECS, 0)
    for kind, (decode, encode) in CODECS.items():
        for key, value in records(bootstrap, f"{prefix}-{kind}"):
            found = decode(key, value)
            assert found is not None, key
            if isinstance(found, SessionKeyRecord | RestartRecord):
                continue
            again = encode(found)
            counts[kind] += 1
            if value is None or not isinstance(found, ConnectorRecord | TaskRecord):
                assert again == (key, value)
            else:
                assert (again[0], json.loads(again[1])) == (key, json.loads(value))
    assert min(counts.values()) > 0, counts


def test_jobs_move_to_a_runner_and_back(server: ServerProcess | None, tmp_path: Path) -> None:
    if reason := jars.missing() or spark.missing():
        pytest.skip(reason)
    if server is None:
        pytest.skip("needs a server that this suite starts")
    lines = Lines(tmp_path)
    java = JavaWorker(server.bootstrap, tmp_path, "moving-java", topics="moving")
    ours = RunnerProcess(server.bootstrap, tmp_path, "moving-ours", topics="moving")
    source = {"connector.class": SOURCE, "file": str(lines.input), "topic": "moving-lines"}
    sink = {"connector.class": SINK, "file": str(lines.output), "topics": "moving-lines"}
    try:
        java.start()
        lines.append(50)
        java.ask("POST", "/connectors", {"name": "taken-src", "config": source})
        java.ask("POST", "/connectors", {"name": "taken-snk", "config": sink})
        java.ask("POST", "/connectors", {"name": "off", "config": sink, "initial_state": "STOPPED"})
        java.wait(lines.are_copied)
        java.wait_states("taken-snk", "RUNNING", ["RUNNING"])
        before = java.ask("GET", "/connectors?expand=info").body
        java.stop()
        check_records(server.bootstrap, "moving")

        ours.start()
        lines.append(50)
        assert ours.ask("GET", "/connectors?expand=info").body == before
        ours.wait_states("taken-src", "RUNNING", ["RUNNING"])
        ours.wait_states("off", "STOPPED", [])
        ours.wait(lines.are_copied)
        ours.ask("PUT", "/connectors/taken-src/pause")
        ours.wait_states("taken-src", "PAUSED", ["PAUSED"])
        position = ours.ask("GET", "/connectors/taken-src/offsets").body
        ours.stop()
        lines.check()

        java.start()
        java.wait_states("taken-src", "PAUSED", ["PAUSED"])
        assert java.ask("GET", "/connectors/taken-src/offsets").body == position
        java.ask("PUT", "/connectors/taken-src/resume")
        lines.append(50)
        java.wait(lines.are_copied)
        java.stop()
        lines.check()
    finally:
        java.stop()
        ours.stop()
