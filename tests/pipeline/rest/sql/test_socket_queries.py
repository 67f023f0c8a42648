"""Queries over WebSockets: frames, reasons of the end, and runners that stand by; without Spark."""

import json
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import trio
from confluent_kafka import Producer
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from barnabas.http import HttpOptions
from barnabas.http.http_settings import CrossOrigin
from barnabas.pipeline.rest.sql.socket_queries import SocketEnd
from barnabas.pipeline.rest.sql.sql_api import SqlApi
from barnabas.pipeline.rest.sql.sql_context import SqlContext
from barnabas.pipeline.rest.sql.sql_errors import SqlRestError
from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
from barnabas.pipeline.sql.catalog.source_values import SourceColumn
from barnabas.pipeline.sql.shell.answer_values import DeletedRow, Rows
from barnabas.pipeline.sql.sql_types import SqlType
from barnabas.testing import Node
from barnabas.testing.free_ports import free_ports
from tests.pipeline.rest.sql.live_sql import live_sql

SELECT = "SELECT id, n FROM a EMIT CHANGES;"
COLUMNS = (SourceColumn("ID", SqlType("STRING")), SourceColumn("N", SqlType("INTEGER")))


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as found:
        producer = Producer({"bootstrap.servers": found.bootstrap})
        for value in ("one", "two"):
            producer.produce("printed", value, b"k")
        assert producer.flush(120) == 0
        yield found


@pytest.fixture(scope="module")
def api(node: Node) -> Iterator[httpx.Client]:
    http = HttpOptions(cross_origin=CrossOrigin(("http://friend",)))
    with live_sql(node.bootstrap, http=http) as found:
        yield found


class Source:
    """Rows that end, fail, or come until the query is closed."""

    def __init__(self, *batches: Sequence[Any] | Exception, goes_on: bool = False) -> None:
        self.is_closed = False
        self._batches = list(batches)
        self._goes_on = goes_on

    def take(self, timeout_s: float) -> Sequence[Any] | None:
        del timeout_s
        if not self._batches:
            return [] if self._goes_on else None
        found = self._batches.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        self.is_closed = True


