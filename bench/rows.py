"""The rows of the table: each measures one thing on a running server."""

import time
from collections.abc import Callable, Mapping
from statistics import median, quantiles
from uuid import uuid4

import attrs
from confluent_kafka import Consumer as PyConsumer
from confluent_kafka import Producer as PyProducer
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.librdkafka import Consumer, Producer, messages
from bench.servers import Measured, cpu_seconds, memory_bytes
from compat_tests.servers import answers


@attrs.frozen
class Figure:
    """One measured value. `better` is "more" or "less"."""

    row: str
    unit: str
    better: str
    value: float


@attrs.frozen
class Bench:
    """A server under measurement; `scale` multiplies the amount of data.

    `client` has the settings with which clients connect: in plain text, unless others are given.
    """

    server: Measured
    scale: float = 1.0
    client: Mapping[str, str] = attrs.field()

    @client.default
    def _plain(self) -> Mapping[str, str]:
        return {"bootstrap.servers": self.server.bootstrap}

    def topic(self, partitions: int = 1) -> str:
        """Create a topic with a unique name, and wait until it is usable."""
        name = f"bench-{uuid4().hex[:12]}"
        admin = AdminClient(dict(self.client))
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)
        return name

    def count(self, count: int) -> int:
        """Return `count`, scaled."""
        return max(int(count * self.scale), 100)


def start(bench: Bench) -> list[Figure]:
    """Measure from the start of the process to its first response; the process keeps running."""
    server = bench.server
    server.prepare()
    began = time.perf_counter()
    server.spawn()
    while not answers(server.port):
        if time.perf_counter() - began > 60:
            raise TimeoutError(f"{server.kind} did not answer:\n{server.log_tail()}")
        time.sleep(0.005)
    took = time.perf_counter() - began
    time.sleep(2)
    return [
        Figure("start to first answer", "s", "less", took),
        Figure("memory, idle", "MB", "less", memory_bytes(server) / 1e6),
    ]


