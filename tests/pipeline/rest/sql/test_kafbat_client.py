"""Kafbat UI's requests and the tables that it makes of the answers; none of it needs Spark."""

from collections.abc import Iterator

import httpx
import pytest

from barnabas.testing import Node
from tests.pipeline.rest.sql.kafbat_client import select_tables, statement_tables
from tests.pipeline.rest.sql.live_sql import live_sql

CREATE = "CREATE {0} {1} (id STRING {2}KEY, ms BIGINT) WITH (kafka_topic='{1}', "
CREATE += "value_format='JSON', partitions=1);"


@pytest.fixture(scope="module")
def api() -> Iterator[httpx.Client]:
    with Node() as node, live_sql(node.bootstrap) as found:
        for text in (CREATE.format("STREAM", "s1", ""), CREATE.format("TABLE", "t1", "PRIMARY ")):
            (table,) = statement_tables(found, text)
            assert (table.title, table.columns) == ("Status", ["status", "message"])
            assert table.rows[0][0] == "SUCCESS"
        yield found


def test_streams_and_tables_are_listed(api: httpx.Client) -> None:
    (streams,) = statement_tables(api, "LIST STREAMS;", {})
    assert streams.title == "Streams"
    (found,) = streams.dicts()
    assert (found["name"], found["topic"]) == ("S1", "s1")
    assert (found["keyFormat"], found["valueFormat"]) == ("KAFKA", "JSON")
    (tables,) = statement_tables(api, "LIST TABLES;", {})
    assert tables.title == "Tables"
    (found,) = tables.dicts()
    assert (found["name"], found["topic"], found["isWindowed"]) == ("T1", "t1", False)


@pytest.mark.parametrize(
    ("text", "title", "columns"),
    [
        ("SHOW QUERIES;", "Queries", set[str]()),
        ("SHOW TOPICS;", "Topics", {"name", "replicaInfo"}),
        ("SHOW PROPERTIES;", "properties", {"name", "value"}),
        ("SHOW FUNCTIONS;", "Function Names", {"name", "type"}),
        ("SHOW VARIABLES;", "Ksql Response", {"@type", "variables"}),
        ("DESCRIBE S1;", "Source Description", {"name", "fields", "topic"}),
        ("DESCRIBE STREAMS;", "Source descriptions", {"name", "fields", "topic"}),
        ("DESCRIBE FUNCTION UCASE;", "Function description", {"name", "functions", "author"}),
    ],
)
def test_answers_become_tables(api: httpx.Client, text: str, title: str, columns: set[str]) -> None:
    found = statement_tables(api, text, {"auto.offset.reset": "earliest"})
    assert found[0].title == title
    assert columns <= set(found[0].columns)


def test_properties_of_the_page_are_overwritten_ones(api: httpx.Client) -> None:
    properties, overwritten = statement_tables(
        api, "SHOW PROPERTIES;", {"auto.offset.reset": "latest"}
    )
    values = {each["name"]: each["value"] for each in properties.dicts()}
    assert values["auto.offset.reset"] == "latest"
    assert overwritten == ("overwrittenProperties", [], [[]], False)


def test_errors_are_tables_with_a_message(api: httpx.Client) -> None:
    (failed,) = statement_tables(api, "DROP STREAM nothing;")
    assert (failed.title, failed.is_error) == ("Execution error", True)
    assert "There is no stream or table NOTHING" in failed.dicts()[0]["message"]
    (failed,) = select_tables(api, "SELECT * FROM nothing EMIT CHANGES;", {})
    assert (failed.title, failed.is_error) == ("Execution error", True)
    assert failed.dicts()[0]["error_code"] == 40001