def answered(source: Source, key: tuple[str, ...] | None = None, leaves: int = 99) -> list[Any]:
    """Return what a WebSocket of a query sends; the client leaves after `leaves` messages."""
    rows = Rows("q", COLUMNS, key is None, None, source, key)
    session = SimpleNamespace(
        variables={},
        set_properties=dict[str, str]().update,
        catalog=Catalog(),
        run=lambda statement, text: rows,
    )
    sessions: Any = lambda: session  # noqa: E731
    app = SqlApi(SqlContext(sessions, "default_", "http://here:1")).asgi()
    query = b"request=" + quote(json.dumps({"ksql": SELECT})).encode()
    scope = {"type": "websocket", "path": "/ws/query", "query_string": query, "headers": []}
    sent: list[Any] = []
    gone = trio.Event()
    given = [{"type": "websocket.connect"}]

    async def main() -> None:
        async def receive() -> Any:
            if given:
                return given.pop()
            await gone.wait()
            return {"type": "websocket.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)
            if len(sent) == leaves:
                gone.set()

        with trio.fail_after(120):
            await app(scope, receive, send)

    trio.run(main)
    assert sent.pop(0) == {"type": "websocket.accept"}
    assert source.is_closed
    return [json.loads(each["text"]) if "text" in each else each for each in sent]


def column(name: str, kind: str, **more: str) -> dict[str, Any]:
    schema = {"type": kind, "fields": None, "memberSchema": None}
    return {"name": name, "schema": schema, **more}


def test_columns_and_rows_are_frames_and_the_end_has_its_reason() -> None:
    source = Source([["a", 1], DeletedRow(["b", None])], [], [["c", 3]])
    assert answered(source) == [
        [column("ID", "STRING"), column("N", "INTEGER")],
        {"row": {"columns": ["a", 1]}},
        {"row": {"columns": ["b", None], "tombstone": True}},
        {"row": {"columns": ["c", 3]}},
        {"error": "done"},
        {"type": "websocket.close", "code": 1000, "reason": "done"},
    ]


def test_columns_of_a_tables_present_state_name_its_key() -> None:
    found = answered(Source([["a", 1]]), ("ID",))
    assert found[0] == [column("ID", "STRING", type="KEY"), column("N", "INTEGER")]


def test_query_that_fails_ends_with_its_error() -> None:
    found = answered(Source([["a", 1]], ValueError("é" * 70 + "x")))
    assert found[2] == {"error": "é" * 70 + "x"}
    assert found[3] == {"type": "websocket.close", "code": 1011, "reason": "é" * 60 + "..."}


def test_client_that_leaves_ends_the_query() -> None:
    source = Source([["a", 1]], goes_on=True)
    assert len(answered(source, leaves=3)) == 2


@pytest.mark.parametrize(
    ("code", "expected"),
    [(40001, 1003), (40301, 1003), (40003, 1003), (50000, 1011), (50301, 1013), (50302, 1013)],
)
def test_codes_of_the_end(code: int, expected: int) -> None:
    assert SocketEnd.of(SqlRestError(code, "why")) == SocketEnd(expected, "why")


def frames(api: httpx.Client, query: str, **options: Any) -> tuple[list[Any], int, str]:
    """Return the frames of a WebSocket, and the code and reason of its end."""
    url = f"ws://{api.base_url.host}:{api.base_url.port}/ws/query?{query}"
    found: list[Any] = []
    with connect(url, open_timeout=120, proxy=None, **options) as opened:
        try:
            while True:
                found.append(json.loads(opened.recv(120)))
        except ConnectionClosed as closed:
            end = closed.rcvd
    assert end is not None
    assert found.pop()["error"].startswith(end.reason.removesuffix("..."))
    return found, end.code, end.reason


def request_of(text: str, **more: Any) -> str:
    return "request=" + quote(json.dumps({"ksql": text, **more}))


def test_records_of_a_topic_are_frames(api: httpx.Client) -> None:
    text = "PRINT ${topic} FROM BEGINNING LIMIT 2;"
    printed = request_of(text, sessionVariables={"topic": "printed"}) + "&version=1"
    found, code, reason = frames(api, printed)
    assert [each.partition("value: ")[2][:3] for each in found] == ["one", "two"]
    assert (code, reason) == (1000, "done")


@pytest.mark.parametrize(
    ("query", "code", "reason"),
    [
        ("", 1003, "The URL needs the parameter request"),
        ("request=", 1003, "The URL needs the parameter request"),
        ("request=%7B", 1003, "The parameter request is not that of a query: The body is not J"),
        (request_of("PRINT printed;") + "&version=2", 1003, "There is no version 2"),
        (request_of("SHOW STREAMS;"), 1003, "Only SELECT and PRINT run here"),
        (request_of("SELECT * FROM nothing;"), 1003, "line 1:15: There is no stream or table"),
        (request_of("PRINT printed;", commandSequenceNumber=9), 1013, "The command 9 has not run"),
    ],
)
def test_wrong_requests_end_with_a_reason(
    api: httpx.Client, query: str, code: int, reason: str
) -> None:
    found = frames(api, query)
    assert found[:2] == ([], code)
    assert found[2].startswith(reason)


def test_pages_of_other_servers_open_no_websocket(api: httpx.Client) -> None:
    query = request_of("PRINT printed FROM BEGINNING LIMIT 2;")
    with pytest.raises(InvalidStatus) as raised:
        frames(api, query, origin="http://evil")
    assert raised.value.response.status_code == 403
    own = str(api.base_url).rstrip("/")
    assert len(frames(api, query, origin=own)[0]) == 2
    assert len(frames(api, query, origin="http://friend")[0]) == 2


def test_request_without_an_upgrade_is_refused(api: httpx.Client) -> None:
    answer = api.get("/ws/query")
    assert (answer.status_code, answer.json()["error_code"]) == (426, 42600)


def test_runner_that_stands_by_passes_on_what_it_cannot_answer(
    node: Node, api: httpx.Client
) -> None:
    active = str(api.base_url).rstrip("/")
    with live_sql(node.bootstrap, active_url=active) as standby:
        found, code, _ = frames(standby, request_of("PRINT printed FROM BEGINNING LIMIT 2;"))
        assert (len(found), code) == (2, 1000)
        api.post("/ksql", json={"ksql": "DEFINE x = '1'; CREATE TYPE known AS INT;"})
        # Only the active runner has run a command.
        waits = request_of("PRINT printed FROM BEGINNING LIMIT 2;", commandSequenceNumber=0)
        found, code, _ = frames(standby, waits)
        assert (len(found), code) == (2, 1000)
        found = frames(standby, request_of("SELECT * FROM nothing;"))
        assert (found[1], found[2][:15]) == (1003, "line 1:15: Ther")


def test_runner_that_stands_by_says_when_the_active_one_is_not_reached(node: Node) -> None:
    (port,) = free_ports(1)
    query = request_of("SELECT * FROM nothing;")
    for url, reason in ((f"http://127.0.0.1:{port}", "The active runner"), ("", "This runner")):
        with live_sql(node.bootstrap, active_url=url) as standby:
            found = frames(standby, query)
            assert found[1] == 1013
            assert found[2].startswith(reason)
