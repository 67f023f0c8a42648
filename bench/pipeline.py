"""`make bench-pipeline`: jobs of barnabas beside Kafka Streams and Java's Connect, in turn.

Every measurement has a new server of barnabas, so that the broker is the same for all, and a new
process of the contender. The figures that compare are CPU seconds (driver JVM, daemon and workers
together, or Java's JVM; the broker's are not in it) and ratios; times belong to the machine. `cold`
includes the start of the process, `warm` is a second job in the same process. The results are in
bench/pipeline-results.md.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeAlias

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.pipeline_contenders import (
    ConnectJava,
    EngineProcess,
    LineProcess,
    OurWorker,
    StreamsProcess,
    cpu_s,
    create,
    memory_mb,
    wait,
)
from compat_tests import jars
from compat_tests.pipeline.connect_workers import ConnectWorker
from compat_tests.servers import BarnabasProcess

RESULTS = Path(__file__).with_name("pipeline-results.md")
PARTITIONS = 4
WORDS = 10_000
PINGS, PINGS_MIN = 300, 10
JOBS = 20
STRING = "org.apache.kafka.connect.storage.StringConverter"

Figures: TypeAlias = dict[str, float]


def topics(bootstrap: str, *names: str, partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, partitions, 1) for name in names]).values():
        future.result(30)


def fill(bootstrap: str, topic: str, values: Callable[[int], str], count: int) -> None:
    """Write records to all partitions of a topic."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "acks": "all"})
    for number in range(count):
        while True:
            try:
                producer.produce(topic, values(number), partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


def wait_group(bootstrap: str, group: str, topic: str) -> None:
    """Wait until a group has committed the end of every partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    ends = {each.partition: consumer.get_watermark_offsets(each, 30)[1] for each in places}

    def is_at_end() -> bool:
        try:
            found = consumer.committed(places, 30)
        except KafkaException:
            return False
        return all(each.offset >= ends[each.partition] for each in found)

    wait(is_at_end, f"end of {topic}", 0.05)
    consumer.close()


def throughput(kind: str, contender: type[LineProcess], bootstrap: str, count: int) -> Figures:
    """Measure two jobs of one kind, one behind the other."""
    value = {"copy": lambda n: f"{n:0100d}", "count": lambda n: f"word-{n * 7919 % WORDS}"}[kind]
    found: Figures = {}
    with tempfile.TemporaryDirectory() as directory:
        process = contender(bootstrap, Path(directory))
        for name in ("cold", "warm"):
            topics(bootstrap, name, f"{name}-out")
            fill(bootstrap, name, value, count)
        try:
            for name in ("cold", "warm"):
                began = time.monotonic()
                if name == "cold":
                    process.start()
                before_s = cpu_s(process.pid)
                process.job(kind, name, f"{name}-out")
                wait_group(bootstrap, name, name)
                found[f"{name} k/s"] = count / (time.monotonic() - began) / 1000
                used_s = cpu_s(process.pid) - before_s
                found[f"{name} CPU s per M"] = used_s / count * 1_000_000
            found["memory MB"] = memory_mb(process.pid)
        finally:
            process.stop()
    return found


def latency(contender: type[LineProcess], bootstrap: str, count: int) -> Figures:
    """Measure single records through a running copy, without the first third of them."""
    topics(bootstrap, "ping", "ping-out")
    with tempfile.TemporaryDirectory() as directory:
        process = contender(bootstrap, Path(directory))
        process.start()
        try:
            process.job("copy", "ping", "ping-out")
            number = max(PINGS_MIN, min(PINGS, count // 100))
            times_ms = sorted(pings(bootstrap, number)[number // 3 :])
            return {
                "p50 ms": statistics.median(times_ms),
                "p99 ms": times_ms[int(len(times_ms) * 0.99)],
                "CPU s": cpu_s(process.pid),
            }
        finally:
            process.stop()


def pings(bootstrap: str, count: int) -> list[float]:
    """Return the time of each of some records from its production to its copy."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "pings",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition("ping-out", number, 0) for number in range(PARTITIONS)])
    times_ms: list[float] = []
    for number in range(count):
        began = time.monotonic()
        producer.produce("ping", f"{number:0100d}", partition=number % PARTITIONS)
        producer.flush(30)
        message = consumer.poll(120)
        assert message is not None
        assert message.error() is None, message.error()
        assert message.value() == f"{number:0100d}".encode()
        times_ms.append((time.monotonic() - began) * 1000)
        time.sleep(0.03)
    consumer.close()
    return times_ms


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


def file_source(
    worker: ConnectWorker, directory: Path, count: int, name: str
) -> Callable[[], bool]:
    """Start a source that reads a file; return whether the topic has all lines."""
    topics(worker.bootstrap, name, partitions=1)
    last = write_lines(directory / f"{name}.txt", count)
    config = {"connector.class": "FileStreamSource", "file": str(directory / f"{name}.txt")}
    create(worker, name, {**config, "topic": name, "value.converter": STRING, "batch.size": "2000"})
    return lambda: last_value(worker.bootstrap, name) == last


def file_sink(worker: ConnectWorker, directory: Path, count: int, name: str) -> Callable[[], bool]:
    """Start a sink that writes a file; return whether it has all lines."""
    topics(worker.bootstrap, name)
    fill(worker.bootstrap, name, lambda number: f"{number:099d}", count)
    file = directory / f"{name}.txt"
    config = {"connector.class": "FileStreamSink", "file": str(file), "topics": name}
    create(worker, name, {**config, "value.converter": STRING})
    return lambda: file.exists() and file.stat().st_size >= count * 100


def connector(
    start: Callable[[ConnectWorker, Path, int, str], Callable[[], bool]],
    contender: type[ConnectWorker],
    bootstrap: str,
    count: int,
) -> Figures:
    """Measure a connector in a worker that has run another of its kind."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        worker = contender(bootstrap, place, "bench")
        began = time.monotonic()
        worker.start()
        try:
            wait(start(worker, place, 1, "first"), "first record", 0.05)
            found = {"start to first record s": time.monotonic() - began}
            assert worker.process is not None
            pid = worker.process.pid
            is_done = start(worker, place, count, "second")
            before_s, began = cpu_s(pid), time.monotonic()
            wait(is_done, "all records", 0.2)
            found["warm k/s"] = count / (time.monotonic() - began) / 1000
            found["warm CPU s per M"] = (cpu_s(pid) - before_s) / count * 1_000_000
            return found
        finally:
            worker.stop()


def memory(contender: type[ConnectWorker], bootstrap: str, _: int) -> Figures:
    """Measure a worker with idle sinks, and what their idling costs."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        worker = contender(bootstrap, place, "bench")
        worker.start()
        try:
            for number in range(JOBS):
                is_done = file_sink(worker, place, 100, f"job-{number}")
                wait(is_done, f"job {number}", 0.1)
            assert worker.process is not None
            pid = worker.process.pid
            time.sleep(5)
            before_s = cpu_s(pid)
            time.sleep(20)
            return {"memory MB": memory_mb(pid), "idle CPU %": (cpu_s(pid) - before_s) / 20 * 100}
        finally:
            worker.stop()


Measurement: TypeAlias = Callable[[str, int], Figures]
"""Returns figures, given the server's address and a number of records."""


def rows() -> dict[str, dict[str, Measurement]]:
    """Return the measurements by row and contender."""
    return {
        "copy of a topic, exactly once, 100 B": _of_lines(partial(throughput, "copy")),
        f"word count, {WORDS:,} keys": _of_lines(partial(throughput, "count")),
        "latency of a copy, exactly once": _of_lines(latency),
        "file source, 100 B": _of_workers(partial(connector, file_source)),
        "file sink, 100 B": _of_workers(partial(connector, file_sink)),
        f"{JOBS} idle sinks": _of_workers(memory),
    }


def _of_lines(run: Callable[[type[LineProcess], str, int], Figures]) -> dict[str, Measurement]:
    return {each.name: partial(run, each) for each in (EngineProcess, StreamsProcess)}


def _of_workers(run: Callable[[type[ConnectWorker], str, int], Figures]) -> dict[str, Measurement]:
    return {"barnabas": partial(run, OurWorker), "Java Connect": partial(run, ConnectJava)}


Results: TypeAlias = dict[str, dict[str, dict[str, list[float]]]]
"""Values by row, figure and contender."""


def measure(names: list[str], rounds: int, count: int) -> Results:
    """Run the rows; the contenders take turns, and each round begins with another."""
    found: Results = {}
    for number in range(rounds):
        for name in names:
            contenders = list(rows()[name].items())
            if number % 2:
                contenders.reverse()
            for contender, run in contenders:
                server = BarnabasProcess()
                server.start()
                try:
                    figures = run(server.bootstrap, count)
                finally:
                    server.close()
                shown = ", ".join(f"{figure} {value:.4g}" for figure, value in figures.items())
                print(f"round {number + 1}: {name}: {contender}: {shown}", flush=True)
                for figure, value in figures.items():
                    by_contender = found.setdefault(name, {}).setdefault(figure, {})
                    by_contender.setdefault(contender, []).append(value)
    return found


def report(found: Results, rounds: int, count: int, load: float) -> str:
    """Return the results as a page."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    lines = [
        "# Pipelines beside Kafka Streams and Java's Connect",
        "",
        f'`make bench-pipeline ARGS="--rounds {rounds} --records {count}"` wrote this page on '
        f"{datetime.now(UTC):%Y-%m-%d}: commit {commit}, {os.cpu_count()} cores, load {load:.1f} "
        f"before the start, {rounds} rounds in which the contenders took turns, {count:,} records. "
        "Apache Kafka's clients, Streams and Connect are 4.3.0. Both sides run against barnabas, "
        "one new server for each measurement, whose CPU is not in the figures. `cold` includes the "
        "start of the process.",
        "",
        "| row | figure | who | median | max | all values | ours / theirs |",
        "| --- | --- | --- | ---: | ---: | --- | ---: |",
    ]
    for name, figures in found.items():
        for figure, contenders in figures.items():
            ours = contenders.get("barnabas")
            for contender, values in contenders.items():
                ratio = ""
                if ours is not None and contender != "barnabas":
                    ratio = f"{statistics.median(ours) / statistics.median(values):.2f}"
                shown = ", ".join(f"{value:.3g}" for value in values)
                lines.append(
                    f"| {name} | {figure} | {contender} | {statistics.median(values):.3g} | "
                    f"{max(values):.3g} | {shown} | {ratio} |"
                )
    return "\n".join([*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline", description=__doc__)
    known = list(rows())
    parser.add_argument("--rows", nargs="+", metavar="TEXT", help="rows with this text in the name")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--no-write", action="store_true", help="print only")
    options = parser.parse_args()
    if reason := jars.missing():
        parser.error(reason)
    wanted = options.rows or [""]
    names = [name for name in known if any(text in name for text in wanted)]
    load = os.getloadavg()[0]
    text = report(
        measure(names, options.rounds, options.records), options.rounds, options.records, load
    )
    print(text)
    if not options.no_write:
        RESULTS.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
