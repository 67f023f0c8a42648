"""ksqlDB's REST API on a node: statements, errors, records, states. None of it needs Spark."""

import gzip
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import trio
from confluent_kafka import Producer

from barnabas.cli.command_errors import CliError
from barnabas.cli.sql_command import run_scripts
from barnabas.cli.sql_scripts import Script
from barnabas.cli.sql_server import RemoteExecutor, SqlClient
from barnabas.http import HttpOptions, HttpStartError, ListenAddress
from barnabas.pipeline.rest.sql import sql_context
from barnabas.pipeline.rest.sql.row_formats import JSON, V1_JSON
from barnabas.pipeline.rest.sql.sql_context import PUSH_QUERIES_MAX
from barnabas.pipeline.rest.sql.sql_host import SqlListen
from barnabas.pipeline.sql.shell.printed_topics import TopicLines
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.testing import Node
from barnabas.testing.eventually import wait_until
from tests.pipeline.rest.sql.live_sql import live_sql

STREAM = "CREATE STREAM {0} (id STRING KEY, ms BIGINT) WITH (kafka_topic='{0}', "
STREAM += "value_format='JSON', partitions=2);"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as found:
        yield found


@pytest.fixture(scope="module")
def api(node: Node) -> Iterator[httpx.Client]:
    with live_sql(node.bootstrap) as found:
        yield found


def ksql(api: httpx.Client, text: str, **more: Any) -> httpx.Response:
    return api.post("/ksql", json={"ksql": text, **more})


