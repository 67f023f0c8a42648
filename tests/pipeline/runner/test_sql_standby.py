"""ksqlDB's REST API of two runners: the one that stands by passes requests on."""

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import bcrypt
import httpx
import pytest
import trustme
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

pytest.importorskip("sqlglot")

from barnabas.cli.pipelines_options import Given
from barnabas.cli.pipelines_sql import sql_listener
from barnabas.http import HttpOptions, HttpTls
from barnabas.pipeline.jobs.runner_settings import RunnerSettings
from barnabas.testing import Node
from tests.pipeline.runner.live_runner import eventually, live_runner

TIMEOUT_S = 120.0
ALICE = ("alice", "secret")


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as found:
        yield found


@contextmanager
def runner(
    node: Node,
    name: str,
    *,
    url: str | None = None,
    http: HttpOptions | None = None,
    trust: ssl.SSLContext | None = None,
) -> Iterator[httpx.Client]:
    """Run a runner with SQL, and yield a client of its API; `url` is the one that others get."""
    options = http or HttpOptions()
    properties = properties_of(name)
    settings = RunnerSettings.from_properties({"bootstrap.servers": node.bootstrap, **properties})
    given = Given(None, "", None, (), (), (), True, "127.0.0.1:0", None)
    with (
        sql_listener(settings, given, options) as listener,
        live_runner(
            node.bootstrap,
            more=properties,
            serve_sql=listener.serve,
            sql_url=listener.url if url is None else url,
        ) as found,
        httpx.Client(
            base_url=listener.url,
            timeout=TIMEOUT_S,
            verify=trust or True,
            auth=None if http is None else ALICE,
        ) as client,
    ):
        eventually(found.is_healthy)
        yield client


