"""ksqlDB's REST API of `barnabas pipelines --sql`: rows in and out, and an existing client."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from confluent_kafka import Producer
from websockets.sync.client import ClientConnection, connect

from barnabas.pipeline.sql.imports.ksqldb_commands import topic_of
from barnabas.testing.eventually import wait_until
from barnabas.testing.free_ports import free_ports
from compat_tests import spark
from compat_tests.pace import WAIT_S
from compat_tests.pipeline.connect_workers import RunnerProcess
from compat_tests.servers import ServerProcess
from compat_tests.sql_case_files import rest_cases_of
from compat_tests.sql_rest_case_runs import RestServers
from tests.pipeline.rest.sql.kafbat_client import select_tables, statement_tables
from tests.pipeline.sql.test_imports import record
from tests.registry.live_registry import live_registry

pytestmark = [pytest.mark.timeout(400), pytest.mark.barnabas_only, spark.needed]

KSQLDB = """
import asyncio, functools, json, sys
import httpx
from ksqldb import KSQLdbClient

# The package leaves an insert the 5 s of httpx, which a loaded machine may not keep.
httpx.Client = functools.partial(httpx.Client, timeout=200)
url, name = sys.argv[1:]
client = KSQLdbClient(url)

async def pushed():
    text = f"SELECT id FROM {name} EMIT CHANGES LIMIT 3;"
    return [each async for each in client.query_async(text, timeout=200)][1:]

found = {
    "properties": any(each["name"] == "auto.offset.reset" for each in client.get_properties()),
    "streams": name in [each["name"] for each in client.ksql("SHOW STREAMS;")[0]["streams"]],
    "pulled": client.query_sync(f"SELECT id, ms FROM {name};", timeout=200)[1:],
    "inserted": client.inserts_stream(name, [{"ID": "f", "MS": 6}]),
    "pushed": asyncio.run(pushed()),
}
print(json.dumps(found))
"""


class SqlRunner(RunnerProcess):
    """A runner with SQL."""

    sql_port = 0

    def command(self) -> list[str]:
        directory = self.directory / "checkpoints"
        more = ("--set", f"checkpoint.dir={directory}", "--sql")
        return [*super().command(), *more, "--sql-listen", f"127.0.0.1:{self.sql_port}"]


@pytest.fixture(scope="module")
def runner(
    server: ServerProcess | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SqlRunner]:
    """A runner for all tests of this module."""
    if server is None:
        pytest.skip("needs a server that this suite starts")
    found = SqlRunner(server.bootstrap, tmp_path_factory.mktemp("sql-rest"), "sql-rest")
    (found.sql_port,) = free_ports(1)
    found.start()
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def api(runner: SqlRunner) -> Iterator[httpx.Client]:
    url = f"http://127.0.0.1:{runner.sql_port}"
    with httpx.Client(base_url=url, timeout=WAIT_S) as client:
        yield client


@pytest.fixture
def clicks(api: httpx.Client, unique: Callable[[str], str]) -> str:
    return created_clicks(api, unique)


def created_clicks(api: httpx.Client, unique: Callable[[str], str]) -> str:
    """Create a stream with two rows, and return its name."""
    name = unique("clicks").replace("-", "_").upper()
    text = f"CREATE STREAM {name} (id STRING KEY, ms BIGINT, at DECIMAL(4, 2)) WITH ("
    text += f"kafka_topic='{name}', value_format='JSON', partitions=1);"
    assert api.post("/ksql", json={"ksql": text}).status_code == 200
    rows = [{"target": name}, {"id": "a", "ms": 1}, {"ID": "b", "MS": 2, "AT": 1.25}]
    assert inserted(api, rows) == [{"status": "ok", "seq": 0}, {"status": "ok", "seq": 1}]
    return name


def inserted(api: httpx.Client, lines: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return the answers to rows, each sent as a separate part."""
    parts = (f"{json.dumps(line)}\n".encode() for line in lines)
    answer = api.post("/inserts-stream", content=parts)
    return [json.loads(line) for line in answer.text.splitlines()]


