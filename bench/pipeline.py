"""`make bench-pipeline`: jobs of barnabas beside Kafka Streams and Java's Connect, in turn.

Every measurement has a new server of barnabas, so that the broker is the same for all, and a new
process of the contender. The figures that compare are CPU seconds (driver JVM, daemon and workers
together, or Java's JVM; the broker's are not in it) and ratios; times belong to the machine. `cold`
includes the start of the process; `warm` is a later job in the same process, whose JVM has compiled
its code. Three rounds take less than 15 minutes on a quiet machine with two cores. The results are
in bench/pipeline-results.md. A measurement that fails is reported, and the others run.

`make bench-pipeline ARGS="--rows SQL: --no-write"` measures the rows of SQL alone, and prints their
bars.
"""

import argparse
import os
import random
import statistics
import subprocess
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeAlias

from confluent_kafka import Consumer, Producer, TopicPartition

from bench import pipeline_jdbc, pipeline_mirror, pipeline_sql
from bench.pipeline_connectors import (
    JOBS,
    WARM_RECORDS,
    Figures,
    Measurement,
    connector,
    file_sink,
    file_source,
    memory,
)
from bench.pipeline_contenders import (
    ConnectJava,
    EngineProcess,
    FormatProcess,
    LineProcess,
    OurWorker,
    SparkProcess,
    StreamsProcess,
    cpu_s,
    memory_mb,
)
from bench.pipeline_topics import PARTITIONS, fill, topics, wait_end, wait_group
from compat_tests import jars
from compat_tests.pipeline.connect_workers import ConnectWorker
from compat_tests.servers import BarnabasProcess

RESULTS = Path(__file__).with_name("pipeline-results.md")
WORDS = 10_000
PINGS, WARM_PINGS = 120, 80
PAUSE_MAX_S = 0.1
"""The pauses between pings are random: a constant one would lock to a job's interval."""

VALUES: dict[str, Callable[[int], str]] = {
    "copy": lambda n: f"{n:0100d}",
    "json": lambda n: f'{{"id": {n}, "name": "{n:078d}"}}',
    "count": lambda n: f"word-{n * 7919 % WORDS}",
}
"""The value of a record by its number, for each kind of work."""

IDLE = f"{JOBS} idle sinks"
"""Measured in the first round only: its figures hardly vary, and it takes a minute each."""


def throughput(kind: str, contender: type[LineProcess], bootstrap: str, count: int) -> Figures:
    """Measure two jobs of one kind, one behind the other."""
    value = VALUES[kind]
    found: Figures = {}
    with tempfile.TemporaryDirectory() as directory:
        process = contender(bootstrap, Path(directory))
        process.prepare()
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
                if process.commits:
                    wait_group(bootstrap, name, name)
                else:
                    wait_end(bootstrap, f"{name}-out", count)
                found[f"{name} k/s"] = count / (time.monotonic() - began) / 1000
                used_s = cpu_s(process.pid) - before_s
                found[f"{name} CPU s per M"] = used_s / count * 1_000_000
            found["memory MB"] = memory_mb(process.pid)
        finally:
            process.stop()
    return found


def latency(contender: type[LineProcess], bootstrap: str, _: int) -> Figures:
    """Measure single records through a running copy that has copied others before."""
    topics(bootstrap, "ping", "ping-out")
    with tempfile.TemporaryDirectory() as directory:
        process = contender(bootstrap, Path(directory))
        process.prepare()
        process.start()
        try:
            process.job("copy", "ping", "ping-out")
            consumer = ping_consumer(bootstrap)
            pings(bootstrap, consumer, WARM_PINGS)
            before_s = cpu_s(process.pid)
            times_ms = sorted(pings(bootstrap, consumer, PINGS))
            used_s = cpu_s(process.pid) - before_s
            consumer.close()
            return {
                "p50 ms": statistics.median(times_ms),
                "p99 ms": times_ms[int(len(times_ms) * 0.99)],
                "CPU ms per record": used_s / PINGS * 1000,
            }
        finally:
            process.stop()


def ping_consumer(bootstrap: str) -> Consumer:
    """Return a consumer of the copies."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "pings",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition("ping-out", number, 0) for number in range(PARTITIONS)])
    return consumer


def pings(bootstrap: str, consumer: Consumer, count: int) -> list[float]:
    """Return the time of each of some records from its production to its copy."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    pauses = random.Random(1)
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
        time.sleep(pauses.uniform(0, PAUSE_MAX_S))
    return times_ms


