"""Ack latency with and without a running cleaner: `python -m bench.log_compaction [--mb 200]`.

A compacted topic is filled; then one producer writes to another topic, one record in flight, first
on an idle node, then while the helper process compacts.
"""

import argparse
import statistics
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, NewTopic, ResourceType
from confluent_kafka.admin import AlterConfigOpType as Operation

from barnabas.testing.node_process_control import NodeProcess

KEYS = 20_000
VALUE = b"." * 200
STARTED = "started helper process kind=cleaning"


def fill(bootstrap: str, megabytes: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 10})
    for number in range(megabytes * 1_000_000 // len(VALUE)):
        while True:
            try:
                producer.produce("table", VALUE, key=b"%d" % (number * 7919 % KEYS))
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush(60)


def latencies_ms(bootstrap: str, until: float, process: NodeProcess | None = None) -> list[float]:
    """Write one record after another, until the time is up or the cleaner is done."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    found: list[float] = []
    while time.monotonic() < until:
        if process is not None and any("compacted log=" in line for line in process.log):
            break
        began = time.perf_counter()
        producer.produce("other", b"x" * 100)
        producer.flush(10)
        found.append((time.perf_counter() - began) * 1000)
    return found[20:]


def tell(what: str, found: list[float]) -> None:
    cuts = statistics.quantiles(found, n=100)
    print(f"{what:24} p50 {cuts[49]:.2f} ms  p99 {cuts[98]:.2f} ms  of {len(found)} records")


def resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=200)
    arguments = parser.parse_args()
    with NodeProcess(config={"log.cleaner.backoff.ms": "500"}) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        lazy = {"cleanup.policy": "compact", "segment.bytes": "16777216"}
        table = NewTopic("table", 1, 1, config={**lazy, "min.cleanable.dirty.ratio": "1.0"})
        for future in admin.create_topics([table, NewTopic("other", 1, 1)]).values():
            future.result(10)
        fill(node.bootstrap, arguments.mb)
        tell("nothing else", latencies_ms(node.bootstrap, time.monotonic() + 5))
        entry = ConfigEntry("min.cleanable.dirty.ratio", "0.1", incremental_operation=Operation.SET)
        resource = ConfigResource(ResourceType.TOPIC, "table", incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(10)
        while not any(STARTED in line for line in node.log):
            time.sleep(0.01)
        tell("while it compacts", latencies_ms(node.bootstrap, time.monotonic() + 120, node))
        [started] = [line for line in node.log if STARTED in line]
        helper = int(started.rsplit("pid=", 1)[1])
        print(f"helper process: at most {resident_mb(helper):.0f} MB")
        print(next(line for line in node.log if "compacted log=" in line).strip())


if __name__ == "__main__":
    main()