def test_rows_are_pushed_pulled_and_inserted(api: httpx.Client, clicks: str) -> None:
    check_rows(api, clicks)


def test_runner_that_stands_by_takes_the_same_requests(
    runner: SqlRunner,
    api: httpx.Client,
    tmp_path: Path,
    unique: Callable[[str], str],
) -> None:
    """`api` is the active runner: it is there first."""
    assert api.get("/info").status_code == 200
    second = SqlRunner(runner.bootstrap, tmp_path, runner.group)
    (second.sql_port,) = free_ports(1)
    second.start()
    try:
        url = f"http://127.0.0.1:{second.sql_port}"
        with httpx.Client(base_url=url, timeout=WAIT_S) as standby:
            check_rows(standby, created_clicks(standby, unique))
    finally:
        second.stop()


def check_rows(api: httpx.Client, clicks: str) -> None:
    """Push, insert, pull, and push up to a limit."""
    push = {"sql": f"SELECT id, at FROM {clicks} EMIT CHANGES;"}
    with api.stream("POST", "/query-stream", json=push) as response:
        lines = response.iter_lines()
        head, *rows = [json.loads(line) for line in islice(lines, 3)]
        assert (head["columnNames"], head["columnTypes"]) == (
            ["ID", "AT"],
            ["STRING", "DECIMAL(4, 2)"],
        )
        assert rows == [["a", None], ["b", 1.25]]
        assert inserted(api, [{"target": clicks}, {"id": "c"}]) == [{"status": "ok", "seq": 0}]
        assert json.loads(next(lines)) == ["c", None]
        close = {"queryId": head["queryId"]}
        assert api.post("/close-query", json=close).status_code == 200
        assert list(lines) == []
    body = {"ksql": f"SELECT id, ms + 1 AS n FROM {clicks} WHERE ms > 0;"}
    header, *pulled, end = api.post("/query", json=body).json()
    assert end == {"finalMessage": "Query Completed"}
    assert header["header"]["schema"] == "`ID` STRING, `N` BIGINT"
    assert [each["row"]["columns"] for each in pulled] == [["a", 2], ["b", 3]]
    limited = {"ksql": f"SELECT id FROM {clicks} EMIT CHANGES LIMIT 1;"}
    assert api.post("/query", json=limited).json()[1:] == [
        {"row": {"columns": ["a"]}},
        {"finalMessage": "Limit Reached"},
    ]
    check_socket(api, clicks)


def check_socket(api: httpx.Client, clicks: str) -> None:
    """Push up to a limit, push until this client leaves, pull, and print over WebSockets."""
    with opened(api, f"SELECT id, at FROM {clicks} EMIT CHANGES LIMIT 2;") as socket:
        columns, *rows, end = [json.loads(each) for each in socket]
        assert [each["name"] for each in columns] == ["ID", "AT"]
        assert columns[1]["schema"]["parameters"] == {"precision": 4, "scale": 2}
        assert [each["row"]["columns"] for each in rows] == [["a", None], ["b", 1.25]]
        assert end == {"error": "done"}
        assert (socket.close_code, socket.close_reason) == (1000, "done")
    with opened(api, f"SELECT id FROM {clicks} EMIT CHANGES;") as socket:
        found = [json.loads(socket.recv(WAIT_S)) for _ in range(4)]
        assert [each["row"]["columns"] for each in found[1:]] == [["a"], ["b"], ["c"]]
        assert inserted(api, [{"target": clicks}, {"id": "d"}]) == [{"status": "ok", "seq": 0}]
        assert json.loads(socket.recv(WAIT_S)) == {"row": {"columns": ["d"]}}
    with opened(api, f"SELECT ms FROM {clicks} WHERE ms = 2;") as socket:
        assert [json.loads(each) for each in socket][1:] == [
            {"row": {"columns": [2]}},
            {"error": "done"},
        ]
    with opened(api, f"PRINT {clicks} FROM BEGINNING LIMIT 1;") as socket:
        line, end = [json.loads(each) for each in socket]
        assert "key: a, value: " in line
        assert end == {"error": "done"}


