"""A deposed leader gives up its unacknowledged records, and all replicas are equal as files."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing.process import ClusterProcess

pytestmark = [pytest.mark.barnabas_only, pytest.mark.timeout(300)]

TOPIC = "t"
UNACKED = 1000
# A killed broker's session ends soon, so that a test does not wait for it.
CONFIG = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


@pytest.fixture
def cluster() -> Iterator[ClusterProcess]:
    with ClusterProcess(3, config=CONFIG) as running:
        yield running


def wait_for(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition does not hold in time"
        time.sleep(0.1)


def create(cluster: ClusterProcess) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 3, config={"min.insync.replicas": "1"})])[TOPIC].result(
        60
    )


def leader_and_isr(cluster: ClusterProcess, *, of: int = 0) -> tuple[int, list[int]]:
    """Return the leader and the ISR as one node (0: any) has them; -1 while it does not answer."""
    bootstrap = cluster.nodes[of].bootstrap if of else cluster.bootstrap
    try:
        found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(TOPIC, timeout=5)
    except KafkaException:
        return -1, []
    partition = found.topics[TOPIC].partitions.get(0)
    return (-1, []) if partition is None else (partition.leader, sorted(partition.isrs))


def produce(bootstrap: str, prefix: str, count: int, acks: str) -> dict[int, bytes]:
    """Produce records; return the acknowledged ones by offset."""
    acked: dict[int, bytes] = {}

    def delivered(error: object, message: Message) -> None:
        offset, value = message.offset(), message.value()
        if error is None and offset is not None and isinstance(value, bytes):
            acked[offset] = value

    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 5})
    for number in range(count):
        producer.produce(TOPIC, f"{prefix}-{number:05}".encode(), on_delivery=delivered)
        if number % 100 == 0:
            producer.flush(60)
    producer.flush(60)
    return acked


def files(cluster: ClusterProcess, node: int) -> tuple[bytes, bytes]:
    """Return the records of a replica, and its leader epochs."""
    directory: Path = cluster.nodes[node].data / f"{TOPIC}-0"
    segments = sorted(directory.glob("*.log"))
    records = b"".join(segment.read_bytes() for segment in segments)
    return records, (directory / "leader-epoch-checkpoint").read_bytes()


def test_deposed_leader_truncates_its_unacknowledged_records(cluster: ClusterProcess) -> None:
    create(cluster)
    acked = produce(cluster.bootstrap, "before", 300, "all")
    wait_for(lambda: leader_and_isr(cluster)[1] == [1, 2, 3])
    leader, _ = leader_and_isr(cluster)
    old = cluster.nodes[leader]
    others = [node for number, node in cluster.nodes.items() if number != leader]
    for node in others:
        node.suspend()
    produce(old.bootstrap, "unacked", UNACKED, "1")
    old.kill()
    for node in others:
        node.resume()
    wait_for(lambda: leader_and_isr(cluster)[0] not in (-1, leader))
    acked |= produce(cluster.bootstrap, "after", 300, "all")
    old.start()
    wait_for(lambda: leader_and_isr(cluster)[1] == [1, 2, 3])
    cluster.kill_all()  # not stopped: that would elect leaders, and begin their epochs

    assert any("truncating to the leader's log" in line for line in old.log)
    replicas = [files(cluster, number) for number in cluster.nodes]
    assert replicas.count(replicas[0]) == len(replicas)
    records = replicas[0][0]
    assert records.count(b"unacked-") < UNACKED
    assert len(acked) == 600
    assert [value for value in acked.values() if records.count(value) != 1] == []
