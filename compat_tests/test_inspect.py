"""`barnabas inspect` in front of the server under test: clients notice no difference."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from compat_tests.conftest import Topics


class Inspected:
    """A proxy in front of the server, and its frames."""

    def __init__(self, bootstrap: str, file: Path) -> None:
        self.file = file
        command = [sys.executable, "-u", "-m", "barnabas", "inspect", "--listen", "0", "--json"]
        with file.open("wb") as out:
            self.process = subprocess.Popen(
                [*command, "--to", bootstrap], stdout=out, stderr=subprocess.PIPE
            )
        assert self.process.stderr is not None
        told = self.process.stderr.readline().decode()
        self.bootstrap = told.split(" go to ")[0].rpartition(" ")[2]

    def stop(self) -> list[dict]:
        """End the proxy as Ctrl-C does; return its frames."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(60) == 130
        return [json.loads(line) for line in self.file.read_text().splitlines()]


@pytest.fixture
def inspected(bootstrap: str, tmp_path: Path) -> Iterator[Inspected]:
    proxy = Inspected(bootstrap, tmp_path / "frames.jsonl")
    yield proxy
    proxy.process.kill()
    proxy.process.wait()
    assert proxy.process.stderr is not None
    proxy.process.stderr.close()


def test_a_producer_and_a_group_work_through_it(topics: Topics, inspected: Inspected) -> None:
    topic = topics.create("inspected", partitions=2)
    settings = {"bootstrap.servers": inspected.bootstrap}
    producer = Producer({**settings, "enable.idempotence": True, "compression.type": "lz4"})
    for number in range(100):
        producer.produce(topic, key=b"key", value=b"value-%d" % number)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {
            **settings,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    values = set()
    while len(values) < 100:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        values.add(message.value())
    consumer.commit(asynchronous=False)
    consumer.close()
    frames = inspected.stop()
    shown = {(frame.get("api"), frame["direction"]) for frame in frames}
    for api in ("Produce", "Fetch", "Metadata", "FindCoordinator", "JoinGroup", "OffsetCommit"):
        assert {(api, "request"), (api, "response")} <= shown
    # librdkafka writes a few extra bytes after some requests; no other bytes may be undecoded.
    assert {f.get("problem", "") for f in frames if f["direction"] == "response"} == {""}
    assert "value-99" in json.dumps(frames)