def opened(api: httpx.Client, text: str) -> ClientConnection:
    """Open the WebSocket of a query."""
    request = urlencode({"request": json.dumps({"ksql": text})})
    url = f"ws://{api.base_url.host}:{api.base_url.port}/ws/query?{request}"
    found: Any = connect(url, open_timeout=WAIT_S, ping_timeout=None, proxy=None)
    return found


def test_topics_are_asserted(
    server: ServerProcess, api: httpx.Client, clicks: str, unique: Callable[[str], str]
) -> None:
    late = unique("late")
    with ThreadPoolExecutor() as threads:
        script = f"ASSERT TOPIC {clicks} WITH (partitions=1, replicas=1); "
        script += f"ASSERT TOPIC '{late}' TIMEOUT {WAIT_S:.0f} SECONDS;"
        waiting = threads.submit(api.post, "/ksql", json={"ksql": script})
        producer = Producer({"bootstrap.servers": server.bootstrap})
        producer.produce(late, "a")
        assert producer.flush(WAIT_S) == 0
        answer = waiting.result(WAIT_S)
    assert answer.status_code == 200, answer.text
    found = [(each["@type"], each["topicName"], each["exists"]) for each in answer.json()]
    assert found == [("assert_topic", clicks, True), ("assert_topic", late, True)]
    wrong = api.post("/ksql", json={"ksql": f"ASSERT TOPIC {clicks} WITH (partitions=3);"})
    assert (wrong.status_code, wrong.json()["error_code"]) == (417, 41700)
    assert wrong.json()["message"] == (
        f"line 1:14: Mismatched configuration for topic {clicks}: For config partitions, "
        "expected 3 got 1"
    )


def test_row_that_does_not_fit_ends_the_inserts(api: httpx.Client, clicks: str) -> None:
    lines = [{"target": clicks}, {"id": "d", "ms": "x"}, {"id": "e"}]
    (failed,) = inserted(api, lines)
    assert (failed["status"], failed["seq"], failed["error_code"]) == ("error", 0, 40000)
    (failed,) = inserted(api, [{"target": clicks}, {"mss": 1}])
    assert failed["message"] == f"{clicks} has no column MSS; did you mean MS?"
    found = api.post("/query", json={"ksql": f"SELECT id FROM {clicks};"}).json()
    assert [each["row"]["columns"] for each in found[1:-1]] == [["a"], ["b"]]


def test_times_are_texts_and_decimals_keep_their_digits(
    api: httpx.Client, unique: Callable[[str], str]
) -> None:
    """As ksqlDB's `ApiJsonMapper` writes them, and its inserts read them."""
    name = unique("times").replace("-", "_").upper()
    columns = "id INT, at TIMESTAMP, day DATE, hour TIME, s STRUCT<at TIMESTAMP>"
    text = f"CREATE STREAM {name} ({columns}, price DECIMAL(20, 2)) WITH ("
    text += f"kafka_topic='{name}', value_format='JSON', partitions=1);"
    assert api.post("/ksql", json={"ksql": text}).status_code == 200
    price = "123456789012345678.50"
    row = {"at": "2021-11-19T08:10:09.5", "day": "2021-11-19", "hour": "08:10", "price": price}
    rows = [{"target": name}, {"id": 1, **row}, {"id": 2, "at": 7, "s": {"at": 7}}]
    assert [each["status"] for each in inserted(api, rows)] == ["ok", "ok"]
    (failed,) = inserted(api, [{"target": name}, {"day": "2021-11-31"}])
    assert failed["error_code"] == 40000
    found = api.post("/query", json={"ksql": f"SELECT * FROM {name};"}).text.splitlines()
    assert found[1:-1] == [
        f'{{"row":{{"columns":[1,"{row["at"]}00","2021-11-19","08:10",null,{price}]}}}},',
        '{"row":{"columns":[2,"1970-01-01T00:00:00.007",null,null,{"AT":7},null]}},',
    ]