def rows() -> dict[str, dict[str, Measurement]]:
    """Return the measurements by row and contender."""
    return {
        "copy of a topic, exactly once, 100 B": _of_copies(partial(throughput, "copy")),
        f"word count, {WORDS:,} keys": _of_lines(partial(throughput, "count")),
        "latency of a copy, exactly once": _of_copies(latency),
        "sink of a plain Spark job, 100 B": _of_formats(partial(throughput, "copy")),
        "latency of a plain Spark job": _of_formats(latency),
        "file source, 100 B": _of_workers(partial(connector, file_source)),
        "file sink, 100 B": _of_workers(partial(connector, file_sink)),
        "JDBC sink, upserts in PostgreSQL": pipeline_jdbc.measurements(),
        **pipeline_mirror.rows(),
        **pipeline_sql.rows(throughput),
        IDLE: _of_workers(memory),
    }


def _of_copies(run: Callable[[type[LineProcess], str, int], Figures]) -> dict[str, Measurement]:
    """Spark's own sink, which copies at least once, is beside the others."""
    return {**_of_lines(run), SparkProcess.name: partial(run, SparkProcess)}


def _of_formats(run: Callable[[type[LineProcess], str, int], Figures]) -> dict[str, Measurement]:
    """One program of a user with either sink: ours exactly once, Spark's at least once."""
    return {"barnabas": partial(run, FormatProcess), SparkProcess.name: partial(run, SparkProcess)}


def _of_lines(run: Callable[[type[LineProcess], str, int], Figures]) -> dict[str, Measurement]:
    return {each.name: partial(run, each) for each in (EngineProcess, StreamsProcess)}


def _of_workers(run: Callable[[type[ConnectWorker], str, int], Figures]) -> dict[str, Measurement]:
    return {"barnabas": partial(run, OurWorker), "Java Connect": partial(run, ConnectJava)}


Results: TypeAlias = dict[str, dict[str, dict[str, list[float]]]]
"""Values by row, figure and contender."""


def measure(names: list[str], rounds: int, count: int) -> tuple[Results, list[str]]:
    """Run the rows; the contenders take turns, and each round begins with another.

    Returns the values, and what failed.
    """
    found: Results = {}
    failed: list[str] = []
    began = time.monotonic()
    for number in range(rounds):
        for name in [each for each in names if number == 0 or each != IDLE]:
            contenders = list(rows()[name].items())
            if number % 2:
                contenders.reverse()
            for contender, run in contenders:
                title = f"round {number + 1}: {name}: {contender}"
                figures = measured(run, count, title, failed)
                shown = ", ".join(f"{figure} {value:.4g}" for figure, value in figures.items())
                print(f"{time.monotonic() - began:4.0f} s {title}: {shown}", flush=True)
                for figure, value in figures.items():
                    by_contender = found.setdefault(name, {}).setdefault(figure, {})
                    by_contender.setdefault(contender, []).append(value)
    return found, failed


def measured(run: Measurement, count: int, title: str, failed: list[str]) -> Figures:
    """Return the figures of one measurement with its own server; add its failure to `failed`."""
    server = BarnabasProcess()
    try:
        server.start()
        return run(server.bootstrap, count)
    except Exception as error:
        traceback.print_exc()
        failed.append(f"{title}: {type(error).__name__}: {error}".splitlines()[0])
        return {}
    finally:
        server.close()


def report(found: Results, failed: list[str], rounds: int, count: int, load: float) -> str:
    """Return the results as a page."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    lines = [
        "# Pipelines beside Kafka Streams and Java's Connect",
        "",
        f'`make bench-pipeline ARGS="--rounds {rounds} --records {count}"` wrote this page on '
        f"{datetime.now(UTC):%Y-%m-%d}: commit {commit}, {os.cpu_count()} cores, load {load:.1f} "
        f"before the start, rounds: {rounds}, in which contenders took turns, {count:,} records "
        f"({WARM_RECORDS:,} for the warm-up of connectors, {WARM_PINGS} and {PINGS} single ones). "
        "Apache Kafka's clients, Streams and Connect are 4.3.0. Both sides run against barnabas, "
        "one new server for each measurement, whose CPU is not in the figures. `cold` includes the "
        "start of the process; `warm` is a later job of the same process.",
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
    if states := pipeline_sql.states(found):
        lines += ["", f"Bars of SQL, at commit {commit}:", "", *(f"- {each}" for each in states)]
    if failed:
        lines += ["", "Measurements that failed:", "", *(f"- {each}" for each in failed)]
    return "\n".join([*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline", description=__doc__)
    known = list(rows())
    parser.add_argument("--rows", nargs="+", metavar="TEXT", help="rows with this text in the name")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--no-write", action="store_true", help="print only")
    options = parser.parse_args()
    if reason := jars.missing():
        parser.error(reason)
    wanted = options.rows or [""]
    names = [name for name in known if any(text in name for text in wanted)]
    load = os.getloadavg()[0]
    found, failed = measure(names, options.rounds, options.records)
    text = report(found, failed, options.rounds, options.records, load)
    print(text)
    if not options.no_write:
        RESULTS.write_text(text)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
