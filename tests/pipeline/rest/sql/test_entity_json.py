"""Answers of statements as ksqlDB's JSON."""

from typing import Any

import pytest

from barnabas.pipeline.rest.sql.entity_json import entity, schema_of
from barnabas.pipeline.sql.catalog.source_values import (
    Format,
    HeaderColumn,
    Source,
    SourceColumn,
    SourceWindow,
    Timestamp,
)
from barnabas.pipeline.sql.functions.function_table import FUNCTIONS
from barnabas.pipeline.sql.shell import answer_values as av
from barnabas.pipeline.sql.sql_types import BIGINT, BYTES, STRING, SqlType

CLICKS = Source(
    "STREAM",
    "CLICKS",
    "clicks",
    (SourceColumn("ID", STRING),),
    (SourceColumn("MS", BIGINT), SourceColumn("TAGS", SqlType("ARRAY", (STRING,)))),
    Format("KAFKA"),
    Format("JSON"),
    headers=(HeaderColumn("H", BYTES, "h"),),
    timestamp=Timestamp("MS"),
)
COUNTS = Source(
    "TABLE",
    "COUNTS",
    "COUNTS",
    (SourceColumn("ID", STRING),),
    (SourceColumn("N", BIGINT),),
    Format("KAFKA"),
    Format("JSON"),
    window=SourceWindow("TUMBLING", 1000),
)
QUERY = av.RunningQuery("CTAS_COUNTS_0", "CREATE TABLE ..", "COUNTS", "COUNTS", ("CLICKS",))
QUERY_JSON = {
    "queryString": "CREATE TABLE ..",
    "sinks": ["COUNTS"],
    "sinkKafkaTopics": ["COUNTS"],
    "id": "CTAS_COUNTS_0",
    "statusCount": {"RUNNING": 1},
    "queryType": "PERSISTENT",
    "state": "RUNNING",
}


def found(answer: av.Answer, sequence: int = -1) -> dict[str, Any]:
    """Return an entity without what all entities have."""
    body = entity(answer, "SHOW X;", sequence)
    assert body is not None
    assert body.pop("statementText") == "SHOW X;"
    assert isinstance(body.pop("warnings"), list)
    return body


def test_command_has_id_state_and_number() -> None:
    answer = av.CommandDone("started", "table/`COUNTS`/create", "CTAS_COUNTS_0", ("slow",))
    assert found(answer, 7) == {
        "@type": "currentStatus",
        "commandId": "table/`COUNTS`/create",
        "commandStatus": {"status": "SUCCESS", "message": "started", "queryId": "CTAS_COUNTS_0"},
        "commandSequenceNumber": 7,
    }
    body = entity(answer, "")
    assert body is not None
    assert body["warnings"] == [{"message": "slow"}]


def test_sources_queries_and_topics_are_lists() -> None:
    assert found(av.SourceList("STREAM", (CLICKS,))) == {
        "@type": "streams",
        "streams": [
            {
                "type": "STREAM",
                "name": "CLICKS",
                "topic": "clicks",
                "keyFormat": "KAFKA",
                "valueFormat": "JSON",
                "isWindowed": False,
            }
        ],
    }
    tables = found(av.SourceList("TABLE", (COUNTS,)))
    assert (tables["@type"], tables["tables"][0]["isWindowed"]) == ("tables", True)
    assert found(av.QueryList((QUERY,))) == {"@type": "queries", "queries": [QUERY_JSON]}
    assert found(av.TopicList((av.ListedTopic("clicks", (3, 3)),))) == {
        "@type": "kafka_topics",
        "topics": [{"name": "clicks", "replicaInfo": [3, 3]}],
    }


def test_assertions_that_hold_have_no_other_fields() -> None:
    topic = {"@type": "assert_topic", "topicName": "clicks", "exists": False}
    assert found(av.AssertedTopic("clicks", False)) == topic
    schema = {"@type": "assert_schema", "subject": None, "id": 7, "exists": True}
    assert found(av.AssertedSchema(None, 7, True)) == schema


def test_description_has_fields_with_their_roles() -> None:
    topic = av.ListedTopic("clicks", (3, 3))
    described = found(av.SourceDetails(CLICKS, "", (QUERY,), (), topic, is_extended=True))
    body = described["sourceDescription"]
    assert described["@type"] == "sourceDescription"
    text = {"type": "STRING", "fields": None, "memberSchema": None}
    assert body["fields"] == [
        {"name": "ID", "schema": text, "type": "KEY"},
        {"name": "MS", "schema": {"type": "BIGINT", "fields": None, "memberSchema": None}},
        {"name": "TAGS", "schema": {"type": "ARRAY", "fields": None, "memberSchema": text}},
        {
            "name": "H",
            "schema": {"type": "BYTES", "fields": None, "memberSchema": None},
            "type": "HEADER",
            "headerKey": "h",
        },
    ]
    assert body["readQueries"] == [QUERY_JSON]
    assert (body["partitions"], body["replication"], body["timestamp"]) == (2, 3, "MS")
    assert (body["extended"], body["windowType"], body["type"]) == (True, None, "STREAM")
    several = found(av.SourceDetailsList((av.SourceDetails(COUNTS, "", (), ()),)))
    assert several["sourceDescriptions"][0]["windowType"] == "TUMBLING"


def test_types_nest() -> None:
    kind = SqlType("STRUCT", fields=(("A", SqlType("DECIMAL", numbers=(10, 2))),))
    assert schema_of(kind) == {
        "type": "STRUCT",
        "fields": [
            {
                "name": "A",
                "schema": {
                    "type": "DECIMAL",
                    "fields": None,
                    "memberSchema": None,
                    "parameters": {"precision": 10, "scale": 2},
                },
            }
        ],
        "memberSchema": None,
    }
    assert found(av.TypeList({"T": STRING}))["types"] == {"T": schema_of(STRING)}


def test_properties_functions_and_variables() -> None:
    listed = av.PropertyList((av.SqlProperty("a", "1", is_set=True), av.SqlProperty("b", None)))
    properties = found(listed)
    assert [each["name"] for each in properties["properties"]] == ["a", "b"]
    assert properties["overwrittenProperties"] == ["a"]
    assert properties["defaultProperties"] == ["b"]
    functions = found(av.FunctionList((FUNCTIONS["UCASE"],)))["functions"]
    assert functions == [
        {"name": "UCASE", "type": "SCALAR", "category": FUNCTIONS["UCASE"].category}
    ]
    described = found(av.FunctionDetails(FUNCTIONS["UCASE"]))
    assert described["@type"] == "describe_function"
    assert described["functions"][0]["returnType"] == "STRING"
    assert found(av.VariableList({"V": "1"}))["variables"] == [{"name": "V", "value": "1"}]


def test_explanation_names_the_query() -> None:
    answer = av.QueryDetails(QUERY, (SourceColumn("N", BIGINT),), plan="a plan")
    body = found(answer)["queryDescription"]
    assert (body["id"], body["executionPlan"]) == ("CTAS_COUNTS_0", "a plan")
    assert (body["sources"], body["sinks"]) == (["CLICKS"], ["COUNTS"])


@pytest.mark.parametrize(
    "answer",
    [av.Message("set"), av.Rows("q", (), is_push=True, limit=None, source=av.KnownRows([]))],
)
def test_session_statements_and_rows_have_no_entity(answer: av.Answer) -> None:
    assert entity(answer, "SET 'a'='b';") is None
