"""Write the archives of classes that the JVMs of the tests map: it runs before the tests.

The first JVM of Spark that ends cleanly writes its archive. Most JVMs of the tests are killed, or
run until the last test, so `make archives` runs one: 44 s of CPU, and each start of Spark takes
3.2 s, not 10.5. Meanwhile Kafka's archive is written, and jars of Connect are fetched.
"""

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas import streams as ks
from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan
from barnabas.pipeline.java import worker_jars
from barnabas.pipeline.spark import class_archive, jar_cache
from barnabas.pipeline.spark.engine import Engine
from barnabas.pipeline.spark.jar_cache import JarsUnavailableError
from barnabas.pipeline.spark.session import (
    SessionSettings,
    SparkUnavailableError,
    cache_directory,
    check,
)
from barnabas.testing import Node
from compat_tests import jars

RECORDS = 100
WAIT_S = 120
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def is_written() -> bool:
    """True when the cache has the archive of this environment, or Java is too old for one."""
    cache = cache_directory()
    class_path = (*jar_cache.find_or_fetch(cache).files, *jar_cache.spark_jars())
    return class_archive.choose(cache, class_path).new is None


def copy(engine: Engine, bootstrap: str) -> None:
    """Run a job that forwards records in transactions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, 2, 1) for name in ("source", "target", "counts")]
    for future in admin.create_topics(topics).values():
        future.result(WAIT_S)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce("source", str(number), str(number % 5))
    producer.flush(WAIT_S)
    converters = {"key.converter": BYTES, "value.converter": BYTES}
    names = {"group_id": "copy", "transactional_id": "copy", "topics": ("source",)}
    plan = JobPlan(
        "copy", 1, JobKind.COPY, bootstrap, **names, target_topic="target", properties=converters
    )
    job = engine.start_job(plan)
    deadline = time.monotonic() + WAIT_S
    while job.progress().records < RECORDS and time.monotonic() < deadline:
        time.sleep(0.1)
    job.stop()


def count(session: Any, bootstrap: str, checkpoint: Path) -> None:
    """Run a query with state between two topics, and a batch query."""
    servers = {"kafka.bootstrap.servers": bootstrap}
    reader = session.readStream.format("kafka").options(**servers, subscribe="source")
    rows = reader.option("startingOffsets", "earliest").load()
    counts = rows.selectExpr("key", "from_json(CAST(value AS STRING), 'a INT') AS value")
    counts = counts.groupBy("key").count().selectExpr("key", "CAST(count AS STRING) AS value")
    writer = counts.writeStream.format("kafka").outputMode("update").trigger(availableNow=True)
    query = writer.options(**servers, topic="counts", checkpointLocation=str(checkpoint)).start()
    query.awaitTermination(WAIT_S)
    batch = session.read.format("kafka").options(**servers, subscribe="counts").load()
    batch.write.mode("overwrite").parquet(str(checkpoint.with_name("rows")))


def describe(app: ks.App) -> None:
    types = {"key": ks.String(), "value": ks.String()}
    left, right = (app.topic(name, **types) for name in ("left", "right"))
    table = app.table("right", **types)
    text = "cast(value AS STRING)"
    app.write(left.filter("value IS NOT NULL").map_values("upper(value)"), "filtered")
    app.write(left.group_by_key().count().map_values(text), "counts")
    app.write(left.group_by_key().reduce(lambda total, value: f"{total}{value}"), "reduced")
    app.write(left.join_table(table, value="concat(left, right)"), "joined")
    app.write(left.merge(right), "merged")


def run(settings: SessionSettings, work: Path) -> None:
    """Run jobs, queries and an app in one JVM, which writes the archive when it ends."""
    with Node() as node:
        engine = Engine(settings)
        engine.start()
        copy(engine, node.bootstrap)
        count(engine.session, node.bootstrap, work / "checkpoint")
        with ks.TestDriver(describe, session=engine.session) as driver:
            for topic in ("right", "left"):
                driver.pipe(topic, ("key", "value", 1))
            driver.process()
        engine.stop()


def write_for_spark() -> None:
    """Write the archive of Spark unless it is there, or Spark cannot run here."""
    with tempfile.TemporaryDirectory() as directory:
        settings = SessionSettings(Path(directory), master="local[2]", is_short_lived=True)
        try:
            check(settings)
            if not is_written():
                run(settings, Path(directory))
                if not is_written():
                    print("the JVM of Spark wrote no archive: the tests take minutes longer")
        except SparkUnavailableError as error:
            print(f"no archive of Spark's classes: {error}")


def fetch_connect() -> None:
    """Fetch the jars of Kafka's Connect, which a request to a runner otherwise waits for."""
    try:
        worker_jars.find_or_fetch(cache_directory().with_name("java"))
    except JarsUnavailableError as error:
        print(error)


def main() -> int:
    """Write both archives, and fetch jars: the JVM of Spark does not use two cores all the time."""
    with ThreadPoolExecutor() as pool:
        others = [pool.submit(work) for work in (jars.archive_options, fetch_connect)]
        write_for_spark()
        for each in others:
            each.result()
    return 0


if __name__ == "__main__":
    sys.exit(main())
