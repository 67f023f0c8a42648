"""CREATE OR REPLACE TABLE: windows, rows of a table, rows in Avro, groups of a join."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from compat_tests import spark as setup
from compat_tests.pipeline.killed_job import create_topics, read_committed
from compat_tests.pipeline.sql_runners import LineRunner
from tests.registry.live_registry import live_registry

pytest.importorskip("fastavro")
pytestmark = [pytest.mark.timeout(900), pytest.mark.barnabas_only, setup.needed]

HOUR_MS = 3_600_000
RECORDS, URLS = 400, 8
KINDS = ("even", "odd")


def tables(verb: str, topics: list[str], columns: str, least: int) -> str:
    """Return the statements of four tables, of which the third one reads the second.

    The query of the last one has two parts, with a topic between them.
    """
    hours, rows, large, parted = topics
    return f"""
    {verb} TABLE hours WITH (kafka_topic='{hours}', value_format='JSON') AS
        SELECT url, {columns} FROM c WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 1 DAY) GROUP BY url;
    {verb} TABLE rows WITH (kafka_topic='{rows}', value_format='AVRO') AS
        SELECT url, {columns} FROM c GROUP BY url;
    {verb} TABLE large WITH (kafka_topic='{large}', value_format='JSON') AS
        SELECT url, n FROM rows WHERE n > {least};
    {verb} TABLE parted WITH (kafka_topic='{parted}', value_format='JSON') AS
        SELECT k.kind AS kind, {columns} FROM c JOIN k ON c.url = k.url GROUP BY k.kind;
    """


def newest(bootstrap: str, topic: str) -> dict[bytes, bytes]:
    """Return the newest row of each key."""
    found = {each.key(): each.value() for each in read_committed(bootstrap, topic)}
    return {key: value for key, value in found.items() if value is not None}


def send(bootstrap: str, kinds: str, topic: str) -> None:
    """Send records of two hours; all of a URL are in the same hour, and have one kind."""
    producer = Producer({"bootstrap.servers": bootstrap})
    at_ms = int(time.time() * 1000) // HOUR_MS * HOUR_MS
    for number in range(URLS):
        value = json.dumps({"KIND": KINDS[number % 2]})
        producer.produce(kinds, value, f"/{number}", timestamp=at_ms - 2 * HOUR_MS)
    for number in range(RECORDS):
        value = json.dumps({"URL": f"/{number % URLS}", "MS": number})
        producer.produce(topic, value, timestamp=at_ms - number % 2 * HOUR_MS)
    assert producer.flush(60) == 0


def test_tables_of_other_shapes_are_replaced(
    bootstrap: str, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    source, kinds = unique("clicks"), unique("kinds")
    topics = [unique(each) for each in ("hours", "rows", "large", "parted")]
    hours, rows, large, parted = topics
    create_topics(bootstrap, [source, kinds], 2)
    send(bootstrap, kinds, source)
    with live_registry(bootstrap, unique("schemas")) as registry:
        properties = {"ksql.schema.registry.url": registry}
        runner = LineRunner(bootstrap, tmp_path, unique("shapes"), properties)
        try:
            runner.start()
            answers = runner.execute(
                f"CREATE STREAM c (url STRING, ms INT) WITH (kafka_topic='{source}', "
                f"value_format='JSON'); CREATE TABLE k (url STRING PRIMARY KEY, kind STRING) WITH "
                f"(kafka_topic='{kinds}', value_format='JSON');"
                f"{tables('CREATE', topics, 'COUNT(*) AS n', 1000)}"
            )
            assert len(answers) == 6, answers
            for topic in (hours, rows):
                runner.wait_for(lambda t=topic: len(newest(bootstrap, t)) == URLS, topic)
            half = {"N": RECORDS // 2}
            runner.wait_for(lambda: groups(bootstrap, parted) == [half] * 2, parted)
            columns = "COUNT(*) AS n, MAX(ms) AS top"
            answers = runner.execute(tables("CREATE OR REPLACE", topics, columns, 40))
            assert all("to replace it" in each for each in answers), answers
            runner.wait_for(lambda: is_swapped(bootstrap, runner), "no swap")
            runner.wait_for(lambda: len(newest(bootstrap, large)) == URLS, "no rows")
            expected = [{**half, "TOP": RECORDS - 2}, {**half, "TOP": RECORDS - 1}]
            runner.wait_for(lambda: groups(bootstrap, parted) == expected, parted)
            check(bootstrap, runner, topics)
            names = httpx.get(f"{registry}/subjects").json()
            assert names == [f"{rows}-value"]
        finally:
            runner.end()


def groups(bootstrap: str, topic: str) -> list[dict[str, int]]:
    """Return the rows in the order of their keys."""
    return [json.loads(value) for _, value in sorted(newest(bootstrap, topic).items())]


def is_swapped(bootstrap: str, runner: LineRunner) -> bool:
    """True when each table has its new query alone."""
    shown = runner.execute("SHOW QUERIES;")
    names = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics
    is_staged = any(each.startswith(runner.group) and "-staging" in each for each in names)
    return not is_staged and "building" not in str(shown)


def check(bootstrap: str, runner: LineRunner, topics: list[str]) -> None:
    hours, _, large, _ = topics
    found = [json.loads(each) for each in newest(bootstrap, hours).values()]
    assert sorted(each["TOP"] for each in found) == list(range(RECORDS - URLS, RECORDS))
    assert {each["N"] for each in found} == {RECORDS // URLS}
    found = [json.loads(each) for each in newest(bootstrap, large).values()]
    assert found == [{"N": RECORDS // URLS}] * URLS
    assert runner.execute("SELECT url, n, top FROM rows WHERE url = '/7';") == [
        ["/7", RECORDS // URLS, RECORDS - 1]
    ]