def entities(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    return answer.json()


def produce(node: Node, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for value in values:
        producer.produce(topic, value, b"k")
    assert producer.flush(30) == 0


def test_statements_of_a_request_are_answered_in_order(api: httpx.Client) -> None:
    script = f"{STREAM.format('a1')} SHOW STREAMS; DESCRIBE a1; DROP STREAM a1;"
    created, listed, described, dropped = entities(ksql(api, script))
    assert created["statementText"] == STREAM.format("a1")
    assert created["commandId"] == "stream/`A1`/create"
    assert created["commandStatus"]["status"] == "SUCCESS"
    assert [each["topic"] for each in listed["streams"] if each["name"] == "A1"] == ["a1"]
    assert described["sourceDescription"]["partitions"] == 2
    assert dropped["commandId"] == "stream/`A1`/drop"
    assert dropped["commandSequenceNumber"] == created["commandSequenceNumber"] + 1


def test_statements_of_a_request_are_checked_before_the_first_runs(api: httpx.Client) -> None:
    answer = ksql(api, "CREATE TYPE e1 AS INT;\n  DROP STREAM nothing; SHOW TYPES;")
    assert answer.status_code == 400
    assert answer.headers["content-type"] == V1_JSON
    body = answer.json()
    assert (body["@type"], body["error_code"]) == ("statement_error", 40001)
    assert body["message"].startswith("line 2:15: There is no stream or table NOTHING")
    assert (body["statementText"], body["entities"]) == ("DROP STREAM nothing;", [])
    assert "E1" not in entities(ksql(api, "SHOW TYPES;"))[0]["types"]
    variables = "DEFINE n = 'e2'; CREATE TYPE ${n} AS INT; CREATE TYPE e3 AS E2; DROP TYPE e3;"
    assert len(entities(ksql(api, f"{variables} DROP TYPE ${{n}};"))) == 4


def test_error_of_a_statement_that_runs_has_the_answers_before_it(api: httpx.Client) -> None:
    # Whether a topic is there is known when the statement runs.
    missing = "CREATE STREAM gone (v INT) WITH (kafka_topic='gone', value_format='JSON');"
    body = ksql(api, f"CREATE TYPE e4 AS INT; {missing}").json()
    assert (body["error_code"], body["statementText"]) == (40001, missing)
    assert [each["commandId"] for each in body["entities"]] == ["type/`E4`/create"]


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/ksql", b"{", 400, 40000),
        ("/ksql", b"[]", 400, 40000),
        ("/ksql", b"{}", 400, 40000),
        ("/ksql", b'{"ksql": 1}', 400, 40000),
        ("/ksql", b'{"ksql": "\\ud800;"}', 400, 40000),
        ("/ksql", b'{"ksql": "", "streamsProperties": []}', 400, 40000),
        ("/ksql", b'{"ksql": "", "streamsProperties": {"a": {}}}', 400, 40000),
        ("/ksql", b'{"ksql": "", "commandSequenceNumber": "x"}', 400, 40000),
        ("/ksql", b'{"ksql": "", "commandSequenceNumber": 999999}', 503, 50301),
        ("/ksql", b'{"ksql": "SELEC 1;"}', 400, 40001),
        ("/ksql", b'{"ksql": "SELECT * FROM a;"}', 400, 40002),
        ("/ksql", b'{"ksql": "PRINT a;"}', 400, 40002),
        ("/query", b'{"ksql": "SHOW STREAMS;"}', 400, 40001),
        ("/query", b'{"ksql": ""}', 400, 40001),
        ("/query", b'{"ksql": "SELECT * FROM nothing;"}', 400, 40001),
        ("/query", b'{"ksql": "PRINT nothing;"}', 400, 40001),
        ("/query", b'{"ksql": "PRINT a; PRINT b;"}', 400, 40001),
        ("/query-stream", b'{"ksql": "SELECT * FROM nothing;"}', 400, 40000),
        ("/query-stream", b'{"sql": "SELECT * FROM nothing;"}', 400, 40001),
        ("/close-query", b'{"queryId": "none"}', 400, 40000),
        ("/inserts-stream", b"", 400, 40000),
        ("/inserts-stream", b"{}\n", 400, 40000),
        ("/inserts-stream", b'{"target": "nothing"}\n', 400, 40001),
        ("/ksql/terminate", b'{"deleteTopicList": "a"}', 400, 40000),
        ("/ksql/terminate", b'{"deleteTopicList": ["("]}', 400, 40000),
        ("/ksql/terminate", b'{"deleteTopicList": ["(a)\\\\1"]}', 400, 40000),
        ("/nothing", b"", 404, 40400),
        ("/info", b"", 405, 40500),
    ],
)
def test_bad_requests_have_ksqldbs_codes(
    api: httpx.Client, path: str, body: bytes, status: int, code: int
) -> None:
    answer = api.post(path, content=body)
    assert (answer.status_code, answer.json()["error_code"]) == (status, code), answer.text
    assert answer.json()["message"]


def test_error_names_what_a_body_lacks(api: httpx.Client) -> None:
    packed = api.post("/ksql", content=gzip.compress(b'{"ksql": "SHOW STREAMS;"}'))
    assert "without compression" in packed.json()["message"]
    closed = api.post("/close-query", json={})
    assert closed.json()["message"] == "The body must have the text queryId: the id of the query"


def test_statement_over_one_megabyte_is_refused(api: httpx.Client) -> None:
    text = f"CREATE TYPE big AS STRUCT<{'x' * (1 << 20)} INT>;"
    answer = ksql(api, text)
    assert (answer.status_code, answer.json()["error_code"]) == (413, 41300)


def test_properties_and_variables_hold_for_their_request(api: httpx.Client) -> None:
    text = "DEFINE a = '1'; SET 'auto.offset.reset'='latest'; SHOW VARIABLES; SHOW PROPERTIES;"
    given = {"ksql.streams.auto.offset.reset": "earliest", "x": 1}
    more = {"streamsProperties": given, "sessionVariables": {"b": "2"}}
    variables, properties = entities(ksql(api, text, **more))
    assert variables["variables"] == [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]
    assert properties["overwrittenProperties"] == ["auto.offset.reset", "x"]
    values = {each["name"]: each["value"] for each in properties["properties"]}
    assert (values["auto.offset.reset"], values["x"]) == ("latest", "1")
    (after,) = entities(ksql(api, "SHOW VARIABLES;"))
    assert after["variables"] == []


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("SHOW STREAMS;", {"ksql.streams.auto.offset.reset": "newest"}),
        ("SET 'ksql.streams.auto.offset.reset'='newest'; SHOW STREAMS;", {}),
    ],
)
def test_value_that_a_property_cannot_have_is_refused(
    api: httpx.Client, text: str, given: dict[str, str]
) -> None:
    answer = ksql(api, text, streamsProperties=given)
    assert (answer.status_code, answer.json()["error_code"]) == (400, 40001)
    assert "auto.offset.reset is earliest or latest, and not 'newest'" in answer.json()["message"]