def test_connector_writes_the_topic_of_a_stream(
    api: httpx.Client, unique: Callable[[str], str], tmp_path: Path
) -> None:
    name = unique("lines").replace("-", "_").upper()
    file = tmp_path / "lines"
    file.write_text("one\ntwo\n")
    properties = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "file": str(file),
        "topic": name,
    }
    pairs = ", ".join(f"'{each}'='{value}'" for each, value in properties.items())
    text = f"CREATE SOURCE CONNECTOR {name} WITH ({pairs}); CREATE STREAM {name} (line STRING) "
    text += f"WITH (kafka_topic='{name}', value_format='KAFKA', partitions=1);"
    created, _ = api.post("/ksql", json={"ksql": text}).json()
    assert (created["info"]["name"], created["info"]["type"]) == (name, "source")
    assert str(file) not in created["statementText"]

    def sources() -> list[str]:
        answer = api.post("/ksql", json={"ksql": f"DESCRIBE CONNECTOR {name};"})
        found = answer.json()[0]["sources"] if answer.status_code == 200 else []
        return [each["name"] for each in found]

    wait_until(lambda: sources() == [name], WAIT_S)
    rows = api.post("/query", json={"ksql": f"SELECT * FROM {name};"}).json()
    assert [each["row"]["columns"] for each in rows[1:-1]] == [["one"], ["two"]]
    (listed,) = api.post("/ksql", json={"ksql": "SHOW SOURCE CONNECTORS;"}).json()
    assert [each["state"] for each in listed["connectors"]] == ["RUNNING (1/1 tasks RUNNING)"]
    (dropped,) = api.post("/ksql", json={"ksql": f"DROP CONNECTOR {name};"}).json()
    assert (dropped["@type"], dropped["connectorName"]) == ("drop_connector", name)


def test_command_prints_rows_of_the_server(api: httpx.Client, clicks: str) -> None:
    text = f"SELECT id, at FROM {clicks} EMIT CHANGES LIMIT 2; SELECT ms FROM {clicks};"
    command = [sys.executable, "-m", "barnabas", "sql", "--server", str(api.base_url), "--json"]
    found = subprocess.run(
        [*command, "-e", text], stdout=subprocess.PIPE, timeout=WAIT_S, check=True
    )
    assert [json.loads(line) for line in found.stdout.splitlines()] == [
        {"ID": "a", "AT": None},
        {"ID": "b", "AT": 1.25},
        {"MS": 1},
        {"MS": 2},
    ]


def test_persistent_query_is_shown_and_pulled_by_its_key(api: httpx.Client, clicks: str) -> None:
    table = f"T_{clicks}"
    text = f"CREATE TABLE {table} AS SELECT id, COUNT(*) AS n FROM {clicks} GROUP BY id;"
    (created,) = api.post("/ksql", json={"ksql": text}).json()
    query = created["commandStatus"]["queryId"]

    def pulled(condition: str) -> list[object]:
        body = {"ksql": f"SELECT id, n FROM {table} WHERE id {condition};"}
        return [each["row"]["columns"] for each in api.post("/query", json=body).json()[1:]]

    wait_until(lambda: pulled("= 'a'") == [["a", 1]], WAIT_S)
    inserted(api, [{"target": clicks}, {"id": "a"}])
    wait_until(lambda: pulled("= 'a'") == [["a", 2]], WAIT_S)
    assert pulled("IN ('b', 'none', 'a', 'b')") == [["b", 1], ["a", 2]]
    # The topic has two records of this key, of which a SELECT on Spark takes the newest.
    header, *rows = api.post("/query", json={"ksql": f"SELECT id, n + 1 AS m FROM {table};"}).json()
    assert header["header"]["schema"] == "`ID` STRING KEY, `M` BIGINT"
    assert sorted(each["row"]["columns"] for each in rows) == [["a", 3], ["b", 2]]
    queries, described = api.post("/ksql", json={"ksql": f"SHOW QUERIES; DESCRIBE {table};"}).json()
    assert [each["sinks"] for each in queries["queries"] if each["id"] == query] == [[table]]
    assert described["sourceDescription"]["writeQueries"][0]["id"] == query
    drop = {"ksql": f"TERMINATE {query}; DROP TABLE {table};"}
    assert [each["@type"] for each in api.post("/ksql", json=drop).json()] == ["currentStatus"] * 2


