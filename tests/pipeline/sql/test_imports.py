"""The import of a command topic of ksqlDB: commands that are in force, and whether they run."""

import json
from typing import Any

import pytest

pytest.importorskip("sqlglot")

from barnabas.pipeline.sql.analysis.applied_statements import Definition, applied
from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
from barnabas.pipeline.sql.catalog.source_definitions import Defaults
from barnabas.pipeline.sql.imports.import_plan import ImportStep, planned
from barnabas.pipeline.sql.imports.ksqldb_commands import (
    KsqlCommand,
    UnreadableCommandError,
    decode,
    topic_of,
)
from barnabas.pipeline.sql.imports.live_commands import live
from barnabas.pipeline.sql.imports.source_statements import source_statement
from barnabas.pipeline.sql.scripts import parse_statement, statement_texts

CLICKS = """CREATE STREAM CLICKS (ID STRING KEY, URL STRING, MS BIGINT)
WITH (KAFKA_TOPIC='clicks', KEY_FORMAT='KAFKA', PARTITIONS=2, VALUE_FORMAT='JSON');"""
SLOW = """CREATE STREAM SLOW WITH (CLEANUP_POLICY='delete', KAFKA_TOPIC='SLOW', PARTITIONS=2,
REPLICAS=1, RETENTION_MS=604800000) AS SELECT
  CLICKS.ID ID,
  UCASE(CLICKS.URL) URL
FROM CLICKS CLICKS
WHERE (CLICKS.MS > 100)
EMIT CHANGES;"""
COUNTS = """CREATE TABLE COUNTS WITH (KAFKA_TOPIC='COUNTS', PARTITIONS=2, REPLICAS=1) AS SELECT
  CLICKS.URL URL,
  COUNT(*) N
FROM CLICKS CLICKS
GROUP BY CLICKS.URL
EMIT CHANGES;"""
INSERT = "INSERT INTO SLOW SELECT CLICKS.ID ID, CLICKS.URL URL FROM CLICKS CLICKS EMIT CHANGES;"


def record(key: str, statement: str, query: str | None = None, **more: Any) -> tuple[bytes, bytes]:
    """Return the record of a command in ksqlDB's format."""
    value: dict[str, Any] = {
        "statement": statement,
        "streamsProperties": {},
        "originalProperties": {"ksql.service.id": "default_"},
        "plan": None,
        "version": 18,
    }
    if query is not None:
        value["plan"] = {
            "@type": "ksqlPlanV1",
            "statementText": statement,
            "queryPlan": {"sources": ["CLICKS"], "sink": "SLOW", "queryId": query},
        }
    return json.dumps(key).encode(), json.dumps({**value, **more}).encode()


CREATED = [
    record("stream/`CLICKS`/create", CLICKS),
    record("stream/`SLOW`/create", SLOW, "CSAS_SLOW_3"),
    record("table/`COUNTS`/create", COUNTS, "CTAS_COUNTS_5"),
]


def steps(records: list[tuple[bytes, bytes]], *known: str) -> list[ImportStep]:
    return planned(live(decode(*each) for each in records), known)


def outcomes(records: list[tuple[bytes, bytes]]) -> list[tuple[str | None, str | None]]:
    return [(each.query, each.problem) for each in steps(records)]


def test_record_becomes_a_command() -> None:
    key, value = record(
        "stream/`A/b`/create",
        "SHOW STREAMS ;\n",
        "CSAS_A_1",
        streamsProperties={"auto.offset.reset": "earliest"},
        originalProperties={"ksql.streams.auto.offset.reset": "latest"},
    )
    found = decode(key, value)
    assert found == KsqlCommand(
        "stream", "A/b", "create", "SHOW STREAMS", start="earliest", query="CSAS_A_1"
    )
    assert topic_of("default_") == "_confluent-ksql-default__command_topic"


