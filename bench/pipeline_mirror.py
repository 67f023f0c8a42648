"""The rows of `bench.pipeline` with mirrors: a flow of our runner, and MirrorMaker 2.

The worker runs at the target, and has mirrored other topics before. MirrorMaker 2 assigns offsets
in all rows, and runs as it does by default, at least once; where a row says so exactly once, with a
transaction for each of its polls. It keeps the names of topics (`IdentityReplicationPolicy`).
"""

import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.testing.batches import batch
from barnabas.testing.mirrored import as_sent, placed
from bench.pipeline_connectors import WARM_RECORDS, Figures, Measurement
from bench.pipeline_contenders import ConnectJava, OurWorker, cpu_s, create, memory_mb
from bench.pipeline_topics import PARTITIONS, topics, wait_end
from compat_tests import jars
from compat_tests.pipeline.connect_workers import ConnectWorker
from compat_tests.servers import BarnabasProcess
from compat_tests.wire import CLIENT_ID, Connection

RATE = 20_000
RATE_S = 20.0
_SETTLE_S = 5.0
_TICK_S = 0.01
_BATCH_RECORDS = 1_000
_PRODUCE_BLOCKS, _BLOCK_BATCHES = 10, 960
_FLOW_BATCHES = 16
"""Batches of one request of a flow, for batches of about 8 KB; a fetch returns more of them."""
_PRODUCE_VERSION = 9
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


class MirrorMakerWorker(ConnectJava):
    """Java's Connect with MirrorMaker 2's connector, without transactions."""

    plugins = jars.CONNECTORS.parent

    def command(self) -> list[str]:
        command = super().command()
        file = Path(command[-1])
        setting = "exactly.once.source.support="
        file.write_text(file.read_text().replace(f"{setting}enabled", f"{setting}disabled"))
        return command


class ExactMirrorMaker(ConnectJava):
    """Java's Connect with MirrorMaker 2's connector, with transactions."""

    plugins = jars.CONNECTORS.parent


def flow_config(source: str, topic: str, offsets: str) -> dict[str, str]:
    """Return the configuration of a flow."""
    return {
        "connector.class": "barnabas.MirrorConnector",
        "topics": topic,
        "offsets": offsets,
        "source.bootstrap.servers": source,
    }


def mirror_maker_config(source: str, target: str, topic: str) -> dict[str, str]:
    """Return the configuration of MirrorMaker 2's connector."""
    return {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "tasks.max": "2",
        "topics": topic,
        "source.cluster.alias": "source",
        "target.cluster.alias": "target",
        "source.cluster.bootstrap.servers": source,
        "target.cluster.bootstrap.servers": target,
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "sync.topic.acls.enabled": "false",
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        "producer.override.compression.type": "lz4",
    }


def start_mirror(worker: ConnectWorker, source: str, topic: str, offsets: str) -> None:
    """Have a worker mirror a topic."""
    config = flow_config(source, topic, offsets)
    if isinstance(worker, ConnectJava):
        config = mirror_maker_config(source, worker.bootstrap, topic)
    if isinstance(worker, ExactMirrorMaker):
        config |= {"exactly.once.support": "required", "transaction.boundary": "poll"}
        config["source.consumer.isolation.level"] = "read_committed"
    create(worker, topic, config)


@contextmanager
def pair(contender: type[ConnectWorker], target: str) -> Iterator[tuple[str, ConnectWorker, int]]:
    """Start a source, and a worker at the target; yield the source's address, worker and pid."""
    source = BarnabasProcess()
    with tempfile.TemporaryDirectory() as directory:
        worker = contender(target, Path(directory), "bench")
        try:
            source.start()
            worker.start()
            assert worker.process is not None
            yield source.bootstrap, worker, worker.process.pid
        finally:
            worker.stop()
            source.close()


