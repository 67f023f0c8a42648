"""The rows of `bench.pipeline` with connectors, in our runner and in Java's Connect."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from confluent_kafka import Consumer, TopicPartition

from bench.pipeline_contenders import cpu_s, create, memory_mb, wait
from bench.pipeline_topics import fill, topics
from compat_tests.pipeline.connect_workers import ConnectWorker

WARM_RECORDS = 100_000
IDLE_S = 15.0
JOBS = 20
STRING = "org.apache.kafka.connect.storage.StringConverter"

Figures: TypeAlias = dict[str, float]

Measurement: TypeAlias = Callable[[str, int], Figures]
"""Returns figures, given the server's address and a number of records."""


def last_value(bootstrap: str, topic: str) -> bytes | None:
    """Return the value of the last committed record of a topic of one partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "last",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    where = TopicPartition(topic, 0)
    start, end = consumer.get_watermark_offsets(where, 30)
    consumer.assign([TopicPartition(topic, 0, max(start, end - 10))])
    found: bytes | None = None
    while (message := consumer.poll(30)) is not None and message.error() is None:
        found = message.value()
    consumer.close()
    return found


def write_lines(file: Path, count: int) -> bytes:
    """Write a file of lines of 100 bytes; return the last line."""
    with file.open("w") as out:
        out.writelines(f"{number:099d}\n" for number in range(count))
    return f"{count - 1:099d}".encode()


Preparation: TypeAlias = Callable[[str, Path, int, str], tuple[dict[str, str], Callable[[], bool]]]
"""Makes the input of a connector; returns its configuration, and whether it has done its work."""


def file_source(
    bootstrap: str, directory: Path, count: int, name: str
) -> tuple[dict[str, str], Callable[[], bool]]:
    """Prepare a source that reads a file."""
    topics(bootstrap, name, partitions=1)
    file = directory / f"{name}.txt"
    last = write_lines(file, count)
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": name}
    config |= {"value.converter": STRING, "batch.size": "2000"}
    return config, lambda: last_value(bootstrap, name) == last


def file_sink(
    bootstrap: str, directory: Path, count: int, name: str
) -> tuple[dict[str, str], Callable[[], bool]]:
    """Prepare a sink that writes a file."""
    topics(bootstrap, name)
    fill(bootstrap, name, lambda number: f"{number:099d}", count)
    file = directory / f"{name}.txt"
    config = {"connector.class": "FileStreamSink", "file": str(file), "topics": name}
    config |= {"key.converter": STRING, "value.converter": STRING}
    return config, lambda: file.exists() and file.stat().st_size >= count * 100


def connector(
    prepare: Preparation, contender: type[ConnectWorker], bootstrap: str, count: int
) -> Figures:
    """Measure a connector in a worker that has run others of its kind."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        worker = contender(bootstrap, place, "bench")
        warm = min(WARM_RECORDS, count)
        jobs = {
            name: prepare(bootstrap, place, records, name)
            for name, records in (("first", 1), ("second", warm), ("third", count))
        }
        began = time.monotonic()
        worker.start()
        try:
            run_connector(worker, "first", *jobs["first"])
            found = {"start to first record s": time.monotonic() - began}
            run_connector(worker, "second", *jobs["second"])
            assert worker.process is not None
            pid = worker.process.pid
            before_s, began = cpu_s(pid), time.monotonic()
            run_connector(worker, "third", *jobs["third"])
            found["warm k/s"] = count / (time.monotonic() - began) / 1000
            found["warm CPU s per M"] = (cpu_s(pid) - before_s) / count * 1_000_000
            return found
        finally:
            worker.stop()


def run_connector(
    worker: ConnectWorker, name: str, config: dict[str, str], is_done: Callable[[], bool]
) -> None:
    """Create a connector, and wait until it has done its work."""
    create(worker, name, config)
    wait(is_done, f"end of connector {name}", 0.1)


def memory(contender: type[ConnectWorker], bootstrap: str, _: int) -> Figures:
    """Measure a worker with idle sinks, and what their idling costs."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        worker = contender(bootstrap, place, "bench")
        worker.start()
        try:
            for number in range(JOBS):
                name = f"job-{number}"
                run_connector(worker, name, *file_sink(bootstrap, place, 100, name))
            assert worker.process is not None
            pid = worker.process.pid
            time.sleep(5)
            before_s = cpu_s(pid)
            time.sleep(IDLE_S)
            used_s = cpu_s(pid) - before_s
            return {"memory MB": memory_mb(pid), "idle CPU %": used_s / IDLE_S * 100}
        finally:
            worker.stop()