def test_start_is_that_of_the_server_and_latest_as_in_ksqldb() -> None:
    given = {"ksql.streams.auto.offset.reset": "earliest"}
    assert decode(*record("stream/A/create", SLOW, originalProperties=given)).start == "earliest"
    assert decode(*record("stream/A/create", SLOW)).start == "latest"


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"{", b"{}", "its key is not JSON"),
        (b'"stream"', b"{}", "its key is 'stream', and not 'TYPE/NAME/ACTION'"),
        (b'["a"]', b"{}", "its key is .* and not 'TYPE/NAME/ACTION'"),
        (b'"stream/A/create"', b"[1]", "its value is .* and not an object"),
        (b'"stream/A/create"', b"{}", "its statement is None, and not a text"),
        (b'"stream/A/create"', b'{"statement": "", "plan": 7}', "its plan is 7"),
    ],
)
def test_other_records_are_named_with_the_reason(key: bytes, value: bytes, reason: str) -> None:
    with pytest.raises(UnreadableCommandError, match=reason):
        decode(key, value)


def test_queries_keep_their_ids() -> None:
    found = outcomes([*CREATED, record("stream/`SLOW`/create", INSERT, "INSERTQUERY_7")])
    assert found == [
        (None, None),
        ("CSAS_SLOW_3", None),
        ("CTAS_COUNTS_5", None),
        ("INSERTQUERY_7", None),
    ]


def test_dropped_objects_are_left_out() -> None:
    found = steps(
        [
            *CREATED,
            record("type/ADDRESS/create", "CREATE TYPE ADDRESS AS STRUCT<CITY STRING>;"),
            record("type/ADDRESS/drop", "DROP TYPE ADDRESS;"),
            record("stream/SLOW/drop", "DROP STREAM SLOW DELETE TOPIC;"),
        ]
    )
    assert [each.text.split()[2] for each in found] == ["CLICKS", "COUNTS"]


def test_source_of_a_terminated_query_stays() -> None:
    found = steps([*CREATED, record("terminate/CSAS_SLOW_3/execute", "TERMINATE CSAS_SLOW_3;")])
    assert [each.query for each in found] == [None, None, "CTAS_COUNTS_5"]
    assert found[1].text == (
        "CREATE STREAM `SLOW` (`ID` STRING KEY, `URL` STRING) WITH (KAFKA_TOPIC='SLOW', "
        "KEY_FORMAT='KAFKA', VALUE_FORMAT='JSON', WRAP_SINGLE_VALUE=true, PARTITIONS=2, REPLICAS=1)"
    )


def test_terminate_all_ends_all_queries() -> None:
    inserted = record("stream/`SLOW`/create", INSERT, "INSERTQUERY_7")
    found = steps([*CREATED, inserted, record("terminate/ALL/execute", "TERMINATE ALL;")])
    assert [each.query for each in found] == [None, None, None]
    assert all("SELECT" not in each.text for each in found)


def test_terminated_insert_and_a_cluster_leave_nothing() -> None:
    inserted = record("stream/`SLOW`/create", INSERT, "INSERTQUERY_7")
    ended = record("terminate/INSERTQUERY_7/execute", "TERMINATE INSERTQUERY_7;")
    assert steps([*CREATED, inserted, ended]) == steps(CREATED)
    cluster = record("cluster/TerminateCluster/terminate", "TERMINATE CLUSTER;")
    assert steps([*CREATED, cluster]) == []


def test_replaced_statement_has_the_place_of_the_first() -> None:
    replaced = CLICKS.replace("CREATE", "CREATE OR REPLACE").replace("BIGINT", "BIGINT, N INT")
    found = steps(
        [
            CREATED[0],
            record("stream/CLICKS/alter", "ALTER STREAM CLICKS ADD COLUMN X INT;"),
            *CREATED[1:],
            record("stream/`CLICKS`/create", replaced),
            record("stream/`CLICKS`/create", CLICKS.replace("STREAM", "STREAM IF NOT EXISTS")),
        ]
    )
    assert [each.problem for each in found] == [None, None, None]
    assert "N INT" in found[0].text