def fill(bootstrap: str, topic: str, size: int, count: int) -> None:
    """Write records of one size to all partitions of a new topic, with lz4."""
    topics(bootstrap, topic)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "acks": "all", "compression.type": "lz4"}
    )
    for number in range(count):
        while True:
            try:
                producer.produce(topic, f"{number:0{size}d}", partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


def throughput(
    size: int, offsets: str, contender: type[ConnectWorker], target: str, count: int
) -> Figures:
    """Measure a mirror of a topic that is full when it begins."""
    with pair(contender, target) as (source, worker, pid):
        warm = min(WARM_RECORDS, count)
        for name, records in (("first", warm), ("second", count)):
            fill(source, name, size, records)
        start_mirror(worker, source, "first", offsets)
        wait_end(target, "first", warm)
        before_s, began = cpu_s(pid), time.monotonic()
        start_mirror(worker, source, "second", offsets)
        wait_end(target, "second", count)
        return {
            "warm k/s": count / (time.monotonic() - began) / 1000,
            "warm CPU s per M": (cpu_s(pid) - before_s) / count * 1_000_000,
            "memory MB": memory_mb(pid),
        }


def lag(offsets: str, contender: type[ConnectWorker], target: str, _: int) -> Figures:
    """Measure the time of each record, from its production until a consumer at the target has it.

    The records of the first seconds are not counted. The times until a consumer at the source has
    a record are measured before, without a mirror: no mirror can be below them.
    """
    with pair(contender, target) as (source, worker, pid):
        topics(source, "direct")
        direct_ms = delays_ms(source, source, "direct")
        fill(source, "first", 100, WARM_RECORDS)
        topics(source, "rate")
        for name in ("first", "rate"):
            start_mirror(worker, source, name, offsets)
        wait_end(target, "first", WARM_RECORDS)
        wait_end(target, "rate", 0)
        before_s = cpu_s(pid)
        times_ms = delays_ms(source, target, "rate")
        return {
            "p50 ms": percentile(times_ms, 0.5),
            "p99 ms": percentile(times_ms, 0.99),
            "p50 ms at the source": percentile(direct_ms, 0.5),
            "p99 ms at the source": percentile(direct_ms, 0.99),
            "CPU %": (cpu_s(pid) - before_s) / (_SETTLE_S + RATE_S) * 100,
        }


def percentile(ordered: Sequence[float], part: float) -> float:
    """Return the value below which a part of the ordered values is."""
    return ordered[int(len(ordered) * part)]


def delays_ms(source: str, target: str, topic: str) -> list[float]:
    """Write to a topic at the rate, and return the delays of a consumer at the target, ordered."""
    sender = threading.Thread(target=send_at_rate, args=(source, topic))
    sender.start()
    found = sorted(read_delays(target, topic, int(RATE * (_SETTLE_S + RATE_S))))
    sender.join()
    return found


def send_at_rate(bootstrap: str, topic: str) -> None:
    """Write records of 100 bytes with the time of their production."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": "lz4"})
    began = time.monotonic()
    for tick in range(round((_SETTLE_S + RATE_S) / _TICK_S)):
        time.sleep(max(0.0, began + tick * _TICK_S - time.monotonic()))
        value = f"{time.time_ns():0100d}"
        for number in range(round(RATE * _TICK_S)):
            producer.produce(topic, value, partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(60) == 0


def read_delays(bootstrap: str, topic: str, count: int) -> Iterator[float]:
    """Yield the delay in ms of each record behind the first seconds."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "lag", "fetch.wait.max.ms": 5})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found = 0
    while found < count:
        messages = consumer.consume(1_000, 0.001)
        now = time.time_ns()
        for message in messages:
            assert message.error() is None, message.error()
            found += 1
            if found > RATE * _SETTLE_S:
                yield (now - int(message.value() or b"")) / 1e6
    consumer.close()


def produce_batches(by_request: int, target: str, _: int) -> Figures:
    """Measure the requests of a flow, and of an ordinary producer of the same batches, in turn.

    They have acks=all, and go to two topics of one node, one request after the other. The flow
    sends `by_request` batches in each; a producer may send only one of a partition. The rates are
    those of the median requests.
    """
    records = [b"%0100d" % number for number in range(_BATCH_RECORDS)]
    now_ms = int(time.time() * 1000)
    data = batch(*records, codec=Codec.LZ4, timestamps=[now_ms] * _BATCH_RECORDS)
    admin = AdminClient({"bootstrap.servers": target})
    mirror = NewTopic("mirror", 1, 1, config={"barnabas.mirror.source": CLIENT_ID})
    for created in admin.create_topics([mirror, NewTopic("ordinary", 1, 1)]).values():
        created.result(30)
    times_s: dict[str, list[float]] = {"mirror": [], "ordinary": []}
    offset = 0
    with Connection(target) as connection:
        for topic in ("mirror", "ordinary") * _PRODUCE_BLOCKS:
            step = by_request if topic == "mirror" else 1
            for _ in range(0, _BLOCK_BATCHES, step):
                first = offset if topic == "mirror" else 0
                ends = range(first, first + step * _BATCH_RECORDS, _BATCH_RECORDS)
                request = _request(topic, as_sent([placed(data, each) for each in ends], first))
                began = time.monotonic()
                answer = connection.call(request, _PRODUCE_VERSION)
                times_s[topic].append((time.monotonic() - began) / step)
                assert answer.responses[0].partition_responses[0].error_code == 0, answer
                offset += step * _BATCH_RECORDS if topic == "mirror" else 0
    flow_s, ordinary_s = (statistics.median(times_s[topic]) for topic in ("mirror", "ordinary"))
    return {
        "k/s": _BATCH_RECORDS / flow_s / 1000,
        "ordinary k/s": _BATCH_RECORDS / ordinary_s / 1000,
        "flow / ordinary": ordinary_s / flow_s,
    }


def _request(topic: str, records: bytearray) -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(index=0, records=records)
    produced = ProduceRequest.TopicProduceData(name=topic, partition_data=[data])
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[produced])


def _of_mirrors(run: Callable[[type[ConnectWorker], str, int], Figures]) -> dict[str, Measurement]:
    return {"barnabas": partial(run, OurWorker), "MirrorMaker 2": partial(run, MirrorMakerWorker)}


def rows() -> dict[str, dict[str, Measurement]]:
    """Return the measurements by row and contender."""
    found: dict[str, dict[str, Measurement]] = {}
    for offsets in ("identical", "assigned"):
        for title, size in (("100 B lz4", 100), ("1 kB", 1_000)):
            name = f"mirror, {offsets} offsets, {title}"
            found[name] = _of_mirrors(partial(throughput, size, offsets))
        found[f"lag of a mirror, {offsets} offsets, {RATE:,} records/s"] = _of_mirrors(
            partial(lag, offsets)
        )
        if offsets == "assigned":
            found[f"lag of a mirror, {offsets} offsets, {RATE:,} records/s"][
                "MirrorMaker 2, exactly once"
            ] = partial(lag, offsets, ExactMirrorMaker)
    for title, by_request in (("1 batch", 1), (f"{_FLOW_BATCHES} batches", _FLOW_BATCHES)):
        found[f"produce to a mirror, {title} a request, 1,000 records of 100 B lz4 each"] = {
            "barnabas": partial(produce_batches, by_request)
        }
    return found
