"""ksqlDB's REST API of two runners: the one that stands by passes requests on."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import httpx
import pytest
import trio

pytest.importorskip("sqlglot")

from barnabas.client import ClientConfig
from barnabas.http import HttpOptions, ListenAddress
from barnabas.pipeline.rest.job_rights import RestAccess
from barnabas.pipeline.rest.sql.sql_host import SqlListen, SqlServer, bind_sql, serve_sql
from barnabas.pipeline.sql.hosting.hosted_sql import HostedSql
from barnabas.testing import Node
from tests.pipeline.runner.live_runner import eventually, live_runner

TIMEOUT_S = 120.0


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as found:
        yield found


@contextmanager
def runner(
    node: Node, name: str, *, url: str | None = None, http: HttpOptions | None = None
) -> Iterator[httpx.Client]:
    """Run a runner with SQL, and yield a client of its API; `url` is the one that others get."""
    listen = SqlListen(ListenAddress("127.0.0.1", 0), http or HttpOptions())
    listener = bind_sql(listen)
    own = f"http://127.0.0.1:{listener.getsockname()[1]}"

    async def serve(sql: HostedSql, access: RestAccess) -> None:
        server = SqlServer(sql.session, name, access, active_url=sql.active_sql_url)
        config = ClientConfig.from_properties({"bootstrap.servers": node.bootstrap})
        async with trio.open_nursery() as nursery:
            run = partial(serve_sql, server, listen, listener, config)
            await nursery.start(partial(run, trio.sleep_forever))

    topics = {f"{kind}.storage.topic": f"{name}-{kind}" for kind in ("config", "offset", "status")}
    more = {**topics, "barnabas.sql.enable": "true", "barnabas.sql.storage.topic": f"{name}-sql"}
    shown = own if url is None else url
    with (
        live_runner(
            node.bootstrap, more=more, serve_sql=serve, sql_url=shown, group_id=name
        ) as found,
        httpx.Client(base_url=own, timeout=TIMEOUT_S) as client,
    ):
        eventually(found.is_healthy)
        yield client


def ksql(api: httpx.Client, text: str, path: str = "/ksql") -> httpx.Response:
    return api.post(path, json={"ksql": text})


def runs(api: httpx.Client) -> bool:
    return ksql(api, "SHOW TYPES;").status_code == 200


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
