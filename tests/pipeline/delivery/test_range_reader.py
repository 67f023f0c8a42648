"""Ranges of offsets read from a node."""

import contextlib
import random
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.pipeline.data.records import CREATE_TIME, RawRecord
from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.forward import range_reader
from barnabas.pipeline.delivery.forward.range_reader import RangeReader, ReaderCache
from barnabas.pipeline.delivery.plan.offset_ranges import OffsetRange, Partition
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.rows.arrow_rows import PartitionRows
from barnabas.pipeline.delivery.writing.produced_records import raw_record
from barnabas.testing import Node


@pytest.fixture
def reader(node: Node) -> Iterator[RangeReader]:
    found = RangeReader({"bootstrap.servers": node.bootstrap, "group.id": "readers"}, 5_000)
    yield found
    found.close()


@pytest.fixture
def new_cache() -> Iterator[Callable[..., ReaderCache]]:
    """Makes caches, whose readers are closed after the test."""
    made: list[ReaderCache] = []

    def make(**options: float) -> ReaderCache:
        made.append(ReaderCache(**options))
        return made[-1]

    yield make
    for each in made:
        each.clear()


def topic(node: Node, partitions: int = 1, **config: str) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    new = NewTopic(name, partitions, 1, config={k.replace("_", "."): v for k, v in config.items()})
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([new])[name].result(60)
    return name


def write(node: Node, name: str, sizes: list[tuple[int, bool]], partition: int = 0) -> list[int]:
    """Write transactions of these numbers of records, committed or not; return offsets of records.

    The last control record is behind the last offset.
    """
    settings = {"bootstrap.servers": node.bootstrap, "transactional.id": uuid.uuid4().hex}
    producer = Producer(settings)
    producer.init_transactions(60)
    visible: list[int] = []
    offset = 0
    for size, is_committed in sizes:
        producer.begin_transaction()
        for number in range(size):
            producer.produce(name, str(offset + number).encode(), partition=partition)
        producer.flush(60)
        if is_committed:
            producer.commit_transaction(60)
            visible += range(offset, offset + size)
        else:
            producer.abort_transaction(60)
        offset += size + 1
    return visible


def no_trim(where: Partition, offset: int) -> int:
    raise AssertionError(f"offset {offset} of {where} is out of range")


def read(
    reader: RangeReader, *ranges: OffsetRange, trimmed: Any = no_trim, limit_s: float = 60
) -> tuple[dict[Partition, list[PartitionRows]], dict[Partition, int]]:
    found: dict[Partition, list[PartitionRows]] = {}
    for rows in reader.rows(ranges, trimmed, limit_s):
        found.setdefault((rows.topic, rows.partition), []).append(rows)
    return found, reader.finish(ranges)


def offsets(runs: list[PartitionRows]) -> list[int]:
    return [offset for rows in runs for offset in rows.offsets]


@pytest.mark.parametrize("seed", range(6))
def test_batches_have_each_visible_record_once_among_aborted_and_control_records(
    node: Node, reader: RangeReader, seed: int
) -> None:
    """Batches begin where the one before ended, and at times where another task would have."""
    randoms = random.Random(seed)
    name = topic(node)
    visible = write(node, name, [(randoms.randint(1, 40), randoms.random() < 0.6) for _ in "x" * 9])
    where = (name, 0)
    end = ClusterState({"bootstrap.servers": node.bootstrap}).ends([where])[where]
    position, found = 0, []
    while position < end:
        size = randoms.choice([1, 2, 7, 50, 1000])
        wanted = OffsetRange(name, 0, position, randoms.randint(position + 1, end), size)
        runs, following = read(reader, wanted)
        if randoms.random() < 0.3:  # the transaction was aborted: the next task repeats the range
            continue
        batch = offsets(runs.get(where, []))
        assert len(batch) <= size
        assert following[where] >= wanted.end or len(batch) == size
        found += batch
        position = following[where]
    assert found == visible
    assert position == end


def test_partitions_of_one_task_are_read_together(node: Node, reader: RangeReader) -> None:
    name = topic(node, partitions=3)
    for number in range(3):
        write(node, name, [(100 * (number + 1), True)], number)
    ranges = [OffsetRange(name, number, 0, 100 * (number + 1) + 1, 1000) for number in range(3)]
    runs, following = read(reader, *ranges)
    assert {where[1]: offsets(found) for where, found in runs.items()} == {
        number: [*range(100 * (number + 1))] for number in range(3)
    }
    assert following == {(name, number): 100 * (number + 1) + 1 for number in range(3)}