@pytest.mark.parametrize(
    ("where", "before", "last"),
    [("", [b'{"V": 1}'], None), ("WHERE v > 0", [b'{"V": 0}', b'{"V": 1}'], b'{"V": -1}')],
)
def test_deleted_row_of_a_table_is_a_tombstone(
    api: httpx.Client,
    runner: SqlRunner,
    unique: Callable[[str], str],
    where: str,
    before: list[bytes],
    last: bytes | None,
) -> None:
    name = unique("table").replace("-", "_").upper()
    text = f"CREATE TABLE {name} (id STRING PRIMARY KEY, v INT) WITH (kafka_topic='{name}', "
    text += "value_format='JSON', partitions=1);"
    assert api.post("/ksql", json={"ksql": text}).status_code == 200
    producer: Any = Producer({"bootstrap.servers": runner.bootstrap})
    push = {"ksql": f"SELECT v, id FROM {name} {where} EMIT CHANGES LIMIT 2;"}
    with api.stream("POST", "/query", json=push) as response:
        lines = response.iter_lines()
        next(lines)
        for values, row in (
            (before, {"columns": [1, "a"]}),
            ([last], {"columns": [None, "a"], "tombstone": True}),
        ):
            for value in values:
                producer.produce(name, value, b"a")
            assert producer.flush(30) == 0
            assert json.loads(next(lines).rstrip(",")) == {"row": row}


def rest_case(name: str, *statements: str, **fields: object) -> dict[str, object]:
    return {"name": name, "statements": statements, **fields}


