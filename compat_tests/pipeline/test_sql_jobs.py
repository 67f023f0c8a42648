"""Queries of SQL as jobs of a runner that is killed under load: each result is written once."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from compat_tests import spark as setup
from compat_tests.pipeline.killed_job import create_topics, read_committed
from compat_tests.pipeline.sql_runners import LineRunner
from compat_tests.pipeline.test_sql_scripts import newest, produce

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.barnabas_only,
    setup.needed,
]


@pytest.fixture
def runner(bootstrap: str, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[LineRunner]:
    found = LineRunner(bootstrap, tmp_path, unique("sqljobs"))
    try:
        yield found
    finally:
        found.end()


def wait_rows(bootstrap: str, topic: str, count: int, runner: LineRunner) -> None:
    runner.wait_for(lambda: len(read_committed(bootstrap, topic)) >= count)


def test_killed_runner_continues_its_queries_exactly_once(
    bootstrap: str, runner: LineRunner, unique: Callable[[str], str]
) -> None:
    source, slow, counts = unique("clicks"), unique("slow"), unique("counts")
    letters = unique("letters")
    create_topics(bootstrap, [source], 2)
    runner.start()
    answers = runner.execute(
        f"""
        CREATE STREAM c (id STRING KEY, url STRING, ms INT, n INT)
            WITH (kafka_topic='{source}', value_format='JSON');
        SET 'errors.deadletterqueue.topic.name'='{letters}';
        CREATE STREAM slow WITH (kafka_topic='{slow}') AS SELECT * FROM c WHERE ms > 100;
        UNSET 'errors.deadletterqueue.topic.name';
        CREATE TABLE counts WITH (kafka_topic='{counts}') AS
            SELECT url, COUNT(*) AS n FROM c GROUP BY url;
        """
    )
    assert answers == [
        "created stream C",
        "set the property errors.deadletterqueue.topic.name",
        f"started query CSAS_SLOW_0, which writes the topic {slow}",
        "removed the property errors.deadletterqueue.topic.name",
        f"started query CTAS_COUNTS_1, which writes the topic {counts}",
    ]
    produce(bootstrap, source, range(300))
    damaged = Producer({"bootstrap.servers": bootstrap})
    damaged.produce(source, b"no JSON", b"k")
    assert damaged.flush(30) == 0
    wait_rows(bootstrap, slow, 1, runner)
    wait_rows(bootstrap, counts, 1, runner)
    runner.kill()
    produce(bootstrap, source, range(300, 600))
    runner.start()
    total = 600
    expected = {f"/{url}": total // 3 for url in range(3)}
    runner.wait_for(lambda: newest(bootstrap, counts) == expected)
    wait_rows(bootstrap, slow, total // 2, runner)
    written = Counter(json.loads(each.value())["N"] for each in read_committed(bootstrap, slow))
    assert written == Counter(number for number in range(total) if number % 2)
    assert runner.execute("SELECT n, url FROM counts WHERE url = '/1';") == [[total // 3, "/1"]]
    assert [each.value() for each in read_committed(bootstrap, letters)] == [b"no JSON"]
    (plan,) = runner.execute("EXPLAIN CTAS_COUNTS_1;")
    assert plan.startswith("Delivery: exactly once, in micro-batches")
    assert "in Spark's state by key" in plan
    assert "== Physical Plan ==" in plan
    assert runner.execute("TERMINATE ALL; DROP STREAM slow; DROP TABLE counts;") == [
        "terminated all queries",
        "dropped stream SLOW",
        "dropped table COUNTS",
    ]


def test_query_that_starts_at_the_end_reads_all_that_comes_after_its_statement(
    bootstrap: str, runner: LineRunner, unique: Callable[[str], str]
) -> None:
    """Also what comes before its job starts, or while no runner runs, into an idle partition."""
    source, copied, counts = unique("clicks"), unique("copied"), unique("counts")
    create_topics(bootstrap, [source], 2)
    producer = Producer({"bootstrap.servers": bootstrap})

    def send(partition: int, *numbers: int) -> None:
        for number in numbers:
            value = json.dumps({"url": f"/{partition}", "n": number})
            producer.produce(source, value.encode(), b"k", partition)
        assert producer.flush(30) == 0

    def copies() -> list[int]:
        return sorted(json.loads(each.value())["N"] for each in read_committed(bootstrap, copied))

    send(0, 1, 2)
    send(1, 3)
    runner.start()
    runner.execute(
        f"""
        CREATE STREAM c (url STRING, n INT) WITH (kafka_topic='{source}', value_format='JSON');
        SET 'auto.offset.reset'='latest';
        CREATE STREAM copied WITH (kafka_topic='{copied}') AS SELECT url, n FROM c;
        CREATE TABLE counts WITH (kafka_topic='{counts}') AS
            SELECT url, COUNT(*) AS n FROM c GROUP BY url;
        """
    )
    send(0, 4)
    runner.wait_for(lambda: copies() == [4], "the first record")
    runner.wait_for(lambda: newest(bootstrap, counts) == {"/0": 1})
    runner.kill()
    send(1, 5, 6)
    runner.start()
    runner.wait_for(lambda: copies() == [4, 5, 6], "records of a partition without a position")
    runner.wait_for(lambda: newest(bootstrap, counts) == {"/0": 1, "/1": 2})