def test_rows_have_all_fields_of_the_records(node: Node, reader: RangeReader) -> None:
    name = topic(node)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce(name, b"v", b"k", timestamp=1234, headers=[("h", b"1"), ("n", None)])
    producer.produce(name, None, b"k", timestamp=1235)
    producer.flush(60)
    runs = read(reader, OffsetRange(name, 0, 0, 2, 10))[0][name, 0]
    records = [raw_record(rows, index) for rows in runs for index in range(len(rows))]
    headers = (("h", b"1"), ("n", None))
    assert records == [
        RawRecord(name, 0, 0, 1234, CREATE_TIME, b"k", b"v", headers),
        RawRecord(name, 0, 1, 1235, CREATE_TIME, b"k", None),
    ]


def test_timestamps_of_the_broker_are_recognized(node: Node, reader: RangeReader) -> None:
    name = topic(node, message_timestamp_type="LogAppendTime")
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce(name, b"v")
    producer.flush(60)
    (rows,) = read(reader, OffsetRange(name, 0, 0, 1, 10))[0][name, 0]
    assert rows.is_log_append_time(0)
    assert rows.headers is None


def test_offsets_that_retention_deleted_are_the_callers_decision(
    node: Node, reader: RangeReader
) -> None:
    name = topic(node)
    write(node, name, [(20, True)])
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    cut = TopicPartition(name, 0, 8)
    admin.delete_records([cut])[cut].result(60)
    asked: list[tuple[Partition, int]] = []

    def trimmed(where: Partition, offset: int) -> int:
        asked.append((where, offset))
        return 8

    runs, following = read(reader, OffsetRange(name, 0, 3, 21, 100), trimmed=trimmed)
    assert asked == [((name, 0), 3)]
    assert offsets(runs[name, 0]) == [*range(8, 20)]
    assert following == {(name, 0): 21}


def test_range_without_an_answer_ends_with_a_failure_that_may_pass(
    node: Node, reader: RangeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_reader, "_STALLED_S", 0.5)
    name = topic(node)
    with pytest.raises(TaskFailureError, match=f"sent no record of {name}-0@0 within") as caught:
        read(reader, OffsetRange(name, 0, 0, 5, 10))
    assert not caught.value.failure.is_permanent


def test_reader_that_failed_is_not_lent_again(
    node: Node, new_cache: Callable[..., ReaderCache]
) -> None:
    cache = new_cache()
    properties = {"bootstrap.servers": node.bootstrap, "group.id": "readers"}
    with cache.borrowed("job", 1, properties, 5) as first:
        pass
    with contextlib.suppress(KafkaException), cache.borrowed("job", 1, properties, 5) as second:
        assert second is first
        raise KafkaException
    with cache.borrowed("job", 1, properties, 5) as third:
        assert third is not first


def test_reader_that_is_not_used_fetches_nothing_ahead(
    node: Node, new_cache: Callable[..., ReaderCache]
) -> None:
    cache = new_cache(idle_s=0.05)
    name = topic(node)
    write(node, name, [(50, True)])
    properties = {"bootstrap.servers": node.bootstrap, "group.id": "readers"}
    wanted = OffsetRange(name, 0, 0, 51, 10)
    with cache.borrowed("job", 1, properties, 5) as reader:
        read(reader, wanted)
        assert reader._consumer.assignment() != []
    deadline = time.monotonic() + 60
    while reader._consumer.assignment() != []:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with cache.borrowed("job", 1, properties, 5) as again:
        assert again is reader
        runs, following = read(again, OffsetRange(name, 0, 10, 51, 1000))
    assert offsets(runs[name, 0]) == [*range(10, 50)]
    assert following == {(name, 0): 51}


def test_readers_above_the_limit_are_closed(
    node: Node, new_cache: Callable[..., ReaderCache]
) -> None:
    cache = new_cache(limit=1)
    properties = {"bootstrap.servers": node.bootstrap, "group.id": "readers"}
    with cache.borrowed("a", 1, properties, 5) as first:
        pass
    with cache.borrowed("b", 1, properties, 5):
        pass
    with pytest.raises(RuntimeError, match="closed"):
        first._consumer.assignment()