def test_cases_of_ksqldb_pass_or_are_named_with_the_difference(
    runner: SqlRunner, unique: Callable[[str], str], tmp_path: Path
) -> None:
    stream, topic = unique("s").replace("-", "_"), unique("t")
    create = f"CREATE STREAM {stream} (k STRING KEY, v INT) WITH (kafka_topic='{topic}', "
    create += "value_format='JSON');"
    rows = [{"header": {"schema": "`V` INTEGER"}}, {"row": {"columns": [1]}}]
    answers = {
        "inputs": [{"topic": topic, "key": "a", "value": {"V": 1}}],
        "responses": [
            {"admin": {"@type": "currentStatus"}},
            {"query": [*rows, {"finalMessage": "Limit Reached"}]},
        ],
    }
    push = f"SELECT v FROM {stream} EMIT CHANGES LIMIT 1;"
    late = {
        "properties": {"auto.offset.reset": "latest"},
        "inputConditions": {"waitForActivePushQuery": True},
    }
    copied = f"CREATE STREAM {stream}_copy WITH (kafka_topic='{topic}-copy') AS "
    copied += f"SELECT * FROM {stream};"
    copy = {
        **answers,
        "responses": [answers["responses"][0], *answers["responses"]],
        "outputs": [{"topic": f"{topic}-copy", "key": "a", "value": {"V": 1}}],
    }
    table = create.replace("CREATE STREAM", "CREATE SOURCE TABLE").replace(" KEY", " PRIMARY KEY")
    keys = [9, 80, 10]
    found_rows = [{"row": {"columns": [each, 1]}} for each in sorted(keys)[:2]]
    limited = {
        "inputs": [{"topic": topic, "key": each, "value": {"V": 1}} for each in keys],
        "responses": [
            answers["responses"][0],
            {"query": [{"header": {"schema": "`K` INTEGER KEY, `V` INTEGER"}}, *found_rows]},
        ],
    }
    counts = [{"header": {"schema": "`N` BIGINT"}}]
    counts += [{"row": {"columns": [each]}} for each in (1, 2)]
    counted = {
        **answers,
        "inputs": answers["inputs"] * 2,
        "responses": [
            answers["responses"][0],
            {"query": [*counts, {"finalMessage": "Limit Reached"}]},
        ],
    }
    count = f"SELECT COUNT(*) AS n FROM {stream} EMIT CHANGES LIMIT 2;"
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "long"}]}
    fields = [{"name": "v", "type": "Inner"}]
    schema = {
        "name": topic,
        "valueFormat": "AVRO",
        "valueSchema": {"type": "record", "name": "Outer", "fields": fields},
        "valueSchemaId": 5,
        "valueSchemaReferences": [{"name": "Inner", "schema": inner, "format": "AVRO"}],
    }
    tests = [
        rest_case("registered", create, push, **answers, topics=[schema]),
        rest_case("registered again", create, push, **answers, topics=[schema]),
        rest_case("counted", create, count, **counted),
        rest_case(
            "limited", table.replace("STRING", "INT"), f"SELECT * FROM {stream} LIMIT 2;", **limited
        ),
        rest_case("copied", create, copied, push.replace(" EMIT", "_copy EMIT"), **copy),
        rest_case("pushed", create, push, **answers, **late),
        rest_case("other", create, f"SELECT v + 1 AS v FROM {stream};", **answers),
        rest_case("error", create, "SELECT x FROM nothing;", expectedError={"status": 400}),
    ]
    (tmp_path / "own.json").write_text(json.dumps({"tests": tests}))
    with live_registry(runner.bootstrap, unique("_schemas_of_rest")) as registry:
        url = f"http://127.0.0.1:{runner.sql_port}"
        with RestServers(runner.bootstrap, registry, url, wait_s=0, push_s=WAIT_S) as servers:
            found = [servers.failure_of(each) for each in rest_cases_of(tmp_path)]
    message = "the final message is Query Completed, and not Limit Reached"
    assert found == [*[None] * 6, f"differs: {message}", None]


def test_ksqldb_of_pypi(api: httpx.Client, clicks: str) -> None:
    # In a process that ends: the package closes none of its connections.
    command = [sys.executable, "-c", KSQLDB, str(api.base_url).rstrip("/"), clicks]
    found = subprocess.run(command, stdout=subprocess.PIPE, timeout=WAIT_S, check=True)
    assert json.loads(found.stdout) == {
        "properties": True,
        "streams": True,
        "pulled": [["a", 1], ["b", 2]],
        "inserted": [{"status": "ok", "seq": 0}],
        "pushed": [["a"], ["b"], ["f"]],
    }


def test_rows_of_kafbat_ui_come_one_by_one(api: httpx.Client, clicks: str) -> None:
    push = f"SELECT id, ms, STRUCT(a := ms, b := 'x') AS s FROM {clicks} EMIT CHANGES;"
    found = select_tables(api, push, {"auto.offset.reset": "earliest"})
    columns, *rows = islice(found, 3)
    last = "`S` STRUCT<`A` BIGINT, `B` STRING>"
    assert columns == ("Schema", ["`ID` STRING", "`MS` BIGINT", last], [], False)
    assert [each.rows[0][:2] for each in rows] == [["a", 1], ["b", 2]]
    (done,) = statement_tables(api, f"INSERT INTO {clicks} (id, ms) VALUES ('c', 3);")
    assert done == ("Query Result", ["Result"], [["Success"]], False)
    assert next(found).rows == [["c", 3, {"A": 3, "B": "x"}]]
    found.close()
    pulled = list(select_tables(api, f"SELECT id FROM {clicks} WHERE ms > 1;", {}))
    assert [each.rows for each in pulled] == [[], [["b"]], [["c"]]]
    (explained,) = statement_tables(api, f"EXPLAIN {push}")
    assert explained.title == "Queries Description"
    assert explained.dicts()[0]["sources"] == [clicks]


