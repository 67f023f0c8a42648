"""A reassignment under load: the new replica keeps the throttled rate, and writes do not wait."""

import threading
import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from barnabas.testing.process import ClusterProcess
from compat_tests.wire import Connection

pytestmark = [pytest.mark.barnabas_only, pytest.mark.timeout(120)]

TOPIC = "moved"
RATE = 2_000_000
RECORD = bytes(1000)
RECORDS = 8000
SOURCE, TARGET = 1, 2
TOPIC_CONFIG, BROKER_CONFIG = 2, 4


def configure(cluster: ClusterProcess, kind: int, name: str, key: str, value: str) -> None:
    """Set a property; a broker takes its own."""
    asked = IncrementalAlterConfigsRequest
    resource = asked.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[asked.AlterableConfig(name=key, config_operation=0, value=value)],
    )
    with Connection(cluster.nodes[TARGET].bootstrap) as connection:
        answer = connection.call(asked(resources=[resource]), 1)
    assert [each.error_code for each in answer.responses] == [0]


def fill(cluster: ClusterProcess) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = NewTopic(TOPIC, 1, replica_assignment=[[SOURCE]])
    admin.create_topics([new])[TOPIC].result(20)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5})
    for _ in range(RECORDS):
        producer.produce(TOPIC, RECORD)
    assert producer.flush(30) == 0


class Load:
    """One record after the other, while the block runs; `waits` are their seconds."""

    def __init__(self, bootstrap: str) -> None:
        self.waits: list[float] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._ended.wait(0.01):
            started = time.monotonic()
            self._producer.produce(TOPIC, RECORD)
            assert self._producer.flush(30) == 0
            self.waits.append(time.monotonic() - started)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def reassign(cluster: ClusterProcess) -> float:
    """Move the partition from its only replica to another broker; return the seconds."""
    asked = AlterPartitionReassignmentsRequest
    partition = asked.ReassignablePartition(partition_index=0, replicas=[TARGET])
    request = asked(topics=[asked.ReassignableTopic(name=TOPIC, partitions=[partition])])
    listing = ListPartitionReassignmentsRequest(timeout_ms=10_000, topics=None)
    with Connection(cluster.nodes[TARGET].bootstrap) as connection:
        started = time.monotonic()
        answer = connection.call(request, 0)
        assert answer.responses[0].partitions[0].error_code == 0
        while connection.call(listing, 0).topics:
            assert time.monotonic() < started + 30
            time.sleep(0.05)
        return time.monotonic() - started


def test_throttled_reassignment_keeps_its_rate_under_load() -> None:
    with ClusterProcess(3) as cluster:
        fill(cluster)
        configure(cluster, TOPIC_CONFIG, TOPIC, "follower.replication.throttled.replicas", "*")
        configure(
            cluster, BROKER_CONFIG, str(TARGET), "follower.replication.throttled.rate", str(RATE)
        )
        with Load(cluster.bootstrap) as load:
            taken_s = reassign(cluster)
        size = (RECORDS + len(load.waits)) * len(RECORD)
        assert 0.75 < taken_s / (size / RATE) < 1.5
        assert sorted(load.waits)[len(load.waits) // 2] < 0.1
        assert max(load.waits) < 2