def produce(bench: Bench, size: int, count: int) -> list[Figure]:
    """Measure librdkafka with linger 5 ms and acks=all, to one partition."""
    count = bench.count(count)
    topic = bench.topic()
    array, _payload = messages(count // 10, size)
    with Producer(bench.client, topic, linger_ms="5") as producer:
        producer.send(array, 1000)
        producer.flush()
        cpu, began = cpu_seconds(bench.server), time.perf_counter()
        for _ in range(10):
            producer.send(array)
        producer.flush()
        took = time.perf_counter() - began
        cpu = cpu_seconds(bench.server) - cpu
        sent = count // 10 * 10
        _check(producer.end_offset(), sent + min(1000, len(array)))
    if size < 1000:
        rate = Figure(f"produce {size} B", "M msg/s", "more", sent / took / 1e6)
        return [rate, Figure(f"produce {size} B, server CPU", "s per M", "less", cpu / sent * 1e6)]
    gigabytes = sent * size / 1e9
    return [
        Figure(f"produce {size} B", "MB/s", "more", gigabytes * 1000 / took),
        Figure(f"produce {size} B, server CPU", "s per GB", "less", cpu / gigabytes),
    ]


def consume(bench: Bench) -> list[Figure]:
    """Measure librdkafka reading 100 B messages that were just written."""
    count = bench.count(2_000_000)
    topic = bench.topic()
    array, _payload = messages(count // 10, 100)
    with Producer(bench.client, topic, linger_ms="5") as producer:
        for _ in range(10):
            producer.send(array)
        producer.flush()
        sent = count // 10 * 10
        _check(producer.end_offset(), sent)
    with Consumer(bench.client, topic) as consumer:
        cpu, began = cpu_seconds(bench.server), time.perf_counter()
        if consumer.count(sent) < sent:
            raise RuntimeError(f"not all of {sent} messages could be read")
        took = time.perf_counter() - began
        cpu = cpu_seconds(bench.server) - cpu
    return [
        Figure("consume 100 B", "M msg/s", "more", sent / took / 1e6),
        Figure("consume 100 B, server CPU", "s per M", "less", cpu / sent * 1e6),
    ]


def small_requests(bench: Bench, producers: int, count: int) -> list[Figure]:
    """Measure one record per request, pipelined without a limit in flight, for each producer."""
    each = bench.count(count) // producers
    topic = bench.topic()
    array, _payload = messages(each, 100)
    config = {"linger_ms": "0", "batch_num_messages": "1"}
    clients = [Producer(bench.client, topic, **config) for _ in range(producers)]
    try:
        for client in clients:
            client.send(array, 5)
        for client in clients:
            client.flush()
        cpu, began = cpu_seconds(bench.server), time.perf_counter()
        for client in clients:
            client.send(array)
        for client in clients:
            client.flush()
        took = time.perf_counter() - began
        cpu = cpu_seconds(bench.server) - cpu
        _check(clients[0].end_offset(), producers * (each + 5))
    finally:
        for client in clients:
            client.__exit__(None, None, None)
    sent = each * producers
    who = "1 producer" if producers == 1 else f"{producers} producers"
    return [
        Figure(f"1 record a request, {who}", "k req/s", "more", sent / took / 1e3),
        Figure(f"1 record a request, {who}, server CPU", "µs each", "less", cpu / sent * 1e6),
    ]


def ack_latency(bench: Bench) -> list[Figure]:
    """Measure from produce() to the delivery report, one record in flight."""
    topic = bench.topic()
    producer = PyProducer({**bench.client, "linger.ms": 0})
    times: list[float] = []
    for _ in range(bench.count(4000)):
        acked: list[float] = []

        def report(error: object, _message: object, acked: list[float] = acked) -> None:
            if error is not None:
                raise RuntimeError(str(error))
            acked.append(time.perf_counter())

        began = time.perf_counter()
        producer.produce(topic, b"x" * 100, partition=0, on_delivery=report)
        while not acked:
            producer.poll(1)
        times.append(acked[0] - began)
    return _latencies("ack latency", times)


def end_to_end_latency(bench: Bench) -> list[Figure]:
    """Measure from produce() to the consumer's poll, one record in flight."""
    topic = bench.topic()
    producer = PyProducer({**bench.client, "linger.ms": 0})
    consumer = PyConsumer(
        {**bench.client, "group.id": topic, "enable.auto.commit": False, "fetch.wait.max.ms": 500}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    times: list[float] = []
    for number in range(bench.count(3000) + 20):
        began = time.perf_counter()
        producer.produce(topic, b"%d" % number, partition=0)
        while (message := consumer.poll(1)) is None:
            producer.poll(0)
        took = time.perf_counter() - began
        if message.value() != b"%d" % number:
            raise RuntimeError(f"read {message.value()!r} where {number} was written")
        producer.poll(0)
        if number >= 20:
            times.append(took)
    consumer.close()
    return _latencies("produce-to-consume latency", times)


def many_partitions(bench: Bench) -> list[Figure]:
    """Measure a topic of 1,000 partitions, and the first record in each."""
    began = time.perf_counter()
    topic = bench.topic(1000)
    created = time.perf_counter() - began
    producer = PyProducer({**bench.client, "linger.ms": 5})
    producer.list_topics(topic, 10)
    failed: list[object] = []

    def report(error: object, _message: object) -> None:
        if error is not None:
            failed.append(error)

    began = time.perf_counter()
    for partition in range(1000):
        producer.produce(topic, b"x" * 100, partition=partition, on_delivery=report)
    producer.flush(120)
    written = time.perf_counter() - began
    if failed:
        raise RuntimeError(str(failed[0]))
    return [
        Figure("create 1,000 partitions", "s", "less", created),
        Figure("first write to each of 1,000", "s", "less", written),
    ]


def used_memory(bench: Bench) -> list[Figure]:
    """Measure resident memory after all earlier rows."""
    time.sleep(1)
    return [Figure("memory, after the rows above", "MB", "less", memory_bytes(bench.server) / 1e6)]


ROWS: dict[str, Callable[[Bench], list[Figure]]] = {
    "start": start,
    "produce-100": lambda bench: produce(bench, 100, 2_000_000),
    "produce-1000": lambda bench: produce(bench, 1000, 1_000_000),
    "consume": consume,
    "small-1": lambda bench: small_requests(bench, 1, 40_000),
    "small-50": lambda bench: small_requests(bench, 50, 50_000),
    "ack": ack_latency,
    "end-to-end": end_to_end_latency,
    "memory": used_memory,
    "partitions": many_partitions,
}
WARM_UP = ("produce-100", "small-1", "small-50", "consume", "ack")
"""Run shortly before anything counts, so that a just-in-time compiler has compiled."""


def _latencies(row: str, times: list[float]) -> list[Figure]:
    return [
        Figure(f"{row}, p50", "ms", "less", median(times) * 1000),
        Figure(f"{row}, p99", "ms", "less", quantiles(times, n=100)[98] * 1000),
    ]


def _check(found: int, expected: int) -> None:
    if found != expected:
        raise RuntimeError(f"{expected} messages were sent, {found} are there")