def test_statements_of_a_ksqldb_server_are_imported(
    api: httpx.Client, runner: SqlRunner, clicks: str, unique: Callable[[str], str]
) -> None:
    kept, ended, bad = (f"{each}_{clicks}" for each in ("KEPT", "ENDED", "BAD"))
    made = "CREATE STREAM {} WITH (KAFKA_TOPIC='{}', PARTITIONS=1, REPLICAS=1) AS SELECT\n  "
    made += f"{{}} ID,\n  {clicks}.MS MS\nFROM {clicks} {clicks}\nPARTITION BY {{}}\n"
    made += "EMIT CHANGES;"
    upper, unknown = f"UCASE({clicks}.ID)", f"ROT13({clicks}.ID)"
    service = unique("service_")
    topic = topic_of(service)
    producer: Any = Producer({"bootstrap.servers": runner.bootstrap})
    for key, value in (
        record(
            f"stream/`{clicks}`/create",
            f"CREATE STREAM {clicks} (ID STRING KEY, MS BIGINT) WITH (KAFKA_TOPIC='{clicks}', "
            "VALUE_FORMAT='JSON');",
        ),
        record(f"stream/`{kept}`/create", made.format(kept, kept, upper, upper), f"CSAS_{kept}_7"),
        record(
            f"stream/`{ended}`/create", made.format(ended, ended, upper, upper), f"CSAS_{ended}_9"
        ),
        record(f"stream/`{bad}`/create", made.format(bad, bad, unknown, unknown), f"CSAS_{bad}_11"),
        record(f"terminate/CSAS_{ended}_9/execute", f"TERMINATE CSAS_{ended}_9;"),
    ):
        producer.produce(topic, value, key)
    assert producer.flush(30) == 0

    def imported(*more: str) -> "subprocess.CompletedProcess[str]":
        program = str(Path(sys.executable).parent / "barnabas")
        where = ["--bootstrap", runner.bootstrap, "--server", str(api.base_url)]
        command = [program, "sql", "import", "--service-id", service, *where, *more]
        return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)

    plan = imported()
    assert (plan.returncode, plan.stderr) == (0, "")
    lines = [line.split() for line in plan.stdout.splitlines()]
    assert [line[:3] for line in lines[1:5]] == [
        ["is", "there", "CREATE"],
        ["create", f"CSAS_{kept}_7", "CREATE"],
        ["create", "CREATE", "STREAM"],
        ["cannot", "run", f"CSAS_{bad}_11"],
    ]
    assert "2 statements can be created" in plan.stdout
    assert "ROT13" in plan.stdout.split("cannot run: ")[1].splitlines()[1]
    done = imported("--yes", "--start", "earliest")
    assert done.returncode == 1
    assert "1 statement of 4 did not run" in done.stderr
    queries, streams = api.post("/ksql", json={"ksql": "SHOW QUERIES; SHOW STREAMS;"}).json()
    assert f"CSAS_{kept}_7" in [each["id"] for each in queries["queries"]]
    assert [each for each in queries["queries"] if each["sinks"] == [ended]] == []
    assert {kept, ended} <= {each["name"] for each in streams["streams"]}
    push = {"sql": f"SELECT id FROM {kept} EMIT CHANGES LIMIT 2;"}
    found = api.post("/query-stream", json=push).text.splitlines()[1:]
    assert [json.loads(line) for line in found] == [["A"], ["B"]]
    again = imported()
    assert "0 statements can be created" in again.stdout
    api.post("/ksql", json={"ksql": f"DROP STREAM {kept}; DROP STREAM {ended};"}).raise_for_status()