def test_extended_list_describes_each_source(api: httpx.Client) -> None:
    created, listed = entities(ksql(api, f"{STREAM.format('x1')} SHOW STREAMS EXTENDED;"))
    assert created["commandStatus"]["status"] == "SUCCESS"
    (found,) = [each for each in listed["sourceDescriptions"] if each["name"] == "X1"]
    assert (listed["@type"], found["extended"]) == ("source_descriptions", True)


def test_variables_of_a_request_are_replaced(api: httpx.Client) -> None:
    text = "CREATE TYPE ${name} AS INT;"
    (created,) = entities(ksql(api, text, sessionVariables={"name": "v1"}))
    assert created["commandId"] == "type/`V1`/create"


def test_command_numbers_order_requests(api: httpx.Client) -> None:
    (created,) = entities(ksql(api, "CREATE TYPE n1 AS INT;"))
    number = created["commandSequenceNumber"]
    assert entities(ksql(api, "SHOW TYPES;", commandSequenceNumber=number))


def test_states_of_commands(api: httpx.Client) -> None:
    entities(ksql(api, STREAM.format("s1")))
    assert api.get("/status").json()["commandStatuses"]["stream/`S1`/create"] == "SUCCESS"
    assert api.get("/status/stream/S1/create").json()["status"] == "SUCCESS"
    assert api.get("/status/stream/%60S1%60/create").json()["message"]
    missing = api.get("/status/stream/S2/create")
    assert (missing.status_code, missing.json()["error_code"]) == (404, 40400)


def test_server_answers_what_it_is(node: Node, api: httpx.Client) -> None:
    server = api.get("/info").json()["KsqlServerInfo"]
    assert set(server) == {"version", "kafkaClusterId", "ksqlServiceId", "serverStatus"}
    assert server["kafkaClusterId"]
    assert api.get("/").headers["location"] == "/info"
    health = api.get("/healthcheck").json()
    assert health["isHealthy"] is True
    assert health["details"]["kafka"] == {"isHealthy": True}
    (host,) = api.get("/clusterStatus").json()["clusterStatus"]
    assert host == str(api.base_url).partition("://")[2].strip("/")
    ids = api.get("/v1/metadata/id").json()
    assert ids["scope"]["clusters"]["kafka-cluster"] == server["kafkaClusterId"]
    assert api.get("/v1/metadata").json() == {"version": server["version"], "clusterId": ids}
    assert api.get("/v1/metadata/x").status_code == 404


def test_property_of_the_server_is_not_valid(api: httpx.Client) -> None:
    assert api.get("/is_valid_property/auto.offset.reset").json() is True
    refused = api.get("/is_valid_property/ksql.service.id")
    assert (refused.status_code, refused.json()["error_code"]) == (400, 40000)


