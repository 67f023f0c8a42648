"""`flush.messages`: the records of coordinators are synced before the answer."""

import threading
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.log import PartitionLog
from barnabas.testing import Node

EACH = {"log.flush.interval.messages": "1", "offsets.topic.num.partitions": "1"}


def behind(node: Node) -> list[str]:
    """Return the logs with unsynced records."""
    assert node.server is not None
    return [
        f"{log.topic}-{log.partition}"
        for log in node.server.logs.logs()
        if log.is_loaded and log.recovery_point < log.log_end_offset
    ]


def test_transaction_with_flush_messages_leaves_no_unsynced_record() -> None:
    with Node(config={**EACH, "transaction.state.log.num.partitions": "1"}) as node:
        settings = {"bootstrap.servers": node.bootstrap, "group.id": "g"}
        consumer = Consumer(settings)
        producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "x"})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("t", b"v")
        offsets = [TopicPartition("t", 0, 1)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        producer.commit_transaction()
        consumer.close()
        deadline = time.monotonic() + 60  # markers follow the answer
        while left := behind(node):
            assert time.monotonic() < deadline, left
            time.sleep(0.01)


def test_offset_commit_with_flush_messages_waits_for_the_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Node(config=EACH) as node:
        producer = Producer({"bootstrap.servers": node.bootstrap})
        producer.produce("t", b"v")
        assert producer.flush(60) == 0
        consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "g"})
        consumer.committed([TopicPartition("t", 0)], 60)
        may_sync, flush = threading.Event(), PartitionLog.flush

        def slow(log: PartitionLog) -> None:
            assert may_sync.wait(60)
            flush(log)

        monkeypatch.setattr(PartitionLog, "flush", slow)
        offsets = [TopicPartition("t", 0, 1)]
        commit = threading.Thread(
            target=lambda: consumer.commit(offsets=offsets, asynchronous=False)
        )
        commit.start()
        commit.join(0.5)
        assert commit.is_alive()
        may_sync.set()
        commit.join(60)
        assert not commit.is_alive()
        assert behind(node) == []
        assert consumer.committed([TopicPartition("t", 0)], 60)[0].offset == 1
        consumer.close()
