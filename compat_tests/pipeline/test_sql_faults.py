"""Faults under queries of SQL: each has one outcome, and one sentence that says what to do."""

import io
import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from compat_tests import spark as setup
from compat_tests.pace import WAIT_S
from compat_tests.pipeline.killed_job import create_topics, read_committed
from compat_tests.pipeline.sql_runners import LineRunner
from compat_tests.pipeline.test_sql_scripts import PROGRAM
from tests.registry.live_registry import live_registry

fastavro = pytest.importorskip("fastavro")
pytestmark = [pytest.mark.timeout(600), pytest.mark.barnabas_only, setup.needed]


def avro(**fields: str) -> dict[str, Any]:
    """Return the schema of a record; a type with a default ends with a question mark."""
    named = [
        {"name": name, "type": kind.rstrip("?"), **({"default": ""} if "?" in kind else {})}
        for name, kind in fields.items()
    ]
    return {"type": "record", "name": "Order", "fields": named}


def registered(registry: str, subject: str, schema: dict[str, Any]) -> int:
    path = f"{registry}/subjects/{subject}/versions"
    answer = httpx.post(path, json={"schema": json.dumps(schema)})
    assert answer.is_success, answer.text
    return answer.json()["id"]


def produce(bootstrap: str, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for number, value in enumerate(values):
        producer.produce(topic, value, str(number).encode())
    assert producer.flush(30) == 0


def produce_avro(
    bootstrap: str, topic: str, schema_id: int, schema: dict[str, Any], row: dict[str, Any]
) -> None:
    stream = io.BytesIO()
    stream.write(b"\x00" + schema_id.to_bytes(4, "big"))
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), row)
    produce(bootstrap, topic, stream.getvalue())


def status(runner: LineRunner, query: str) -> list[dict[str, str]]:
    """Return the status of a query's job and of its task."""
    url = f"{runner.url}/connectors/{runner.group}-{query}/status"
    found = httpx.get(url, timeout=60).json()
    return [found["connector"], *found["tasks"]]


def states(runner: LineRunner, query: str) -> list[str]:
    return [each["state"] for each in status(runner, query)]


def reason(letter: Any) -> str:
    """Return why a record is a dead letter."""
    return dict(letter.headers())["__connect.errors.exception.message"].decode()


def failure(runner: LineRunner, query: str) -> str:
    """Return the first line of the trace of a query that has failed."""

    def trace() -> str:
        traces = [each.get("trace", "") for each in status(runner, query)]
        return next((each for each in traces if each), "")

    return runner.wait_for(trace).splitlines()[0]


def barnabas(*arguments: str) -> None:
    subprocess.run([str(PROGRAM), *arguments], check=True, timeout=WAIT_S, capture_output=True)


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[str]:
    with live_registry(bootstrap, "_schemas_of_sql_faults") as url:
        yield url


@pytest.fixture(scope="module")
def runner(
    bootstrap: str, registry: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LineRunner]:
    """A runner for all tests of this module."""
    directory = tmp_path_factory.mktemp("sql-faults")
    found = LineRunner(bootstrap, directory, "sqlfaults", {"ksql.schema.registry.url": registry})
    try:
        found.start()
        yield found
    finally:
        found.end()


def values(bootstrap: str, topic: str) -> list[Any]:
    return [json.loads(each.value()) for each in read_committed(bootstrap, topic)]


def test_record_of_an_incompatible_schema_is_a_dead_letter(
    bootstrap: str, registry: str, runner: LineRunner, unique: Callable[[str], str]
) -> None:
    topic, rows, letters = unique("orders"), unique("rows"), unique("letters")
    create_topics(bootstrap, [topic], 1)
    first = avro(item="string", n="long")
    second = avro(item="string", n="long", note="string?")
    third = avro(item="string", n="string")
    subject = f"{topic}-value"
    first_id = registered(registry, subject, first)
    runner.execute(
        f"""
        CREATE STREAM orders WITH (kafka_topic='{topic}', value_format='AVRO');
        SET 'errors.deadletterqueue.topic.name'='{letters}';
        CREATE STREAM seen WITH (kafka_topic='{rows}', value_format='JSON') AS
            SELECT item, n FROM orders;
        UNSET 'errors.deadletterqueue.topic.name';
        """
    )
    produce_avro(bootstrap, topic, first_id, first, {"item": "a", "n": 1})
    runner.wait_for(lambda: len(values(bootstrap, rows)) == 1)
    second_id = registered(registry, subject, second)
    produce_avro(bootstrap, topic, second_id, second, {"item": "b", "n": 2, "note": "new"})
    runner.wait_for(lambda: len(values(bootstrap, rows)) == 2)
    httpx.put(f"{registry}/config/{subject}", json={"compatibility": "NONE"}).raise_for_status()
    third_id = registered(registry, subject, third)
    produce_avro(bootstrap, topic, third_id, third, {"item": "c", "n": "three"})
    (letter,) = runner.wait_for(lambda: read_committed(bootstrap, letters))
    assert "Schema mismatch: string is not long" in reason(letter)
    runner.execute("PAUSE ALL;")
    runner.wait_for(lambda: "PAUSED" in states(runner, "CSAS_SEEN_0"))
    runner.execute("RESUME ALL;")
    produce_avro(bootstrap, topic, third_id, third, {"item": "d", "n": "four"})
    produce_avro(bootstrap, topic, first_id, first, {"item": "e", "n": 5})
    runner.wait_for(lambda: len(values(bootstrap, rows)) == 3)
    assert [each["ITEM"] for each in values(bootstrap, rows)] == ["a", "b", "e"]
    assert len(read_committed(bootstrap, letters)) == 2
    runner.execute("DROP STREAM seen; DROP STREAM orders;")


