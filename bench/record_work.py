"""The cost of record-level work for other clients: `python -m bench.record_work [--kafka]`.

One client sends compressed batches of 1 MB of records, one request in flight, to a topic that has
another codec or is compacted, or requests timestamps inside such batches. Another client writes
small records to an ordinary topic, one at a time; the table shows the latency of its acks, and the
server's CPU and memory.
"""

import argparse
import multiprocessing
import random
import statistics
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.protocol.messages.produce import ProduceRequest
from bench.servers import Barnabas, Kafka, Measured, children, cpu_seconds, cpu_seconds_of
from compat_tests.servers import answers
from compat_tests.wire import Connection

BATCH_BYTES = 1_000_000
RECORD_BYTES = 200
SECONDS = 6.0
PRODUCE_VERSION, LIST_OFFSETS_VERSION = 9, 7
SPAWN = multiprocessing.get_context("spawn")
NOW_MS = int(time.time() * 1000)
# In the second half of a batch.
LATE_MS = NOW_MS + BATCH_BYTES // RECORD_BYTES * 3 // 4

TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "recoded": {"compression.type": "lz4"},
    "table": {"cleanup.policy": "compact"},
}
LOADS: tuple[tuple[str, str | None, Codec | None], ...] = (
    ("nothing else", None, None),
    ("zstd, kept as it is", "plain", Codec.ZSTD),
    ("gzip to lz4", "recoded", Codec.GZIP),
    ("zstd to lz4", "recoded", Codec.ZSTD),
    ("gzip, compacted topic", "table", Codec.GZIP),
    ("zstd, compacted topic", "table", Codec.ZSTD),
    ("times inside zstd", "plain", None),
)


def big_batch(codec: Codec) -> bytearray:
    """1 MB of records of words, which compress to about a third."""
    chosen = random.Random(1)
    words = [bytes(chosen.choices(b"abcdefghijklmnop", k=6)) for _ in range(300)]
    values = (b" ".join(chosen.choices(words, k=RECORD_BYTES // 7)) for _ in range(1 << 30))
    count = BATCH_BYTES // RECORD_BYTES
    records = [Record(n, NOW_MS + n, b"key-%d" % n, next(values)) for n in range(count)]
    return build_batch(records, codec=codec)


def ask_forever(bootstrap: str, topic: str, what: bytes | int, sent: Any) -> None:
    """Send a batch, or a timestamp (ms), repeatedly, one at a time; count in `sent`."""
    with Connection(bootstrap) as connection:
        while True:
            if isinstance(what, int):
                moment = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=what)
                asked = ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[moment])
                request = ListOffsetsRequest(replica_id=-1, topics=[asked])
                found = connection.call(request, LIST_OFFSETS_VERSION).topics[0].partitions[0]
                if found.offset < 0:
                    raise RuntimeError(f"not found: {found}")
            else:
                data = ProduceRequest.PartitionProduceData(index=0, records=what)
                to = ProduceRequest.TopicProduceData(name=topic, partition_data=[data])
                request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[to])
                answer = connection.call(request, PRODUCE_VERSION)
                if answer.responses[0].partition_responses[0].error_code:
                    raise RuntimeError(f"refused: {answer}")
            sent.value += 1


def latencies_ms(bootstrap: str) -> list[float]:
    """Write one record after another for a while."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    found: list[float] = []
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        began = time.perf_counter()
        producer.produce("other", b"x" * 100)
        producer.flush(10)
        found.append((time.perf_counter() - began) * 1000)
    return found[20:]


def all_cpu_seconds(server: Measured) -> tuple[float, float]:
    """Return the CPU time of the server and of its living children."""
    return cpu_seconds(server), sum(map(cpu_seconds_of, children(server.pid)))


def peak_mb(pid: int) -> float:
    """Return the maximum resident memory of the process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def measure(server: Measured, name: str, topic: str | None, what: bytes | int) -> None:
    """Print one line of the table: the load alone, then with the other client."""
    if topic is None:
        tell(name, latencies_ms(server.bootstrap), "")
        return
    sent = SPAWN.Value("L", 0)
    arguments = (server.bootstrap, topic, what, sent)
    load = SPAWN.Process(target=ask_forever, args=arguments, daemon=True)
    load.start()
    try:
        while not sent.value:
            if not load.is_alive():
                raise RuntimeError("the load did not start")
            time.sleep(0.05)
        time.sleep(1)
        count, cpu, began = sent.value, all_cpu_seconds(server), time.perf_counter()
        time.sleep(SECONDS / 2)
        took = time.perf_counter() - began
        count = sent.value - count
        own, helper = (
            1000 * (after - before) / count
            for after, before in zip(all_cpu_seconds(server), cpu, strict=True)
        )
        cost = f"{count / took:6.1f} a second alone, CPU {own:.1f} + {helper:.1f} ms each"
        tell(name, latencies_ms(server.bootstrap), cost)
    finally:
        load.kill()
        load.join()


def tell(name: str, found: list[float], cost: str) -> None:
    cuts = statistics.quantiles(found, n=100)
    acks = f"ack p50 {cuts[49]:6.2f}  p99 {cuts[98]:6.2f}  max {max(found):6.1f} ms"
    print(f"{name:22} {acks}   {cost}", flush=True)


def run(server: Measured) -> None:
    """Start the server, and measure each load."""
    print(f"\n{server.kind}")
    server.prepare()
    server.spawn()
    try:
        while not answers(server.port):
            time.sleep(0.05)
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        topics = [NewTopic(name, 1, 1, config=config) for name, config in TOPICS.items()]
        for future in admin.create_topics([*topics, NewTopic("other", 1, 1)]).values():
            future.result(30)
        latencies_ms(server.bootstrap)
        for name, topic, codec in LOADS:
            what = LATE_MS if codec is None else bytes(big_batch(codec))
            measure(server, name, topic, what)
        for pid in children(server.pid):
            print(f"helper process: at most {peak_mb(pid):.0f} MB")
    finally:
        server.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kafka", action="store_true", help="measure Apache Kafka too")
    arguments = parser.parse_args()
    run(Barnabas())
    if arguments.kafka:
        run(Kafka())


if __name__ == "__main__":
    main()