@pytest.mark.parametrize(
    ("accept", "status", "kind"),
    [
        ("", 200, V1_JSON),
        ("*/*", 200, V1_JSON),
        (JSON, 200, JSON),
        (V1_JSON, 200, V1_JSON),
        (f"{V1_JSON}; q=0.5, {JSON}; q=0.9", 200, JSON),
        ("text/html", 406, JSON),
    ],
)
def test_answer_has_the_type_that_the_client_accepts(
    api: httpx.Client, accept: str, status: int, kind: str
) -> None:
    answer = api.get("/info", headers={"accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (status, kind)


def test_page_of_another_origin_cannot_send_statements(api: httpx.Client) -> None:
    headers = {"origin": "http://example.com", "content-type": "text/plain"}
    body = json.dumps({"ksql": "CREATE TYPE o1 AS INT;"})
    refused = api.post("/ksql", content=body, headers=headers)
    assert (refused.status_code, refused.json()["error_code"]) == (415, 41500)
    assert "O1" not in entities(ksql(api, "SHOW TYPES;"))[0]["types"]


def test_print_sends_records_up_to_its_limit(node: Node, api: httpx.Client) -> None:
    entities(ksql(api, STREAM.format("p1")))
    produce(node, "p1", '{"MS": 1}', '{"MS": 2}', "\x00")
    body = {"ksql": "PRINT p1 FROM BEGINNING INTERVAL 2 LIMIT 2;"}
    lines = api.post("/query", json=body).text.splitlines()
    assert [line.partition("value: ")[2].partition(", partition")[0] for line in lines] == [
        '{"MS": 1}',
        "0x00",
    ]


def test_print_that_fails_ends_with_its_error(
    node: Node, api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    entities(ksql(api, STREAM.format("p2")))
    produce(node, "p2", "1")

    def fail(lines: TopicLines, timeout_s: float) -> None:
        del lines, timeout_s
        raise UnresolvedError("The topic cannot be read: gone")

    monkeypatch.setattr(TopicLines, "take", fail)
    answer = api.post("/query", json={"ksql": "PRINT p2 FROM BEGINNING;"})
    assert (answer.status_code, answer.text) == (200, "The topic cannot be read: gone\n")
    executor = RemoteExecutor(SqlClient(str(api.base_url), None, None, 60.0))
    with pytest.raises(CliError, match=r"^The topic cannot be read: gone$"):
        run_scripts(executor, [Script("PRINT p2 FROM BEGINNING;")], as_json=False)


def test_failed_assertion_ends_the_request(api: httpx.Client) -> None:
    create = STREAM.format("v1")
    script = f"{create} ASSERT TOPIC v1 WITH (partitions=2, replicas=1);\n"
    script += "ASSERT NOT EXISTS TOPIC v1 TIMEOUT 1 SECOND; CREATE TYPE v2 AS INT;"
    answer = ksql(api, script)
    assert answer.status_code == 417
    body = answer.json()
    assert (body["@type"], body["error_code"]) == ("statement_error", 41700)
    assert body["message"] == "line 2:25: Topic v1 exists"
    assert body["statementText"] == "ASSERT NOT EXISTS TOPIC v1 TIMEOUT 1 SECOND;"
    created, asserted = body["entities"]
    assert created["commandId"] == "stream/`V1`/create"
    assert (asserted["@type"], asserted["topicName"], asserted["exists"]) == (
        "assert_topic",
        "v1",
        True,
    )
    assert "V2" not in entities(ksql(api, "SHOW TYPES;"))[0]["types"]


def test_topic_that_is_created_in_time_is_found(node: Node, api: httpx.Client) -> None:
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(ksql, api, "ASSERT TOPIC v3 TIMEOUT 1 HOUR;")
        produce(node, "v3", "a")
        (asserted,) = entities(waiting.result(120))
    assert asserted["topicName"] == "v3"


def test_assertion_ends_with_its_connection(
    api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, ended = threading.Event(), threading.Event()
    wait = sql_context._wait

    def noted(seconds: float) -> None:
        waits.set()
        try:
            wait(seconds)
        except trio.Cancelled:
            ended.set()
            raise

    monkeypatch.setattr(sql_context, "_wait", noted)
    body = b'{"ksql": "ASSERT TOPIC v4 TIMEOUT 1 HOUR;"}'
    with socket.create_connection((api.base_url.host, api.base_url.port or 0)) as client:
        client.sendall(b"POST /ksql HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body))
        client.sendall(body)
        assert waits.wait(120)
    assert ended.wait(120), "the statement waits for a client that has gone"


def test_command_prints_assertions(api: httpx.Client, capsys: pytest.CaptureFixture[str]) -> None:
    executor = RemoteExecutor(SqlClient(str(api.base_url), None, None, 60.0))
    script = "ASSERT NOT EXISTS TOPIC v5;\n  ASSERT TOPIC v5 TIMEOUT 0 SECONDS;"
    with pytest.raises(CliError, match=r"^line 2:16: Topic v5 does not exist$"):
        run_scripts(executor, [Script(script)], as_json=False)
    assert capsys.readouterr().out == "Topic v5 does not exist.\n"


def test_statements_that_had_nothing_to_do_are_answered_as_ksqldb_does(
    node: Node, api: httpx.Client
) -> None:
    again = STREAM.format("w1").replace("CREATE STREAM", "CREATE STREAM IF NOT EXISTS")
    created, skipped = entities(ksql(api, f"{STREAM.format('w1')} {again}"))
    assert created["@type"] == "currentStatus"
    assert skipped == {
        "@type": "warning_entity",
        "statementText": again,
        "message": "Cannot add stream `W1`: A stream with the same name already exists.",
        "warnings": [],
    }
    (dropped,) = entities(ksql(api, "DROP STREAM IF EXISTS w2 DELETE TOPIC;"))
    assert dropped["commandId"] == "stream/`W2`/drop"
    assert dropped["commandStatus"]["message"] == "Source `W2` does not exist."


def running(api: httpx.Client) -> list[Any]:
    """Start as many push queries as may run, and return their responses."""
    found: list[Any] = []
    for _ in range(PUSH_QUERIES_MAX):
        stream = api.stream("POST", "/query", json={"ksql": "PRINT q1 FROM BEGINNING;"})
        response = stream.__enter__()
        assert response.status_code == 200
        lines = response.iter_lines()
        assert next(lines).endswith("partition: 0")
        found.append((stream, lines))  # without its lines, a response is closed
    return found


def test_push_queries_are_limited_and_end_with_their_connections(
    node: Node, api: httpx.Client
) -> None:
    entities(ksql(api, STREAM.format("q1").replace("partitions=2", "partitions=1")))
    produce(node, "q1", "1")
    streams = running(api)

    def refused() -> httpx.Response:
        return api.post("/query", json={"ksql": "PRINT q1 FROM BEGINNING LIMIT 1;"})

    answer = refused()
    assert (answer.status_code, answer.json()["error_code"]) == (400, 40003)
    for stream, _ in streams:
        stream.__exit__(None, None, None)
    wait_until(lambda: refused().status_code == 200)


def test_terminate_drops_everything(node: Node) -> None:
    with live_sql(node.bootstrap) as api:
        entities(ksql(api, f"{STREAM.format('t1')} {STREAM.format('t2')}"))
        (done,) = api.post("/ksql/terminate", json={"deleteTopicList": ["t1"]}).json()
        assert done["commandId"] == "cluster/TerminateCluster/terminate"
        streams, topics = entities(ksql(api, "SHOW STREAMS; SHOW TOPICS;"))
        assert streams["streams"] == []
        # Only topics that queries have made are deleted.
        assert {"t1", "t2"} <= {each["name"] for each in topics["topics"]}


def test_other_address_needs_authentication() -> None:
    with pytest.raises(HttpStartError, match="without authentication: statements read"):
        SqlListen(ListenAddress("0.0.0.0", 0)).check()
    SqlListen(ListenAddress("0.0.0.0", 0), HttpOptions(auth="kafka")).check()
