"""`python -m bench.nodes`: `serve --nodes N --pin` beside one Apache Kafka on the same cores.

Fifty producers send one record a request, pipelined, each to one of N partitions with one replica.
Node and client share the machine: what counts is the ratio of servers that run in turn, and the CPU
time of a request.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from statistics import median
from uuid import uuid4

from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing.free_ports import free_group_port
from bench.librdkafka import Producer, messages
from bench.servers import Barnabas, Kafka, Measured, children, cpu_seconds_of
from compat_tests import jars
from compat_tests.servers import answers

PRODUCERS = 50
_START_S = 60.0


class NodeGroup(Barnabas):
    """`barnabas serve --nodes N --pin`."""

    def __init__(self, nodes: int) -> None:
        super().__init__()
        self.nodes = nodes
        self.port = free_group_port(nodes)

    def command(self) -> list[str]:
        listen = f"127.0.0.1:{self.port}"
        group = ["--nodes", str(self.nodes), "--pin"]
        command = [sys.executable, "-m", "barnabas", "serve", "--data", str(self.data)]
        return [*command, "--listen", listen, *group]


def measure(server: Measured, nodes: int, partitions: int, count: int) -> tuple[float, float]:
    """Return thousand requests a second, and µs of server CPU for each."""
    server.prepare()
    server.spawn()
    deadline = time.monotonic() + _START_S
    while not all(answers(server.port + index) for index in range(nodes)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{server.kind} did not answer:\n{server.log_tail()}")
        time.sleep(0.05)
    time.sleep(2)
    _send(server, nodes, partitions, count)  # a just-in-time compiler compiles
    return _send(server, nodes, partitions, count)


def _send(server: Measured, nodes: int, partitions: int, count: int) -> tuple[float, float]:
    topic = _topic(server, nodes, partitions)
    each = count // PRODUCERS
    array, _payload = messages(each, 100)
    config = {"linger_ms": "0", "batch_num_messages": "1"}
    clients = [
        Producer({"bootstrap.servers": server.bootstrap}, topic, **config) for _ in range(PRODUCERS)
    ]
    try:
        for number, client in enumerate(clients):
            client.send(array, 5, partition=number % partitions)
        for client in clients:
            client.flush()
        cpu, began = _cpu_seconds(server), time.perf_counter()
        for number, client in enumerate(clients):
            client.send(array, partition=number % partitions)
        for client in clients:
            client.flush()
        took = time.perf_counter() - began
        cpu = _cpu_seconds(server) - cpu
        written = sum(clients[0].end_offset(number) for number in range(partitions))
        if written != PRODUCERS * (each + 5):
            raise RuntimeError(f"{PRODUCERS * (each + 5)} records were sent, {written} are there")
    finally:
        for client in clients:
            client.__exit__(None, None, None)
    sent = each * PRODUCERS
    return sent / took / 1e3, cpu / sent * 1e6


def _topic(server: Measured, nodes: int, partitions: int) -> str:
    """Create a topic whose partitions are spread over the nodes."""
    name = f"bench-{uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    replicas = [[1 + number % nodes] for number in range(partitions)]
    new = NewTopic(name, partitions, replica_assignment=replicas)
    admin.create_topics([new])[name].result(60)
    return name


def _cpu_seconds(server: Measured) -> float:
    return sum(cpu_seconds_of(pid) for pid in [server.pid, *children(server.pid)])


def main() -> int:
    """Measure the servers in turn and print all values."""
    options = _options()
    most: int = options.nodes
    servers: dict[str, tuple[Callable[[], Measured], int]] = {
        "barnabas, 1 node": (Barnabas, 1),
        f"barnabas, {most} nodes": (lambda: NodeGroup(most), most),
    }
    if not jars.missing():
        servers["kafka"] = (Kafka, 1)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in servers}
    for number in range(options.rounds):
        for name, (make, nodes) in servers.items():
            server = make()
            try:
                rate, cpu = measure(server, nodes, most, options.count)
            finally:
                server.close()
            found[name].append((rate, cpu))
            print(f"round {number + 1}, {name}: {rate:.1f} k/s, {cpu:.1f} µs", file=sys.stderr)
    load = os.getloadavg()[0]
    print(f"{PRODUCERS} producers, {os.cpu_count()} cores, load at the end {load:.1f}\n")
    print("| server | k requests/s | all values | server CPU, µs each | all values |")
    print("| --- | ---: | --- | ---: | --- |")
    for name, values in found.items():
        columns = [[value[column] for value in values] for column in (0, 1)]
        shown = [
            f"{median(each):.1f} | {', '.join(f'{value:.1f}' for value in each)}"
            for each in columns
        ]
        print(f"| {name} | {' | '.join(shown)} |")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.nodes", description=__doc__)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=100_000, help="records of all producers")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
