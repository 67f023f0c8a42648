"""Statements about connectors, with Connect's answers."""

from collections.abc import Sequence
from typing import Any

import pytest
import trio

from barnabas.pipeline.rest.connect_calls import Answer
from barnabas.pipeline.rest.job_rights import UNLIMITED, CallerRights
from barnabas.pipeline.rest.sql.connector_statements import Connectors, shown_text
from barnabas.pipeline.rest.sql.sql_errors import SqlRestError
from barnabas.pipeline.sql.scripts import parse_script
from tests.pipeline.sql.test_catalog import catalog_of

CATALOG = catalog_of("CREATE STREAM s (a STRING) WITH (kafka_topic='t', value_format='KAFKA');")
CONFIG = {"connector.class": "x.Files", "file": "f"}
STATUS = {
    "name": "c",
    "connector": {"state": "RUNNING", "worker_id": "w"},
    "tasks": [{"id": 0, "state": "RUNNING"}, {"id": 1, "state": "FAILED"}],
    "type": "source",
}


class FakeConnect:
    """One connector `c`, as Connect's REST API answers about it."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, object]] = []

    async def ask(
        self, method: str, segments: Sequence[str], body: object, rights: CallerRights
    ) -> Answer:
        assert rights is UNLIMITED
        path = "/".join(segments)
        if method != "GET":
            self.changes.append((f"{method} {path}", body))
            if isinstance(body, dict) and "bad" in str(body):
                return Answer(400, {"message": "no topics"})
            return Answer(201, {"name": "D", "config": CONFIG, "tasks": [], "type": "sink"})
        answers: dict[str, Any] = {
            "connectors": ["c"],
            "connectors/c": {"name": "c", "config": CONFIG, "tasks": [], "type": "source"},
            "connectors/c/status": STATUS,
            "connectors/c/topics": {"c": {"topics": ["t", "u"]}},
            "connector-plugins": [{"class": "x.Files", "type": "source", "version": "1"}],
        }
        if path in answers:
            return Answer(200, answers[path])
        return Answer(404, {"message": f"No status found for connector {segments[1]}"})


def answered(text: str, connect: FakeConnect | None = None) -> dict[str, Any]:
    (statement,) = parse_script(text)
    ask = (connect or FakeConnect()).ask
    connectors = Connectors(ask, UNLIMITED, CATALOG)
    return trio.run(connectors.answer, statement, "text")


def refused(text: str) -> tuple[int, str]:
    with pytest.raises(SqlRestError) as raised:
        answered(text)
    return raised.value.code, raised.value.message


def test_connector_is_created_once() -> None:
    connect = FakeConnect()
    found = answered("CREATE SINK CONNECTOR d WITH ('connector.class'='x.Files', n=1);", connect)
    assert (found["@type"], found["info"]["name"]) == ("connector_info", "D")
    config = {"connector.class": "x.Files", "N": "1", "name": "D"}
    assert connect.changes == [("POST connectors", {"name": "D", "config": config})]
    taken = "CREATE SOURCE CONNECTOR {} C WITH ('connector.class'='x');"
    assert answered(taken.format("IF NOT EXISTS"))["message"] == "Connector C already exists"
    assert refused(taken.format("")) == (40900, "Connector C already exists")


def test_wrong_connector_is_refused() -> None:
    code, message = refused("CREATE SINK CONNECTOR d WITH ('connector.class'='bad');")
    assert (code, message) == (40001, "Validation error: no topics")
    code, message = refused("CREATE SINK CONNECTOR d WITH (n=1);")
    assert (code, message) == (
        40001,
        "Validation error: CREATE CONNECTOR D needs 'connector.class'",
    )
    statement = "SHOW CONNECTORS;"
    with pytest.raises(SqlRestError, match="this server has none"):
        trio.run(Connectors(None, UNLIMITED, CATALOG).answer, *parse_script(statement), statement)


def test_connector_is_dropped() -> None:
    connect = FakeConnect()
    assert answered("DROP CONNECTOR `c`;", connect)["connectorName"] == "c"
    assert connect.changes == [("DELETE connectors/c", None)]
    assert refused("DROP CONNECTOR c;") == (
        40400,
        "Failed to drop connector: Connector C not found",
    )
    found = answered("DROP CONNECTOR IF EXISTS x;")
    assert (found["@type"], found["message"]) == (
        "warning_entity",
        "Connector 'X' does not exist.",
    )


def test_connectors_are_shown() -> None:
    row = {"name": "c", "type": "source", "className": "x.Files"}
    row["state"] = "RUNNING (1/2 tasks RUNNING)"
    assert answered("SHOW CONNECTORS;")["connectors"] == [row]
    assert answered("SHOW SOURCE CONNECTORS;")["connectors"] == [row]
    assert answered("SHOW SINK CONNECTORS;")["connectors"] == []
    plugin = {"className": "x.Files", "type": "source", "version": "1"}
    assert answered("SHOW CONNECTOR PLUGINS;")["connectorsPlugins"] == [plugin]


def test_connector_is_described_with_its_sources() -> None:
    found = answered("DESCRIBE CONNECTOR `c`;")
    assert (found["@type"], found["connectorClass"]) == ("connector_description", "x.Files")
    assert (found["status"], found["topics"]) == (STATUS, ["t", "u"])
    assert [each["name"] for each in found["sources"]] == ["S"]
    failed = "Failed to query connector status: No status found for connector X"
    assert refused("DESCRIBE CONNECTOR x;") == (40400, failed)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SHOW TOPICS", "SHOW TOPICS;"),
        (
            "create source\nconnector with_pw with ('a'='it''s', b = 5, c=NO)",
            "create source\nconnector with_pw with ('a'='[string]', b ='[string]', c='[string]');",
        ),
        (
            "CREATE SINK CONNECTOR a WITH (x='open",
            "CREATE SINK CONNECTOR a WITH (x='[string]';",
        ),
    ],
)
def test_values_of_connectors_are_hidden(text: str, shown: str) -> None:
    assert shown_text(text) == shown
