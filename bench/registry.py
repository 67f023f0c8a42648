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
import re
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, cast

from confluent_kafka import Producer

from compat_tests.registry_instances import RegistryInstance
from compat_tests.servers import BarnabasProcess

_CONNECTIONS = 8
_WINDOW_S = 0.5
"""Short windows in turn: a burst of other work on the machine spoils few of them."""
_NICENESS = 10
"""The priority that `serve --registry` gives the registry."""
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


def shown(values: list[float]) -> str:
    ordered = sorted(values)
    quarters = (ordered[len(ordered) // 4], ordered[len(ordered) * 3 // 4])
    return f"quartiles {quarters[0]:.2f} and {quarters[1]:.2f}, {len(ordered)} rounds"


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


_REQUEST = (
    "GET /schemas/ids/1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
    "Accept: application/vnd.schemaregistry.v1+json\r\n\r\n"
)
_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def read_loop(port: int, seconds: float, counts: Any) -> None:
    """Keep one read in flight on each of eight connections; one process, so that it costs little.

    Puts the number of reads in `counts`.
    """
    request = _REQUEST.format(port=port).encode()
    selector = selectors.DefaultSelector()
    for _ in range(_CONNECTIONS):
        connection = socket.create_connection(("127.0.0.1", port))
        selector.register(connection, selectors.EVENT_READ, bytearray())
        connection.sendall(request)
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for key, _ in selector.select(1):
            connection, received = cast(socket.socket, key.fileobj), key.data
            received += connection.recv(65536)
            head_end = received.find(_HEAD_END)
            found = _LENGTH.search(received)
            if head_end < 0 or found is None:
                continue
            if len(received) == head_end + len(_HEAD_END) + int(found[1]):
                assert received.startswith(b"HTTP/1.1 200"), received
                received.clear()
                count += 1
                connection.sendall(request)
    counts.put(count)


def reads(instance: RegistryInstance, seconds: float) -> tuple[float, float]:
    """Return reads a second on eight connections, and the CPU of each in microseconds."""
    counts: Any = multiprocessing.Queue()
    before = cpu_s(instance.pid)
    client = multiprocessing.Process(target=read_loop, args=(instance.port, seconds, counts))
    client.start()
    total = counts.get()
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


# In place of the registry: an HTTP server of the same priority that never asks the broker. It
# gets the same requests from the same client, and spends the CPU that the registry spends on each.
_DUMMY = """
import os, selectors, socket, sys, time
os.nice(int(sys.argv[1]))
busy_s, body = float(sys.argv[2]), b"x" * int(sys.argv[3])
answer = b"HTTP/1.1 200 OK\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body) + body
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
selector = selectors.DefaultSelector()
selector.register(listener, selectors.EVENT_READ)
while True:
    for key, _ in selector.select():
        if key.fileobj is listener:
            selector.register(listener.accept()[0], selectors.EVENT_READ)
            continue
        try:
            received = key.fileobj.recv(65536)
            end = time.thread_time() + busy_s
            while received and time.thread_time() < end:
                pass
            key.fileobj.sendall(answer if received else b"")
        except ConnectionError:
            received = b""
        if not received:
            selector.unregister(key.fileobj)
            key.fileobj.close()
"""


@contextmanager
def dummy(nice: int, cpu_us: float) -> Iterator[int]:
    """Run the dummy; return its port."""
    arguments = [str(nice), str(cpu_us / 1e6), "600"]
    process = subprocess.Popen(
        [sys.executable, "-c", _DUMMY, *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def produce_beside(
    bootstrap: str, instance: RegistryInstance, cpu_us: float, rounds: int
) -> dict[str, list[float]]:
    """Return produce's p99 alone, beside the loaded registry and beside the dummy, in turn."""
    found: dict[str, list[float]] = {"alone": [], "registry": [], "dummy": []}
    os.setpriority(os.PRIO_PROCESS, instance.pid, _NICENESS)
    with dummy(_NICENESS, cpu_us) as dummy_port:
        ports = {"alone": None, "registry": instance.port, "dummy": dummy_port}
        for number in range(rounds):
            # Each round begins with another one, so that a drift of the machine favours none.
            names = list(ports)[number % 3 :] + list(ports)[: number % 3]
            for name in names:
                found[name].append(_produce_beside_port(bootstrap, ports[name], _WINDOW_S))
    return found


def _produce_beside_port(bootstrap: str, port: int | None, seconds: float) -> float:
    if port is None:
        return produce_p99_ms(bootstrap, seconds)
    counts: Any = multiprocessing.Queue()
    client = multiprocessing.Process(target=read_loop, args=(port, seconds + 0.5, counts))
    client.start()
    time.sleep(0.2)
    p99 = produce_p99_ms(bootstrap, seconds)
    counts.get()
    client.join()
    return p99


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schemas", type=int, default=3000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=30, help="of produce beside the registry")
    arguments = parser.parse_args()
    server = BarnabasProcess()
    server.start()
    with TemporaryDirectory() as directory:
        instance = RegistryInstance(server.bootstrap, Path(directory))
        try:
            _report(server.bootstrap, instance, arguments)
        finally:
            instance.stop()
            server.close()


def _report(bootstrap: str, instance: RegistryInstance, arguments: argparse.Namespace) -> None:
    count, seconds = arguments.schemas, arguments.seconds
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
    beside = produce_beside(bootstrap, instance, cpu_us, arguments.rounds)
    ratios = [a / b for a, b in zip(beside["registry"], beside["dummy"], strict=True)]
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
        *(
            (f"produce p99, {name}", f"{median(values):.2f} ms ({shown(values)})", "")
            for name, values in beside.items()
        ),
        (
            "produce p99, registry to dummy, by round",
            f"{median(ratios):.2f} ({shown(ratios)})",
            "1.2",
        ),
    ]
    for name, value, goal in rows:
        print(f"| {name} | {value} | {goal} |")


if __name__ == "__main__":
    main()
