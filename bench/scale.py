"""`python -m bench.scale`: how cost grows with partitions, connections and bytes on disk.

Each curve should be flat where only the amount of data grows, not the work.
"""

import argparse
import random
import selectors
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles

from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.produce import ProduceRequest
from bench.servers import Barnabas, Measured, cpu_seconds, memory_bytes
from compat_tests.servers import answers
from compat_tests.wire import Connection, request_frame

_PRODUCE, _FETCH, _CREATE = 9, 11, 5
_TOPIC = "scale"
_PER_REQUEST = 50
_BATCHES = 20_000
_REQUESTS = 20_000
_IDLE_S = 5.0
_READS = 1000
_READ_BYTES = 64 * 1024

Row = dict[str, str]


def main() -> int:
    """Measure the selected curves, print them, and write bench/scale.md."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="*", default=[1, 100, 1000, 10_000])
    parser.add_argument("--connections", type=int, nargs="*", default=[1, 100, 1000])
    parser.add_argument("--gigabytes", type=float, nargs="*", default=[1, 5, 20])
    parser.add_argument("--no-write", dest="write", action="store_false")
    options = parser.parse_args()
    curves: list[tuple[str, Callable[[Measured, float], Row], list[float]]] = [
        ("partitions", partitions, options.partitions),
        ("connections", connections, options.connections),
        ("GB in one partition", log_size, options.gigabytes),
    ]
    text = f"# Measured {datetime.now(UTC):%Y-%m-%d %H:%M} UTC\n"
    for name, measure, points in curves:
        rows: list[Row] = []
        for point in points:
            print(f"{name}: {point:g}", file=sys.stderr)
            rows.append({name: f"{point:g}", **_measured(measure, point)})
        if rows:
            text += "\n" + _table(rows)
    print(text)
    if options.write:
        (Path(__file__).parent / "scale.md").write_text(text)
    return 0


def _measured(measure: Callable[[Measured, float], Row], point: float) -> Row:
    server = Barnabas()
    server.prepare()
    try:
        _start(server)
        return measure(server, point)
    finally:
        server.close()


def _start(server: Measured) -> float:
    """Start the server; return the seconds to its first response."""
    began = time.perf_counter()
    server.spawn()
    while not answers(server.port):
        time.sleep(0.005)
    return time.perf_counter() - began


def _create(connection: Connection, count: int) -> None:
    topic = CreateTopicsRequest.CreatableTopic(
        name=_TOPIC, num_partitions=count, replication_factor=1
    )
    answer = connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), _CREATE)
    if answer.topics[0].error_code:
        raise RuntimeError(str(answer))


def _produce(batches: dict[int, bytes]) -> ProduceRequest:
    data = ProduceRequest.TopicProduceData(
        name=_TOPIC,
        partition_data=[
            ProduceRequest.PartitionProduceData(index=number, records=batch)
            for number, batch in batches.items()
        ],
    )
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])


def _batch(records: int, size: int) -> bytes:
    now_ms = int(time.time() * 1000)
    value = b"x" * size
    return bytes(build_batch([Record(n, now_ms, None, value) for n in range(records)]))


def partitions(server: Measured, point: float) -> Row:
    """Write one small batch after another to each partition, fifty to a request."""
    count = int(point)
    batch = _batch(1, 100)
    with Connection(server.bootstrap) as connection:
        _create(connection, count)
        numbers = list(range(count))
        groups = [numbers[at : at + _PER_REQUEST] for at in range(0, count, _PER_REQUEST)]
        requests = [_produce(dict.fromkeys(group, batch)) for group in groups]
        began = time.perf_counter()
        for request in requests:
            connection.call(request, _PRODUCE)
        first = time.perf_counter() - began
        cpu, began, sent = cpu_seconds(server), time.perf_counter(), 0
        while sent < _BATCHES:
            for request, group in zip(requests, groups, strict=True):
                connection.call(request, _PRODUCE)
                sent += len(group)
        took, cpu = time.perf_counter() - began, cpu_seconds(server) - cpu
        idle = cpu_seconds(server)
        time.sleep(_IDLE_S)
        idle = (cpu_seconds(server) - idle) / _IDLE_S
    memory = memory_bytes(server)
    server.stop()
    restart = _start(server)
    return {
        "first write to each (s)": f"{first:.2f}",
        "k batches/s": f"{sent / took / 1000:.1f}",
        "server CPU a batch (µs)": f"{cpu / sent * 1e6:.1f}",
        "idle CPU (%)": f"{idle * 100:.1f}",
        "memory (MB)": f"{memory / 1e6:.0f}",
        "start after a clean stop (s)": f"{restart:.2f}",
    }


def connections(server: Measured, point: float) -> Row:
    """Open connections, each always with one record in flight."""
    with Connection(server.bootstrap) as connection:
        _create(connection, 1)
    frame = request_frame(_produce({0: _batch(1, 100)}), _PRODUCE, 1)
    opened = [Connection(server.bootstrap) for _ in range(int(point))]
    try:
        _take_turns(opened, frame, len(opened))
        memory = memory_bytes(server)
        cpu, began = cpu_seconds(server), time.perf_counter()
        _take_turns(opened, frame, _REQUESTS)
        took, cpu = time.perf_counter() - began, cpu_seconds(server) - cpu
    finally:
        for connection in opened:
            connection.socket.close()
    return {
        "k requests/s": f"{_REQUESTS / took / 1000:.1f}",
        "server CPU each (µs)": f"{cpu / _REQUESTS * 1e6:.1f}",
        "memory (MB)": f"{memory / 1e6:.0f}",
    }


def _take_turns(opened: list[Connection], frame: bytes, wanted: int) -> None:
    """Send on every connection, and again on each response, `wanted` times in total."""
    with selectors.DefaultSelector() as selector:
        for connection in opened:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            connection.send_frame(frame)
        done, sent = 0, len(opened)
        while done < wanted:
            for key, _ in selector.select(30):
                key.data.receive_frame()
                done += 1
                if sent < wanted:
                    key.data.send_frame(frame)
                    sent += 1


def log_size(server: Measured, point: float) -> Row:
    """Measure starts, random reads and memory with a large partition."""
    batch = _batch(8, 8_000)
    count = int(point * 1e9 / len(batch))
    with Connection(server.bootstrap) as connection:
        _create(connection, 1)
        frame = request_frame(_produce({0: batch}), _PRODUCE, 1)
        began = time.perf_counter()
        for _ in range(count):
            connection.send_frame(frame)
            connection.receive_frame()
        took = time.perf_counter() - began
    memory = memory_bytes(server)
    server.kill()
    killed = _start(server)
    server.stop()
    clean = _start(server)
    reads = _reads(server, count * 8)
    return {
        "written (MB/s)": f"{count * len(batch) / took / 1e6:.0f}",
        "start after a kill (s)": f"{killed:.2f}",
        "start after a clean stop (s)": f"{clean:.2f}",
        "read 64 kB at random, p50 (ms)": f"{median(reads) * 1000:.2f}",
        "p99 (ms)": f"{quantiles(reads, n=100)[98] * 1000:.2f}",
        "memory after writing (MB)": f"{memory / 1e6:.0f}",
        "after reading (MB)": f"{memory_bytes(server) / 1e6:.0f}",
    }


def _reads(server: Measured, end_offset: int) -> list[float]:
    times: list[float] = []
    choose = random.Random(1)
    with Connection(server.bootstrap) as connection:
        for _ in range(_READS):
            asked = FetchRequest.FetchPartition(
                partition=0,
                fetch_offset=choose.randrange(end_offset),
                partition_max_bytes=_READ_BYTES,
            )
            topic = FetchRequest.FetchTopic(topic=_TOPIC, partitions=[asked])
            request = FetchRequest(topics=[topic], max_bytes=_READ_BYTES, min_bytes=1)
            began = time.perf_counter()
            connection.call(request, _FETCH)
            times.append(time.perf_counter() - began)
    return times


def _table(rows: list[Row]) -> str:
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + " ---: |" * len(rows[0])]
    lines += ["| " + " | ".join(row.values()) + " |" for row in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
