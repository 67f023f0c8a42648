"""Figures of the schema registry beside a node: `python -m bench.registry`.

Start and memory with few and many schemas, reads on eight connections with their cost in CPU,
registrations one after another, and what a fully loaded registry costs the broker's producers,
compared with a process that is as busy but asks the broker nothing.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import Producer

from compat_tests.registry_instances import RegistryInstance
from compat_tests.servers import BarnabasProcess

_CONNECTIONS = 8
_TICKS = os.sysconf("SC_CLK_TCK")


def schema_of(number: int) -> str:
    fields = [{"name": f"f{each}", "type": "string"} for each in range(10)]
    return json.dumps({"type": "record", "name": f"R{number}", "fields": fields})


def memory_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def start_seconds(instance: RegistryInstance) -> float:
    started = time.perf_counter()
    instance.start()
    instance.wait_ready()
    return time.perf_counter() - started


class Connection:
    """One connection that is kept."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str, path: str, body: Any = None) -> bytes:
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        self._connection.request(method, path, data, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        return content


def register(port: int, first: int, count: int) -> list[float]:
    """Register schemas one after another; return the seconds of each."""
    connection = Connection(port)
    seconds: list[float] = []
    for number in range(first, first + count):
        started = time.perf_counter()
        connection.ask("POST", f"/subjects/s{number}/versions", {"schema": schema_of(number)})
        seconds.append(time.perf_counter() - started)
    return seconds


def _read_loop(port: int, end: float, counts: Any) -> None:
    connection = Connection(port)
    count = 0
    while time.monotonic() < end:
        connection.ask("GET", "/schemas/ids/1")
        count += 1
    counts.put(count)


def reads(instance: RegistryInstance, seconds: float) -> tuple[float, float]:
    """Return reads a second on eight connections, and the CPU of each in microseconds."""
    counts: Any = multiprocessing.Queue()
    end = time.monotonic() + seconds
    before = cpu_s(instance.pid)
    clients = [
        multiprocessing.Process(target=_read_loop, args=(instance.port, end, counts))
        for _ in range(_CONNECTIONS)
    ]
    for client in clients:
        client.start()
    total = sum(counts.get() for _ in clients)
    for client in clients:
        client.join()
    return total / seconds, (cpu_s(instance.pid) - before) / total * 1e6


def produce_p99_ms(bootstrap: str, seconds: float) -> float:
    """Return the 99th percentile of acknowledged produces, one at a time."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    waited: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        started = time.perf_counter()
        producer.produce("bench", b"x" * 100)
        producer.flush()
        waited.append(time.perf_counter() - started)
    return percentile(waited, 0.99) * 1e3


def produce_beside(bootstrap: str, instance: RegistryInstance, seconds: float) -> dict[str, float]:
    """Return produce's p99 beside a loaded registry and beside a busy process of its priority."""
    found = {"alone": produce_p99_ms(bootstrap, seconds)}
    load = threading.Thread(target=reads, args=(instance, seconds + 1))
    load.start()
    time.sleep(0.5)
    found["registry"] = produce_p99_ms(bootstrap, seconds)
    load.join()
    busy = subprocess.Popen([sys.executable, "-c", "import os\nos.nice(10)\nwhile True: pass"])
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(1)]
    try:
        found["dummy"] = produce_p99_ms(bootstrap, seconds)
    finally:
        for process in (busy, *others):
            process.kill()
            process.wait()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schemas", type=int, default=3000)
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    server = BarnabasProcess()
    server.start()
    with TemporaryDirectory() as directory:
        instance = RegistryInstance(server.bootstrap, Path(directory))
        try:
            _report(server.bootstrap, instance, arguments.schemas, arguments.seconds)
        finally:
            instance.stop()
            server.close()


def _report(bootstrap: str, instance: RegistryInstance, count: int, seconds: float) -> None:
    instance.start()  # creates the topic
    instance.wait_ready()
    instance.kill()
    empty = start_seconds(instance)
    idle_mb = memory_mb(instance.pid)
    register(instance.port, 0, 1)  # waits for the election
    waited = register(instance.port, 1, count - 1)
    per_second, cpu_us = reads(instance, seconds)
    full_mb = memory_mb(instance.pid)
    instance.kill()
    full = start_seconds(instance)
    register(instance.port, 0, 1)
    restarted_mb = memory_mb(instance.pid)
    beside = produce_beside(bootstrap, instance, seconds)
    rows = [
        ("start, empty", f"{empty:.2f} s", "0.6 s"),
        (f"start, {count:,} schemas", f"{full:.2f} s", "1.0 s"),
        ("memory, idle", f"{idle_mb:.0f} MB", "50 MB"),
        (
            f"memory, {count:,} schemas",
            f"{restarted_mb:.0f} MB (after load {full_mb:.0f})",
            "70 MB",
        ),
        ("GET by id, 8 connections", f"{per_second:,.0f}/s", "2,000/s"),
        ("CPU of a GET", f"{cpu_us:.0f} us", "400 us"),
        ("register, one after another", f"{len(waited) / sum(waited):.0f}/s", "300/s"),
        ("register p50", f"{percentile(waited, 0.5) * 1e3:.1f} ms", "3 ms"),
        ("register p99", f"{percentile(waited, 0.99) * 1e3:.1f} ms", "10 ms"),
        ("produce p99 alone", f"{beside['alone']:.2f} ms", ""),
        ("produce p99 beside the loaded registry", f"{beside['registry']:.2f} ms", ""),
        ("produce p99 beside a busy process", f"{beside['dummy']:.2f} ms", ""),
    ]
    for name, value, goal in rows:
        print(f"| {name} | {value} | {goal} |")


if __name__ == "__main__":
    main()
