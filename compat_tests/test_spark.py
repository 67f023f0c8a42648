"""PySpark's format("kafka"): batch and streaming, reading and writing."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests import spark as setup
from compat_tests.conftest import KEEP_OLD_RECORDS
from compat_tests.registry_instances import instances
from compat_tests.web_access import START_MS, Summary, events_of_size

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    setup.needed,
    pytest.mark.timeout(600),
]

PARTITIONS = 4
EVENT_SCHEMA = "time LONG, visitor STRING, path STRING, status INT, size LONG"


@pytest.fixture(scope="module")
def spark() -> "Iterator[SparkSession]":
    properties = {
        "spark.master": "local[2]",
        "spark.jars.packages": setup.CONNECTOR,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
    }
    with setup.session(properties) as session:
        yield session


@pytest.fixture(scope="module")
def web_access(bootstrap, admin, request) -> tuple[str, Summary]:
    """A topic of web-access events, and the results of a plain loop over them."""
    from confluent_kafka.admin import NewTopic

    topic = f"web-access-{os.urandom(4).hex()}"
    new = NewTopic(topic, PARTITIONS, 1, config=KEEP_OLD_RECORDS)
    admin.create_topics([new])[topic].result(30)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": "lz4", "linger.ms": 20}
    )
    summary = Summary()
    for event, line in events_of_size(seed=3, size_bytes=request.config.option.size_mb * 1_000_000):
        summary.add(event)
        while True:
            try:
                key = event.visitor.encode()
                producer.produce(topic, key=key, value=line, timestamp=event.timestamp_ms)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0
    return topic, summary


class Kafka:
    """Readers and writers with the bootstrap address set."""

    def __init__(self, spark: "SparkSession", bootstrap: str) -> None:
        self.spark = spark
        self.bootstrap = bootstrap

    def read(self, **options: object) -> "DataFrame":
        reader = self.spark.read.format("kafka")
        return reader.options(**{"kafka.bootstrap.servers": self.bootstrap, **options}).load()

    def stream(self, **options: object) -> "DataFrame":
        reader = self.spark.readStream.format("kafka")
        return reader.options(**{"kafka.bootstrap.servers": self.bootstrap, **options}).load()

    def write(self, rows: "DataFrame", topic: str) -> None:
        options = {"kafka.bootstrap.servers": self.bootstrap, "topic": topic}
        rows.write.format("kafka").options(**options).save()


@pytest.fixture
def kafka(spark, bootstrap) -> Kafka:
    return Kafka(spark, bootstrap)


def produce(bootstrap: str, topic: str, values: list[str], **extra: object) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value=value, **extra)
    assert producer.flush(30) == 0


def numbers(rows: "DataFrame") -> list[int]:
    values = rows.selectExpr("CAST(value AS STRING) AS value").collect()
    return sorted(int(row.value) for row in values)


def test_batch_over_web_access_events_equals_a_plain_loop(kafka, web_access) -> None:
    from pyspark.sql import functions

    topic, expected = web_access
    events = (
        kafka.read(subscribe=topic, startingOffsets="earliest")
        .select(
            functions.from_json(functions.col("value").cast("string"), EVENT_SCHEMA).alias("event")
        )
        .select("event.*")
        .cache()
    )
    assert events.count() == expected.count
    assert events.agg(functions.sum("size")).first()[0] == expected.bytes_sent
    by_status = {row.status: row["count"] for row in events.groupBy("status").count().collect()}
    assert by_status == dict(expected.requests_by_status)
    by_path = events.groupBy("path").agg(functions.sum("size").alias("size")).collect()
    assert {row.path: row.size for row in by_path} == dict(expected.bytes_by_path)
    events.unpersist()


def test_a_stream_over_web_access_events_counts_the_same(kafka, web_access, tmp_path) -> None:
    from pyspark.sql import functions

    topic, expected = web_access
    events = (
        kafka.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=100_000)
        .select(
            functions.from_json(functions.col("value").cast("string"), EVENT_SCHEMA).alias("event")
        )
        .groupBy("event.status")
        .count()
    )
    query = (
        events.writeStream.format("memory")
        .queryName("statuses")
        .outputMode("complete")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    counted = {row.status: row["count"] for row in kafka.spark.table("statuses").collect()}
    assert counted == dict(expected.requests_by_status)


def test_more_tasks_than_partitions_read_every_record_once(kafka, web_access) -> None:
    topic, expected = web_access
    rows = kafka.read(subscribe=topic, startingOffsets="earliest", minPartitions=PARTITIONS * 3)
    assert rows.rdd.getNumPartitions() >= PARTITIONS * 3
    assert rows.count() == expected.count
    assert rows.select("partition", "offset").distinct().count() == expected.count


def first_offsets(rows: "DataFrame") -> dict[int, int]:
    firsts = rows.groupBy("partition").min("offset").collect()
    return {row.partition: row["min(offset)"] for row in firsts}


def test_reading_starts_at_a_timestamp(kafka, web_access) -> None:
    topic, expected = web_access
    times = kafka.read(subscribe=topic).selectExpr("partition", "offset", "timestamp")
    middle_ms = START_MS + 9 * expected.count // 2
    wanted = first_offsets(times.filter(f"unix_millis(timestamp) >= {middle_ms}"))
    assert sorted(wanted) == list(range(PARTITIONS))
    assert all(offset > 0 for offset in wanted.values())
    later = kafka.read(subscribe=topic, startingTimestamp=str(middle_ms))
    assert first_offsets(later) == wanted
    by_partition = {str(p): middle_ms for p in range(PARTITIONS)}
    by_json = kafka.read(
        subscribe=topic, startingOffsetsByTimestamp=json.dumps({topic: by_partition})
    )
    assert first_offsets(by_json) == wanted


def test_reading_keeps_to_offsets_given_as_json(kafka, bootstrap, topics) -> None:
    topic = topics.create("spark-json", partitions=2)
    for partition in (0, 1):
        values = [str(partition * 100 + i) for i in range(10)]
        produce(bootstrap, topic, values, partition=partition)
    start = json.dumps({topic: {"0": 4, "1": -2}})
    end = json.dumps({topic: {"0": 8, "1": -1}})
    rows = kafka.read(subscribe=topic, startingOffsets=start, endingOffsets=end)
    assert numbers(rows) == [4, 5, 6, 7, *range(100, 110)]
    chosen = kafka.read(assign=json.dumps({topic: [1]}))
    assert numbers(chosen) == list(range(100, 110))


def test_a_batch_written_by_spark_is_read_by_others(kafka, bootstrap, topics) -> None:
    topic = topics.create("spark-write", partitions=3)
    rows = kafka.spark.range(2000).selectExpr(
        "CAST(id AS STRING) AS key",
        "CAST(id * 2 AS STRING) AS value",
        "array(struct('source' AS key, CAST('spark' AS BINARY) AS value)) AS headers",
    )
    kafka.write(rows, topic)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "spark-reader"})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(3)])
    read = {}
    while len(read) < 2000:
        messages = consumer.consume(min(500, 2000 - len(read)), timeout=60)
        assert messages, f"{len(read)} of 2000 records came"
        for message in messages:
            assert message.headers() == [("source", b"spark")]
            read[int(message.key())] = int(message.value())
    consumer.close()
    assert read == {i: 2 * i for i in range(2000)}


def test_headers_are_read(kafka, bootstrap, topics) -> None:
    topic = topics.create("spark-headers")
    produce(bootstrap, topic, ["v"], key="k", headers=[("a", b"1"), ("b", None)])
    (row,) = kafka.read(subscribe=topic, includeHeaders="true").collect()
    assert (bytes(row.key), bytes(row.value)) == (b"k", b"v")
    assert [(h.key, h.value and bytes(h.value)) for h in row.headers] == [("a", b"1"), ("b", None)]


def test_stream_resumes_from_its_checkpoint(kafka, bootstrap, topics, tmp_path: Path) -> None:
    source, target = topics.create("spark-in", partitions=2), topics.create("spark-out")

    def run_until_caught_up() -> None:
        rows = kafka.stream(subscribe=source, startingOffsets="earliest")
        query = (
            rows.selectExpr("key", "value")
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", target)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        query.processAllAvailable()
        query.stop()

    produce(bootstrap, source, [str(i) for i in range(100)])
    run_until_caught_up()
    assert numbers(kafka.read(subscribe=target)) == list(range(100))
    produce(bootstrap, source, [str(i) for i in range(100, 150)])
    run_until_caught_up()
    assert numbers(kafka.read(subscribe=target)) == list(range(150))


def test_available_now_reads_all_records_and_ends(kafka, bootstrap, topics, tmp_path) -> None:
    topic = topics.create("spark-now")
    produce(bootstrap, topic, [str(i) for i in range(60)])
    seen: list[int] = []

    def take(rows: "DataFrame", _: int) -> None:
        seen.extend(numbers(rows))

    def run() -> None:
        stream = kafka.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=25)
        query = (
            stream.writeStream.foreachBatch(take)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(90)

    run()
    assert sorted(seen) == list(range(60))
    run()
    assert len(seen) == 60
    produce(bootstrap, topic, ["60"])
    run()
    assert sorted(seen) == list(range(61))


def test_a_stream_sees_partitions_that_are_added(kafka, bootstrap, admin, topics, tmp_path) -> None:
    from confluent_kafka.admin import NewPartitions

    topic = topics.create("spark-grow")
    produce(bootstrap, topic, ["0", "1"])
    query = (
        kafka.stream(subscribe=topic, startingOffsets="earliest")
        .writeStream.format("memory")
        .queryName("grown")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
        produce(bootstrap, topic, ["2"], partition=1)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            query.processAllAvailable()
            if kafka.spark.table("grown").count() == 3:
                break
        assert numbers(kafka.spark.table("grown")) == [0, 1, 2]
    finally:
        query.stop()


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_spark_reads_committed_records(spark, bootstrap, topics, unique, level) -> None:
    topic = topics.create("committed", partitions=2)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("id")})
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        for i in range(10):
            producer.produce(topic, value=f"{number}-{i}", partition=i % 2)
        producer.flush(30)
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, value="open", partition=0)
    producer.flush(30)
    frame = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("kafka.isolation.level", level)
        .load()
    )
    values = sorted(row.value.decode() for row in frame.select("value").collect())
    if level == "read_committed":
        assert values == sorted(f"{number}-{i}" for number in (0, 2, 4) for i in range(10))
    else:
        assert len(values) == 61
    producer.abort_transaction(30)


def test_example_of_the_docs_decodes_avro_by_schema_id(
    spark: "SparkSession", bootstrap: str, tmp_path: Path
) -> None:
    """Values of two versions, and a tombstone, through the example in docs/schema-registry.md."""
    pytest.importorskip("starlette")
    pytest.importorskip("hypercorn")
    pytest.importorskip("confluent_kafka.schema_registry.avro")
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    topic = f"users-{os.urandom(4).hex()}"
    name = {"name": "name", "type": "string"}
    age = {"name": "age", "type": ["null", "int"], "default": None}
    producer = Producer({"bootstrap.servers": bootstrap})
    with instances(bootstrap, 1, "--topic", f"_{topic}", "--group", topic) as (registry,):
        client = SchemaRegistryClient({"url": registry.url})
        where = SerializationContext(topic, MessageField.VALUE)
        for fields, value in (([name], {"name": "a"}), ([name, age], {"name": "b", "age": 7})):
            schema = json.dumps({"type": "record", "name": "User", "fields": fields})
            producer.produce(topic, AvroSerializer(client, schema)(value, where), partition=0)
        producer.produce(topic, None, key="deleted", partition=0)
        producer.flush(30)
        page = (Path(__file__).parent.parent / "docs" / "schema-registry.md").read_text()
        [example] = [each for each in page.split("```python\n")[1:] if "avro_to_json" in each]
        code = example.partition("```")[0].replace("http://127.0.0.1:8081", registry.url)
        names: dict[str, Any] = {}
        exec(code, names)
        query = (
            names["read_users"](spark, bootstrap, topic)
            .writeStream.format("memory")
            .queryName("users")
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        found = spark.sql("SELECT name, age FROM users ORDER BY offset").collect()
    assert [tuple(row) for row in found] == [("a", None), ("b", 7), (None, None)]
