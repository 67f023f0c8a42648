"""ksqlDB's REST API in its own thread, against a running node; Spark does not start."""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
import trio

from barnabas.access.topic_authorizer import TopicAuthorizer
from barnabas.client import ClientConfig, open_client
from barnabas.http import HttpOptions, ListenAddress
from barnabas.pipeline.rest.job_rights import RestAccess
from barnabas.pipeline.rest.sql.sql_host import SqlListen, SqlServer, bind_sql, serve_sql
from barnabas.pipeline.sql.shell.local_queries import LocalQueries
from barnabas.pipeline.sql.shell.session_statements import SessionStatements
from barnabas.pipeline.sql.shell.session_values import SessionSettings

_TIMEOUT_S = 60.0


@contextmanager
def live_sql(
    bootstrap: str,
    *,
    http: HttpOptions | None = None,
    full_users: frozenset[str] | None = None,
    authorizes: bool = False,
    properties: dict[str, str] | None = None,
    active_url: str | None = None,
    port: int = 0,
) -> Iterator[httpx.Client]:
    """Serve, and yield a client of the API; with `active_url` as a runner that stands by."""
    started = threading.Event()
    urls: list[str] = []
    tokens: list[trio.lowlevel.TrioToken] = []
    scope = trio.CancelScope()
    state = tempfile.TemporaryDirectory()
    backend = LocalQueries(
        SessionSettings(bootstrap, properties or {}, "default_", state=Path(state.name))
    )
    listen = SqlListen(ListenAddress("127.0.0.1", port), http or HttpOptions())
    config = ClientConfig.from_properties({"bootstrap.servers": bootstrap, **(properties or {})})

    async def serve() -> None:
        tokens.append(trio.lowlevel.current_trio_token())
        with scope:
            async with open_client(config) as client, trio.open_nursery() as nursery:
                authorizer = TopicAuthorizer(client, {}) if authorizes else None
                if authorizer is not None:
                    await authorizer.load()
                server = SqlServer(
                    partial(SessionStatements, backend),
                    "default_",
                    RestAccess(full_users, authorizer),
                    active_url=lambda: active_url,
                )
                run = partial(
                    serve_sql, server, listen, bind_sql(listen), config, trio.sleep_forever
                )
                urls.append(await nursery.start(run))
                started.set()

    def main() -> None:
        try:
            with suppress(trio.Cancelled):
                trio.run(serve)
        finally:
            started.set()

    thread = threading.Thread(target=main, daemon=True)
    thread.start()
    assert started.wait(_TIMEOUT_S)
    assert urls, "the API did not start"
    try:
        with httpx.Client(base_url=urls[0], timeout=_TIMEOUT_S) as client:
            yield client
    finally:
        tokens[0].run_sync_soon(scope.cancel)
        thread.join(_TIMEOUT_S)
        assert not thread.is_alive(), "the API did not end"
        backend.close()
        state.cleanup()
