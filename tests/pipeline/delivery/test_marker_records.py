"""Markers in the topic JOB-epochs, against a node."""

import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.pipeline.delivery.driver import group_offsets
from barnabas.pipeline.delivery.driver.group_offsets import GroupOffsetsError
from barnabas.pipeline.delivery.micro_batches import marker_records, micro_batch_removal
from barnabas.pipeline.delivery.micro_batches.marker_records import MarkerRecord, decode, newest
from barnabas.pipeline.delivery.micro_batches.micro_batch_markers import Marker
from barnabas.pipeline.delivery.plan.kafka_properties import for_librdkafka
from barnabas.pipeline.delivery.writing.transactional_producer import committed, offset_reader
from barnabas.testing import Node


def record(batch: int) -> MarkerRecord:
    return MarkerRecord(Marker(batch + 1, "query", f"digest-{batch}"), {"t": "id"})


def create(node: Node, topic: str, partitions: int = 2) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    new = NewTopic(topic, partitions, 1, config=marker_records.TOPIC_CONFIG)
    admin.create_topics([new])[topic].result(30)
    return admin


def write(node: Node, topic: str, batches: range, aborted: int = 0) -> None:
    """Write markers to partition 1, each in a transaction, and then transactions that abort."""
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for batch in batches:
        producer.begin_transaction()
        producer.produce(topic, record(batch).encode(), b"1", 1)
        producer.commit_transaction(30)
    for _ in range(aborted):
        producer.begin_transaction()
        producer.produce(topic, record(99).encode(), b"1", 1)
        producer.flush(30)
        producer.abort_transaction(30)


@pytest.mark.parametrize("aborted", [0, 30])
def test_newest_committed_marker_is_found(node: Node, aborted: int) -> None:
    topic = f"job-{aborted}-epochs"
    create(node, topic)
    properties = {"bootstrap.servers": node.bootstrap}
    assert newest(properties, topic, range(2)) == []
    write(node, topic, range(20), aborted)
    assert newest(properties, topic, range(2)) == [record(19)]


@pytest.mark.parametrize("value", [None, b"", b"[]", b"{}", b"{", b'{"next_epoch":"x"}', b"7"])
def test_value_without_a_marker_is_ignored(value: bytes | None) -> None:
    assert decode(value) is None


def test_forget_removes_markers_offsets_and_checkpoint(node: Node, tmp_path) -> None:
    admin = create(node, "counts-epochs")
    create(node, "counts-source")
    write(node, "counts-epochs", range(3))
    properties = {"bootstrap.servers": node.bootstrap}
    reader = offset_reader("counts", properties)
    reader.commit(offsets=[TopicPartition("counts-source", 0, 5)], asynchronous=False)
    (tmp_path / "counts" / "offsets").mkdir(parents=True)
    for _ in range(2):  # a second time there is nothing to remove
        micro_batch_removal.forget("counts", "counts", properties, str(tmp_path / "counts"))
    assert list((tmp_path / "counts").iterdir()) == []
    assert "counts-epochs" not in admin.list_topics(timeout=60).topics
    assert committed(reader, [("counts-source", 0)])[0].offset < 0


def test_forget_keeps_a_topic_that_has_no_markers(node: Node) -> None:
    admin = create(node, "orders-epochs")
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce("orders-epochs", b'{"order":1}')
    producer.flush(30)
    micro_batch_removal.forget("orders", "orders", {"bootstrap.servers": node.bootstrap}, None)
    assert "orders-epochs" in admin.list_topics(timeout=60).topics


def test_forget_without_a_broker_is_an_error_that_names_the_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_offsets, "_TIMEOUT_S", 0.5)
    with Node() as gone:
        properties = for_librdkafka({"bootstrap.servers": gone.bootstrap})
    with pytest.raises(GroupOffsetsError, match=r"offsets of group orders .*0.5 s"):
        micro_batch_removal.forget("orders", "orders", properties, None)


def test_forget_of_a_group_with_members_is_refused(node: Node) -> None:
    create(node, "members")
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "busy"})
    consumer.subscribe(["members"])
    deadline = time.monotonic() + 60
    while not consumer.assignment():
        assert time.monotonic() < deadline
        consumer.poll(0.1)
    with pytest.raises(GroupOffsetsError, match="NON_EMPTY_GROUP"):
        micro_batch_removal.forget("busy", "busy", {"bootstrap.servers": node.bootstrap}, None)
    consumer.close()