def test_statement_that_cannot_run_is_named_with_those_that_need_it() -> None:
    bad = SLOW.replace("UCASE(", "TEST_UDF(")
    reader = "CREATE STREAM FAR AS SELECT SLOW.ID ID, SLOW.URL URL FROM SLOW SLOW EMIT CHANGES;"
    (_, (query, reason), (_, needs), (_, system)) = outcomes(
        [
            CREATED[0],
            record("stream/`SLOW`/create", bad, "CSAS_SLOW_3"),
            record("stream/`FAR`/create", reader, "CSAS_FAR_4"),
            record("cluster/8c1b/alter", "ALTER SYSTEM 'ksql.streams.num.stream.threads'='2';"),
        ]
    )
    assert query == "CSAS_SLOW_3"
    assert reason is not None
    assert "TEST_UDF" in reason
    assert needs == "it needs SLOW, which is not imported"
    assert system is not None


def test_statements_that_make_nothing_are_named_with_the_reason() -> None:
    found = outcomes(
        [
            *CREATED,
            record("pause/CSAS_SLOW_3/execute", "PAUSE CSAS_SLOW_3;"),
            record("stream/X/create", "SHOW STREAMS;"),
            record("stream/Y/create", "DROP TYPE A; DROP TYPE B;"),
        ]
    )
    assert [problem for _, problem in found[3:]] == [
        "queries run when they are created: send it then",
        "it makes no stream, table, type or query",
        "it has 2 statements, and a command has one",
    ]


def test_object_that_the_server_has_is_not_created() -> None:
    inserted = record("stream/`SLOW`/create", INSERT, "INSERTQUERY_7")
    found = steps([*CREATED, inserted], "CLICKS", "INSERTQUERY_7")
    assert [each.is_there for each in found] == [True, False, False, True]


def test_commands_without_a_plan_end_by_the_name_of_their_source() -> None:
    old = [CREATED[0], record("stream/SLOW/create", SLOW)]
    found = steps([*old, record("terminate/CSAS_SLOW_0/execute", "TERMINATE CSAS_SLOW_0;")])
    assert found[1].text.startswith("CREATE STREAM `SLOW` (")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE STREAM T WITH (KAFKA_TOPIC='it''s') AS SELECT ID, URL `a b`, MS FROM CLICKS",
        "CREATE STREAM T WITH (VALUE_FORMAT='DELIMITED', VALUE_DELIMITER='|') AS SELECT * "
        "FROM CLICKS",
        "CREATE STREAM T WITH (WRAP_SINGLE_VALUE=false) AS SELECT ID, URL FROM CLICKS",
        "CREATE STREAM T WITH (FORMAT='PROTOBUF') AS SELECT ID, URL FROM CLICKS",
        "CREATE STREAM T WITH (FORMAT='AVRO', VALUE_AVRO_SCHEMA_FULL_NAME='a.B') AS SELECT * "
        "FROM CLICKS",
        "CREATE STREAM T WITH (TIMESTAMP='MS', REPLICAS=1) AS SELECT ID, MS FROM CLICKS",
        "CREATE STREAM T AS SELECT STRUCT(A := URL, B := ARRAY[MS]) S, MAP('x' := MS) M "
        "FROM CLICKS PARTITION BY NULL",
        "CREATE TABLE T AS SELECT URL, COUNT(*) N FROM CLICKS WINDOW TUMBLING (SIZE 1 HOUR) "
        "GROUP BY URL",
        "CREATE TABLE T WITH (KEY_FORMAT='JSON') AS SELECT URL, MS, COUNT(*) N FROM CLICKS "
        "WINDOW SESSION (5 MINUTES) GROUP BY URL, MS",
    ],
)
def test_create_of_a_source_makes_the_same_source(text: str) -> None:
    catalog = Catalog()
    for each in (CLICKS, text):
        catalog = applied_to(catalog, each)
    source = catalog.source("T")
    assert applied_to(Catalog(), source_statement(source)).source("T") == source


def applied_to(catalog: Catalog, text: str) -> Catalog:
    (source,) = statement_texts(text)
    statement = parse_statement(source, {})
    assert isinstance(statement, Definition)
    return applied(statement, catalog, Defaults()).catalog