def test_statement_behind_a_query_finds_the_schemas_that_the_query_writes(
    bootstrap: str, runner: LineRunner, unique: Callable[[str], str]
) -> None:
    topic, counts = unique("visits"), unique("counts")
    create_topics(bootstrap, [topic], 1)
    *_, read = runner.execute(
        f"""
        CREATE STREAM visits (url STRING, day INT)
            WITH (kafka_topic='{topic}', value_format='JSON');
        CREATE TABLE visited WITH (kafka_topic='{counts}', format='AVRO') AS
            SELECT url, day, COUNT(*) AS n FROM visits GROUP BY url, day;
        CREATE STREAM changes WITH (kafka_topic='{counts}', format='AVRO');
        """
    )
    assert read == "created stream CHANGES"
    runner.execute("DROP STREAM changes; DROP TABLE visited; DROP STREAM visits;")


def test_topic_that_is_created_again_fails_queries_until_each_is_set_to_read_it(
    bootstrap: str, runner: LineRunner, unique: Callable[[str], str]
) -> None:
    topic, copies, counts = unique("clicks"), unique("copies"), unique("counts")
    create_topics(bootstrap, [topic], 1)
    _, *started = runner.execute(
        f"""
        CREATE STREAM c (url STRING) WITH (kafka_topic='{topic}', value_format='JSON');
        CREATE STREAM copied WITH (kafka_topic='{copies}') AS SELECT url FROM c;
        CREATE TABLE counted WITH (kafka_topic='{counts}') AS
            SELECT url, COUNT(*) AS n FROM c GROUP BY url;
        """
    )
    copy, count = (each.removeprefix("started query ").partition(",")[0] for each in started)
    (refused,) = runner.execute(
        f"""
        CREATE OR REPLACE TABLE counted WITH (kafka_topic='{counts}', value_format='DELIMITED') AS
            SELECT url, COUNT(*) AS n FROM c GROUP BY url;
        """
    )
    assert "COUNTED has the formats JSON and KAFKA of value and key, and not DELIMITED" in refused
    produce(bootstrap, topic, b'{"url": "/"}')
    for rows in (copies, counts):
        runner.wait_for(lambda rows=rows: read_committed(bootstrap, rows))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    create_topics(bootstrap, [topic], 1)
    produce(bootstrap, topic, b'{"url": "/other"}')
    sentences = [failure(runner, each) for each in (copy, count)]
    assert [each.partition(" was recreated: its id was ")[0] for each in sentences] == [
        f"topic {topic}",
        f"topic {topic}",
    ]
    job = f"{runner.group}-{copy}"
    remedy = f"group reset-offsets {job} --topic {topic} --to earliest"
    assert f"`barnabas {remedy}`" in sentences[0]
    barnabas(*remedy.split(), "--bootstrap", bootstrap)
    barnabas("job", "restart", job, "--pipelines", runner.url)
    assert "run `barnabas job rebuild`" in sentences[1]
    barnabas("job", "rebuild", f"{runner.group}-{count}", "--yes", "--pipelines", runner.url)
    for rows in (copies, counts):
        found = runner.wait_for(
            lambda rows=rows: len(found := values(bootstrap, rows)) == 2 and found
        )
        assert [each.get("URL", each.get("N")) for each in found] in (["/", "/other"], [1, 1])


def test_join_of_topics_with_other_partitions_is_refused_and_its_remedy_runs(
    bootstrap: str, runner: LineRunner, unique: Callable[[str], str]
) -> None:
    few, many, joined, spread = (unique(each) for each in ("few", "many", "joined", "spread"))
    create_topics(bootstrap, [few], 1)
    create_topics(bootstrap, [many], 3)
    produce(bootstrap, few, b'{"n": 1}', b'{"n": 2}')
    produce(bootstrap, many, b'{"n": 3}', b'{"n": 4}')
    runner.execute(
        f"""
        CREATE STREAM few (k STRING KEY, n INT) WITH (kafka_topic='{few}', value_format='JSON');
        CREATE STREAM many (k STRING KEY, n INT) WITH (kafka_topic='{many}', value_format='JSON');
        """
    )
    join = f"""
        CREATE STREAM joined WITH (kafka_topic='{joined}') AS
            SELECT m.k AS k, m.n + f.n AS n FROM many m JOIN LEFT_SIDE f WITHIN 1 HOUR ON m.k = f.k;
    """
    (refused,) = runner.execute(join.replace("LEFT_SIDE", "few"))
    assert f"the topic {many} has 3 partitions and {few} has 1" in refused
    assert joined not in AdminClient({"bootstrap.servers": bootstrap}).list_topics().topics
    remedy = "CREATE STREAM FEW_3 WITH (PARTITIONS=3) AS SELECT * FROM FEW"
    assert remedy in refused
    remedy = remedy.replace("PARTITIONS=3", f"PARTITIONS=3, kafka_topic='{spread}'")
    runner.execute(f"{remedy};")
    runner.execute(join.replace("LEFT_SIDE", "FEW_3"))
    found = runner.wait_for(lambda: len(rows := values(bootstrap, joined)) == 2 and rows)
    assert sorted(each["N"] for each in found) == [4, 6]
    runner.execute("DROP STREAM joined; DROP STREAM few_3; DROP STREAM many; DROP STREAM few;")
