"""Apache Kafka starts on a directory with mirrored logs, and reads the records that barnabas reads.

The offsets have gaps, and the log has markers and aborted transactions of another cluster.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.config.mirror_topics import PROMOTED, SOURCE
from barnabas.protocol.batches.compression import Codec
from barnabas.testing import Node
from barnabas.testing.batches import batch, marker
from barnabas.testing.mirrored import emptied, placed
from compat_tests import jars
from compat_tests.servers import KafkaProcess
from tests.server import mirror_flow as flow

pytestmark = [jars.needed, pytest.mark.barnabas_only]

SOURCE_LOG = [
    placed(batch(b"a", b"b", producer=(3, 0, 7), codec=Codec.LZ4), 1004),
    placed(batch(b"aborted", producer=(2000, 6, 5), transactional=True), 1010),
    placed(batch(b"c", producer=(2001, 1, 50), transactional=True), 1011),
    placed(marker(2000, 6, commit=False), 1012),
    emptied(placed(batch(b"gone", producer=(3, 0, 9)), 1015)),
    placed(marker(2001, 1, commit=True), 1020),
    placed(batch(b"open", producer=(2002, 9, 3), transactional=True), 1021),
]
START = 1000


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaProcess]:
    """Return Apache Kafka on a directory that survives it, not started."""
    process = KafkaProcess({})
    process.data = tmp_path / "data"
    yield process
    process.close()


def barnabas(kafka: KafkaProcess) -> Node:
    addresses = f"PLAINTEXT://{kafka.bootstrap},CONTROLLER://127.0.0.1:{kafka.controller_port}"
    return Node(kafka.data, {"listeners": addresses})


def records(bootstrap: str, topic: str, isolation: str) -> list[tuple[int, bytes]]:
    """Return offset and value of each record that a consumer reads."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, START)])
    found: list[tuple[int, bytes]] = []
    while True:
        message = consumer.poll(60)
        assert message is not None
        if message.error():
            consumer.close()
            return found
        found.append((message.offset(), message.value()))


def all_records(bootstrap: str) -> dict[tuple[str, str], list[tuple[int, bytes]]]:
    return {
        (topic, isolation): records(bootstrap, topic, isolation)
        for topic in ("mirror", "promoted")
        for isolation in ("read_uncommitted", "read_committed")
    }


def test_kafka_reads_mirrored_logs_after_a_kill_and_barnabas_again(kafka) -> None:
    with barnabas(kafka) as node:
        for topic in ("mirror", "promoted"):
            assert flow.create_mirror(node.bootstrap, topic) == 0
            assert flow.start_at(node.bootstrap, START, topic) == (0, START)
            answer = flow.copy(node.bootstrap, SOURCE_LOG, START, topic)
            assert answer.error_code == 0, answer.error_message
        flow.promote(node.bootstrap, "promoted")
        producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True})
        producer.produce("promoted", b"own")
        assert producer.flush(60) == 0
        before = all_records(node.bootstrap)
        node.kill()
    assert before["mirror", "read_committed"] == [(1004, b"a"), (1005, b"b"), (1011, b"c")]
    assert before["mirror", "read_uncommitted"][-1] == (1021, b"open")
    assert before["promoted", "read_committed"][-1][1] == b"own"
    kafka.start()
    assert all_records(kafka.bootstrap) == before
    kafka.stop()
    with barnabas(kafka) as node:
        assert all_records(node.bootstrap) == before
        assert flow.copy(node.bootstrap, SOURCE_LOG, START, "mirror").error_code == 0
        assert node.server is not None
        image = node.server.image
        assert image.topic_config("mirror") == {SOURCE: flow.FLOW}
        assert image.topic_config("promoted") == {PROMOTED: f"{flow.FLOW}:1"}
