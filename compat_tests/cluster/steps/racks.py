"""Step 14: consumers read from the follower in their rack; it is killed under them."""

import json
import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError

from compat_tests.cluster import observation
from compat_tests.cluster.background_load import BackgroundLoad
from compat_tests.cluster.clusters import BarnabasCluster
from compat_tests.cluster.pinger import Pinger, read_all
from compat_tests.cluster.steps.trial import (
    Figure,
    check_ledger,
    create_topic,
    percentile,
    wait_in_sync,
)

_RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_FALLBACK_S = 60.0


class RackedCluster(BarnabasCluster):
    """`barnabas serve` processes, each in its own rack."""

    def __init__(
        self, config: Mapping[str, str] | None = None, nodes: int = 3, voters: int | None = None
    ) -> None:
        super().__init__({**(config or {}), "replica.selector.class": _RACK_AWARE}, nodes, voters)
        for node_id, node in self.processes.nodes.items():
            node.config["broker.rack"] = rack(node_id)


def rack(node_id: int) -> str:
    """Return the rack of a node."""
    return f"rack-{node_id}"


class RackReader(BackgroundLoad):
    """A consumer with `client.rack`; the bytes that it gets from each broker, and what it reads."""

    def __init__(self, bootstrap: str, topic: str, rack_id: str) -> None:
        self.read: dict[int, str] = {}
        self.read_at: dict[str, float] = {}
        self.errors: list[str] = []
        self._bytes: dict[int, int] = {}
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"{topic}-{rack_id}",
                "client.rack": rack_id,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "statistics.interval.ms": 100,
                "stats_cb": self._count,
                "log_level": 0,
            }
        )
        super().__init__()

    @property
    def bytes_from(self) -> dict[int, int]:
        """The bytes of fetched messages so far, by broker."""
        return dict(self._bytes)

    def _count(self, statistics: str) -> None:
        found: dict[int, int] = {}
        for broker in json.loads(statistics)["brokers"].values():
            if broker["nodeid"] > 0 and broker["source"] != "logical":
                found[broker["nodeid"]] = found.get(broker["nodeid"], 0) + broker["rxbytes"]
        self._bytes = found

    def _run(self) -> None:
        self._consumer.subscribe([self._topic])
        try:
            while not self._stopping.is_set():
                for message in self._consumer.consume(500, 0.1):
                    error = message.error()
                    if error is None:
                        value = message.value().decode()
                        self.read[message.offset()] = value
                        self.read_at[value] = time.monotonic()
                    elif error.code() != KafkaError._PARTITION_EOF:
                        self.errors.append(str(error))
        finally:
            self._consumer.close()

    def wait_for(self, count: int, timeout_s: float = 60) -> None:
        """Wait until this number of records is read."""
        observation.seconds_until(lambda: len(self.read) >= count, timeout_s)


def follower_reads(cluster: BarnabasCluster, seconds: float) -> list[Figure]:
    """Step 14: a consumer reads from the follower in its rack, and from the leader when that dies.

    It reads each record once at its offset, nothing that was not committed, and no error surfaces.
    """
    topic = create_topic(cluster, 1, leader=1)
    follower = next(each for each in cluster.nodes if each != 1)
    with (
        Pinger(cluster.bootstrap, topic, 1) as pinger,
        RackReader(cluster.bootstrap, topic, rack(follower)) as reader,
    ):
        reader.wait_for(100)
        time.sleep(1)
        before, since = reader.bytes_from, time.monotonic()
        time.sleep(seconds)
        share = _share(before, reader.bytes_from, follower)
        lags = _lags(pinger, reader, since)
        cluster.nodes[follower].kill()
        killed = time.monotonic()
        fallback = observation.seconds_until(
            lambda: any(at > killed + 0.2 for at in list(reader.read_at.values())[-100:]),
            _FALLBACK_S,
        )
        cluster.nodes[follower].start()
        wait_in_sync(cluster, topic)
        pinger.stop()
        reader.wait_for(len(pinger.ledger.acked))
    check_ledger(cluster, pinger)
    stored = {offset: value for _, offset, value in read_all(cluster.bootstrap, topic, 1)}
    assert reader.read == stored, "the consumer did not read the committed records"
    assert not reader.errors, reader.errors[:3]
    assert share > 0.9, f"{share:.0%} of the bytes came from the follower in the consumer's rack"
    return [
        Figure("racks: share of the bytes from the follower", "%", share * 100),
        Figure("racks: produce to consume through the follower, p50", "ms", lags[0]),
        Figure("racks: produce to consume through the follower, p99", "ms", lags[1]),
        Figure("racks: reading again after the follower's kill", "s", fallback),
    ]


def _share(before: dict[int, int], after: dict[int, int], node_id: int) -> float:
    grown = {each: after[each] - before.get(each, 0) for each in after}
    return grown[node_id] / sum(grown.values())


def _lags(pinger: Pinger, reader: RackReader, since: float) -> tuple[float, float]:
    """Return p50 and p99 of the milliseconds from the send of a record to its read."""
    lags = sorted(
        (reader.read_at[ack.value] - ack.at + ack.latency_s) * 1000
        for ack in list(pinger.acks[0])
        if ack.at > since and ack.value in reader.read_at
    )
    return percentile(lags, 0.5), percentile(lags, 0.99)
