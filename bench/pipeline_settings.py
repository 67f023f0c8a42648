"""`python -m bench.pipeline_settings`: the engine with and without each setting, and forward.

Each row runs in another driver process. The figures that compare are CPU seconds (driver JVM,
daemon and workers together) and ratios: wall times belong to the machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.servers import BarnabasProcess

PARTITIONS = 4
LATENCY_RECORDS = 30
NO_DAEMON = {"spark.python.daemon.module": "pyspark.daemon"}
NO_SHARING = {"spark.driver.extraJavaOptions": "-Xshare:off"}
NO_FILE_MANAGER = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming."
    "FileContextBasedCheckpointFileManager"
}
FETCH_WAIT = {"consumer": {"fetch.max.wait.ms": "500"}}
# Such a copy is a query of Spark, with a checkpoint and Spark's own consumer.
QUERY = {"guarantee": "at-least-once"}
# Row: (measurement, what differs from the engine's settings)
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "start": ("start", {}),
    "start, no class-data sharing": ("start", {"spark": NO_SHARING}),
    "start, short-lived": ("start", {"short": True}),
    "latency": ("latency", {}),
    "latency, Spark's daemon": ("latency", {"spark": NO_DAEMON}),
    "latency, at least once": ("latency", QUERY),
    "latency, at least once, Spark's file manager": (
        "latency",
        {**QUERY, "spark": NO_FILE_MANAGER},
    ),
    "latency, at least once, fetch.max.wait.ms=500": ("latency", {**QUERY, **FETCH_WAIT}),
    "forward": ("forward", {}),
    "forward, at least once": ("forward", QUERY),
}


def main() -> int:
    """Run the rows, each in its process."""
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline_settings", description=__doc__)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run(ROWS[options.run], options.bootstrap, options.records)))
        return 0
    server = BarnabasProcess()
    server.start()
    try:
        for row in options.rows:
            command = [sys.executable, "-m", "bench.pipeline_settings", "--run", row]
            command += ["--bootstrap", server.bootstrap, "--records", str(options.records)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            figures = json.loads(done.stdout.splitlines()[-1])
            shown = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
            print(f"{row}: {shown}", flush=True)
    finally:
        server.close()
    return 0


def run(row: tuple[str, Mapping[str, Any]], bootstrap: str, records: int) -> dict[str, float]:
    """Measure one row in this process."""
    from barnabas.pipeline.spark.engine import Engine
    from barnabas.pipeline.spark.session import SessionSettings

    name, differences = row
    with tempfile.TemporaryDirectory() as work:
        settings = SessionSettings(
            Path(work),
            master="local[2]",
            is_short_lived=differences.get("short", False),
            properties=differences.get("spark", {}),
        )
        engine = Engine(settings)
        began = time.monotonic()
        engine.start()
        started_s = time.monotonic() - began
        try:
            if name == "start":
                return {"session s": started_s, "CPU s": cpu_s()}
            measure: Callable[..., dict[str, float]] = latency if name == "latency" else forward
            return measure(engine, bootstrap, records, differences)
        finally:
            engine.stop()


def latency(
    engine: Any, bootstrap: str, _: int, differences: Mapping[str, Any]
) -> dict[str, float]:
    """Return the time of single records through a warm job."""
    source, target = topics(bootstrap)
    job = start(engine, bootstrap, source, target, differences)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": target,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition(target, number, 0) for number in range(PARTITIONS)])
    times_ms: list[float] = []
    for number in range(2 * LATENCY_RECORDS):
        sent = time.monotonic()
        producer.produce(source, value=str(number), partition=number % PARTITIONS)
        producer.flush()
        while True:
            message = consumer.poll(30)
            if message is None or message.error() is None:
                break
        times_ms.append((time.monotonic() - sent) * 1000)
        time.sleep(0.05)
    warm = times_ms[LATENCY_RECORDS:]
    phases = job.progress().phases_ms
    files = phases.get("walCommit", 0) + phases.get("commitOffsets", 0)
    consumer.close()
    return {
        "p50 ms": statistics.median(warm),
        "p90 ms": statistics.quantiles(warm, n=10)[-1],
        "checkpoint ms": files,
        "CPU s": cpu_s(),
    }


def forward(
    engine: Any, bootstrap: str, records: int, differences: Mapping[str, Any]
) -> dict[str, float]:
    """Return the rate and the CPU of copying records of 100 bytes."""
    source, target = topics(bootstrap)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for number in range(records):
        while True:
            try:
                producer.produce(source, value=f"{number:0100d}", partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    before_s, began = cpu_s(), time.monotonic()
    job = start(engine, bootstrap, source, target, differences)
    while job.progress().written < records:
        if failure := job.failure():
            raise RuntimeError(str(failure))
        time.sleep(0.2)
    elapsed_s = time.monotonic() - began
    return {
        "records/s": records / elapsed_s,
        "CPU s per M": (cpu_s() - before_s) / records * 1_000_000,
    }


def topics(bootstrap: str) -> tuple[str, str]:
    """Create a source and a target."""
    names = [f"{role}-{os.getpid()}" for role in ("source", "target")]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        future.result(30)
    return names[0], names[1]


def start(
    engine: Any, bootstrap: str, source: str, target: str, differences: Mapping[str, Any]
) -> Any:
    """Start the job that copies."""
    from barnabas.pipeline.delivery.plan.job_plan import Guarantee
    from bench.pipeline_engine import copy_plan

    plan = copy_plan(
        bootstrap,
        source,
        target,
        guarantee=Guarantee(differences.get("guarantee", "exactly-once")),
        consumer_overrides=differences.get("consumer", {}),
    )
    return engine.start_job(plan)


def cpu_s() -> float:
    """Return the CPU time of all processes below this one."""
    ticks, pids = 0, _children(os.getpid())
    while pids:
        pid = pids.pop()
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        ticks += sum(int(field) for field in fields[11:15])
        pids += _children(pid)
    return ticks / os.sysconf("SC_CLK_TCK")


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in task.read_text().split()]
    return found


if __name__ == "__main__":
    sys.exit(main())
