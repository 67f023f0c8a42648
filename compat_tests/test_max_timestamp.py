"""ListOffsets with the largest timestamp (-3), while a log grows and shrinks."""

import time

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from compat_tests.wire import call

T = 1_700_000_000_000
NONE = (-1, -1, -1)


def largest(bootstrap: str, topic: str, *, version: int = 7, isolation_level: int = 0):
    """Return offset, timestamp and leader epoch of a ListOffsets for -3."""
    partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-3)
    wanted = ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[partition])
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=[wanted])
    ((told,),) = (each.partitions for each in call(bootstrap, request, version).topics)
    if told.error_code:
        return told.error_code
    return told.offset, told.timestamp, told.leader_epoch


def write(
    bootstrap: str,
    topic: str,
    *timestamps: int,
    key: bytes = b"k",
    value: bytes = b"value",
    **config: str,
) -> None:
    """Append one batch of records, at milliseconds after T."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 100, **config})
    for timestamp in timestamps:
        producer.produce(topic, value, key=key, partition=0, timestamp=T + timestamp)
    assert producer.flush(30) == 0


def cut(admin, topic: str, offset: int) -> None:
    for future in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result(30)


@pytest.mark.parametrize("version", [7, 8, 9, 10, 11])
def test_max_timestamp_of_an_empty_log_is_unknown(bootstrap, topics, version) -> None:
    assert largest(bootstrap, topics.create("empty"), version=version) == NONE


def test_max_timestamp_before_v7_is_refused(bootstrap, topics) -> None:
    topic = topics.create("old")
    assert [largest(bootstrap, topic, version=version) for version in (1, 5, 6)] == [35, 35, 35]


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_max_timestamp_returns_the_first_record_with_it(bootstrap, topics, codec) -> None:
    topic = topics.create("largest")
    write(bootstrap, topic, 5, 9, 1, 9, **{"compression.type": codec})
    assert largest(bootstrap, topic) == (1, T + 9, 0)
    write(bootstrap, topic, 3)
    write(bootstrap, topic, 9)
    assert largest(bootstrap, topic) == (1, T + 9, 0)
    write(bootstrap, topic, 2, 30, 4, **{"compression.type": codec})
    assert largest(bootstrap, topic) == (7, T + 30, 0)
    assert largest(bootstrap, topic, isolation_level=1) == (7, T + 30, 0)


def test_max_timestamp_after_delete_records_returns_a_remaining_record(
    bootstrap, admin, topics
) -> None:
    topic = topics.create("cut")
    write(bootstrap, topic, 5, 9, 30, 4)
    cut(admin, topic, 2)
    assert largest(bootstrap, topic) == (2, T + 30, 0)


@pytest.mark.barnabas_only  # Kafka returns the deleted record, below the log start offset
def test_max_timestamp_never_returns_a_deleted_record(bootstrap, admin, topics) -> None:
    topic = topics.create("cut")
    write(bootstrap, topic, 5, 9, 30, 4)
    cut(admin, topic, 3)
    assert largest(bootstrap, topic) == (3, T + 4, 0)
    cut(admin, topic, 4)
    assert largest(bootstrap, topic) == NONE
    write(bootstrap, topic, 1)
    assert largest(bootstrap, topic) == (4, T + 1, 0)


def test_max_timestamp_with_read_committed_ignores_open_transactions(
    bootstrap, topics, unique
) -> None:
    topic = topics.create("open")
    write(bootstrap, topic, 5)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("open")})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0, timestamp=T + 50)
    producer.flush(30)
    assert largest(bootstrap, topic) == (1, T + 50, 0)
    assert largest(bootstrap, topic, isolation_level=1) == NONE
    producer.commit_transaction(30)
    # The marker has the time when it was written, and its own offset.
    deadline = time.monotonic() + 60
    while largest(bootstrap, topic, isolation_level=1) == NONE:
        assert time.monotonic() < deadline
    offset, timestamp, _ = largest(bootstrap, topic)
    assert (offset, timestamp > T + 1_000_000) == (2, True)


def test_max_timestamp_of_a_compacted_log_uses_remaining_records(start_server, unique) -> None:
    bootstrap = start_server({"log.cleaner.backoff.ms": "200"}).bootstrap
    topic = unique("compacted")
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
        "min.cleanable.dirty.ratio": "0.0",
    }
    new = NewTopic(topic, num_partitions=1, replication_factor=1, config=config)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([new])[topic].result(30)
    write(bootstrap, topic, 5, 9000, 7)
    assert largest(bootstrap, topic) == (1, T + 9000, 0)
    # The next segment begins, and the one before it may be cleaned.
    for _ in range(12):
        write(bootstrap, topic, 8000, key=b"other", value=b"." * 100_000)
    deadline = time.monotonic() + 60
    while largest(bootstrap, topic)[1] != T + 8000:
        assert time.monotonic() < deadline, largest(bootstrap, topic)
        time.sleep(0.1)
