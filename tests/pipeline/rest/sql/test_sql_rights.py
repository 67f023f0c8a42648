"""Users of ksqlDB's REST API on a secured node: full and read-only users, and ACLs of topics."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from barnabas.http import HttpOptions
from barnabas.http.http_settings import BY_KAFKA
from tests.pipeline.rest.sql.live_sql import live_sql
from tests.secured_node import SecuredNode, add_users, allow, secured_node

CREATE = "CREATE STREAM rows (a INT) WITH (kafka_topic='rows', value_format='JSON', partitions=1);"


@pytest.fixture(scope="module")
def node() -> Iterator[SecuredNode]:
    with secured_node() as found:
        add_users(found, "server", "alice", "bob", "watcher")
        allow(found, "server", "topic:*", "ALL")
        allow(found, "server", "broker:kafka-cluster", "DESCRIBE", "CREATE")
        allow(found, "server", "group:*", "ALL")
        allow(found, "alice", "topic:rows", "READ", "WRITE")
        allow(found, "bob", "topic:rows", "READ")
        yield found


@pytest.fixture(scope="module")
def api(node: SecuredNode) -> Iterator[httpx.Client]:
    properties = node.properties("server", "server-secret")
    del properties["bootstrap.servers"]
    with live_sql(
        node.sasl,
        http=HttpOptions(auth=BY_KAFKA),
        full_users=frozenset({"alice", "bob"}),
        authorizes=True,
        properties=properties,
    ) as found:
        assert ask(found, "alice", CREATE) == (200, None)
        yield found


def ask(api: httpx.Client, user: str, text: str, path: str = "/ksql") -> tuple[int, Any]:
    """Return the status and the message of an error."""
    answer = api.post(path, json={"ksql": text}, auth=(user, f"{user}-secret"))
    if answer.status_code == 200:
        return 200, None
    return answer.json()["error_code"], answer.json()["message"]


def test_request_without_credentials_is_refused(api: httpx.Client) -> None:
    answer = api.post("/ksql", json={"ksql": "SHOW STREAMS;"})
    assert (answer.status_code, answer.json()["error_code"]) == (401, 40100)


@pytest.mark.parametrize(
    ("user", "text", "expected"),
    [
        ("watcher", "SHOW STREAMS; DESCRIBE rows; SET 'a'='b';", (200, None)),
        ("watcher", "ASSERT TOPIC rows; ASSERT NOT EXISTS TOPIC none;", (200, None)),
        ("watcher", "CREATE TYPE t AS INT;", (40300, "User watcher is a read-only user")),
        ("bob", "DROP STREAM rows;", (40301, "User bob needs WRITE on the topic rows")),
        ("bob", CREATE, (40301, "User bob needs WRITE on the topic rows")),
        (
            "bob",
            "CREATE STREAM c AS SELECT * FROM rows;",
            (40301, "User bob needs WRITE on the topic C"),
        ),
        ("alice", "TERMINATE ALL;", (40301, "User alice needs WRITE on the topic *")),
        ("alice", "CREATE TYPE t AS INT;", (200, None)),
    ],
)
def test_statements_need_rights(
    api: httpx.Client, user: str, text: str, expected: tuple[int, Any]
) -> None:
    assert ask(api, user, text) == expected


def test_reading_needs_read_on_the_topic(api: httpx.Client) -> None:
    for text in ("PRINT rows;", "SELECT * FROM rows;"):
        refused = ask(api, "watcher", text, "/query")
        assert refused == (40301, "User watcher needs READ on the topic rows")


def test_inserting_needs_write_on_the_topic(api: httpx.Client) -> None:
    body = b'{"target": "rows"}\n{"a": 1}\n'
    answer = api.post("/inserts-stream", content=body, auth=("bob", "bob-secret"))
    assert answer.json()["error_code"] == 40301
    refused = api.post("/ksql/terminate", json={}, auth=("alice", "alice-secret"))
    assert refused.json()["error_code"] == 40301