def properties_of(group: str) -> Mapping[str, str]:
    topics = {f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")}
    sql = {"barnabas.sql.enable": "true", "barnabas.sql.storage.topic": f"{group}-sql"}
    return {"group.id": group, **topics, **sql}


def ksql(api: httpx.Client, text: str, path: str = "/ksql") -> httpx.Response:
    return api.post(path, json={"ksql": text})


def runs(api: httpx.Client) -> bool:
    return ksql(api, "SHOW TYPES;").status_code == 200


def host_of(api: httpx.Client) -> str:
    return f"{api.base_url.host}:{api.base_url.port}"


def test_statements_of_the_one_that_stands_by_run_on_the_active_one(node: Node) -> None:
    with runner(node, "standing") as active:
        eventually(lambda: runs(active))
        with runner(node, "standing") as standby:
            (created,) = ksql(standby, "CREATE TYPE t AS INT;").json()
            assert created["commandStatus"]["status"] == "SUCCESS"
            for each in (active, standby):
                (listed,) = ksql(each, "SHOW TYPES;").json()
                assert "T" in listed["types"]
                assert each.get("/status/type/T/create").json()["status"] == "SUCCESS"
                assert each.get("/info").json()["KsqlServerInfo"]["ksqlServiceId"] == "standing"
            refused = ksql(standby, "DROP TYPE nothing;")
            assert (refused.status_code, refused.json()["error_code"]) == (400, 40001)
            missing = ksql(standby, "SELECT * FROM nothing EMIT CHANGES;", "/query")
            assert (missing.status_code, missing.json()["error_code"]) == (400, 40001)
            closed = standby.post("/close-query", json={"queryId": "x"})
            assert closed.json()["message"] == "No query with id x"
            inserted = standby.post("/inserts-stream", content=b'{"target": "nothing"}\n')
            assert (inserted.status_code, inserted.json()["error_code"]) == (400, 40001)


def test_runners_show_each_other_and_what_the_active_one_runs(node: Node) -> None:
    source = "CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', "
    script = f"{source} partitions=2); CREATE STREAM c WITH (partitions=1) AS SELECT * FROM s;"
    with runner(node, "shown") as active:
        eventually(lambda: runs(active))
        query = ksql(active, script).json()[1]["commandStatus"]["queryId"]
        with runner(node, "shown") as standby:
            eventually(lambda: len(hosts(active)) == 2)
            assert hosts(active).keys() == {host_of(active), host_of(standby)}
            for each in (active, standby):
                eventually(lambda each=each: query in hosts(each)[host_of(active)])
                found = hosts(each)[host_of(active)][query]
                assert found["activePartitions"] == [
                    {"topic": "s", "partition": 0},
                    {"topic": "s", "partition": 1},
                ]
                assert hosts(each)[host_of(standby)] == {}
        eventually(lambda: hosts(active).keys() == {host_of(active)})


def hosts(api: httpx.Client) -> dict[str, dict[str, dict[str, object]]]:
    """Return the queries of each server that is alive."""
    found = api.get("/clusterStatus").json()["clusterStatus"]
    return {
        host: each["activeStandbyPerQuery"] for host, each in found.items() if each["hostAlive"]
    }


def test_runner_that_takes_over_knows_the_commands_of_what_is_there(node: Node) -> None:
    with runner(node, "over") as first:
        eventually(lambda: runs(first))
        assert ksql(first, "CREATE TYPE kept AS INT; CREATE TYPE gone AS INT; DROP TYPE gone;")
    with runner(node, "over") as second:
        eventually(lambda: runs(second))
        known = second.get("/status/type/KEPT/create").json()
        assert known == {"status": "SUCCESS", "message": "created type KEPT", "queryId": None}
        for path in ("type/GONE/create", "type/GONE/drop", "type/KEPT/drop", "stream/KEPT/create"):
            missing = second.get(f"/status/{path}")
            assert (missing.status_code, missing.json()["error_code"]) == (404, 40400)
            assert missing.json()["message"].startswith(f"Command not found: {path}. This server")


@pytest.fixture
def secured(tmp_path: Path) -> tuple[HttpOptions, ssl.SSLContext]:
    """TLS with a certificate that runners share, and passwords; and how a client trusts them."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    certificate, key, users = (tmp_path / name for name in ("cert.pem", "key.pem", "users"))
    chain = [*issued.cert_chain_pems, authority.cert_pem]
    certificate.write_bytes(b"".join(each.bytes() for each in chain))
    key.write_bytes(issued.private_key_pem.bytes())
    name, password = ALICE
    users.write_text(f"{name}:{bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()}\n")
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    return HttpOptions(HttpTls(certificate, key), password_file=users), trust


def test_requests_pass_on_over_tls_with_the_password_of_the_caller(
    node: Node, secured: tuple[HttpOptions, ssl.SSLContext]
) -> None:
    http, trust = secured
    with runner(node, "secured", http=http, trust=trust) as active:
        eventually(lambda: runs(active))
        with runner(node, "secured", http=http, trust=trust) as standby:
            assert standby.base_url.scheme == "https"
            (created,) = ksql(standby, "CREATE TYPE t AS INT;").json()
            assert created["commandStatus"]["status"] == "SUCCESS"
            assert "T" in ksql(active, "SHOW TYPES;").json()[0]["types"]
            wrong = standby.post("/ksql", json={"ksql": "SHOW TYPES;"}, auth=("alice", "x"))
            assert wrong.status_code == 401
            end = socket_end(standby, trust, "SELECT * FROM nothing EMIT CHANGES;")
            assert end[0] == 1003
            assert end[1].startswith("line 1:15: There is no stream or table NOTHING")


def socket_end(api: httpx.Client, trust: ssl.SSLContext, text: str) -> tuple[int, str]:
    """Return the code and the reason with which the WebSocket of a query ends."""
    (request,) = httpx.BasicAuth(*ALICE).sync_auth_flow(httpx.Request("GET", api.base_url))
    headers = {"Authorization": request.headers["authorization"]}
    url = f"wss://{host_of(api)}/ws/query?request={quote(json.dumps({'ksql': text}))}"
    with connect(url, ssl=trust, additional_headers=headers, open_timeout=TIMEOUT_S) as socket:
        with suppress(ConnectionClosed):
            while True:
                socket.recv(timeout=TIMEOUT_S)
        assert socket.close_code is not None
        assert socket.close_reason is not None
        return socket.close_code, socket.close_reason


def test_request_that_no_active_runner_takes_is_refused_for_now(node: Node) -> None:
    with runner(node, "gone", url="http://127.0.0.1:9") as active:
        eventually(lambda: runs(active))
        with runner(node, "gone") as standby:
            answer = ksql(standby, "SHOW TYPES;")
            assert (answer.status_code, answer.json()["error_code"]) == (503, 50302)
            assert answer.json()["message"].startswith("The active runner http://127.0.0.1:9 is")
            assert answer.headers["retry-after"] == "1"
            hops = standby.post("/ksql?forward=false", json={"ksql": "SHOW TYPES;"})
            assert hops.json()["message"].startswith("This runner stands by")
    with runner(node, "other", url="") as active:
        eventually(lambda: runs(active))
        with runner(node, "other") as standby:
            answer = ksql(standby, "SHOW TYPES;")
            assert answer.json()["message"].startswith("This runner stands by")
