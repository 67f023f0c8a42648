"""ksqlDB's REST API on the HTTP host, on 127.0.0.1:8088 unless another address is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from barnabas.http import (
    HttpOptions,
    HttpSettings,
    HttpStartError,
    ListenAddress,
    bind_listener,
    serve_app,
)
from barnabas.http.asgi import Body
from barnabas.pipeline.rest.connect_calls import AskConnect
from barnabas.pipeline.rest.sql.row_formats import dumps
from barnabas.pipeline.rest.sql.sql_api import SOCKET_PATH, SqlApi
from barnabas.pipeline.rest.sql.sql_context import Runners, SqlContext
from barnabas.pipeline.rest.sql.sql_errors import SqlRestError
from barnabas.pipeline.rest.sql.standby_relay import StandbyRelay

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    import trio

    from barnabas.client import ClientConfig
    from barnabas.pipeline.rest.job_rights import RestAccess
    from barnabas.pipeline.sql.shell.session_statements import SessionStatements


@attrs.frozen
class SqlListen:
    """The address for clients, and their authentication."""

    address: ListenAddress
    http: HttpOptions = attrs.field(factory=HttpOptions)

    def check(self) -> None:
        """Raise HttpStartError for an address beyond this machine without authentication."""
        if self.address.is_local or self.http.needs_authentication:
            return
        raise HttpStartError(
            f"refusing to listen on {self.address} without authentication: statements read, write "
            "and delete topics with the rights of this server; use --auth kafka, --password-file "
            "or --token-keys, or listen on 127.0.0.1"
        )


@attrs.frozen
class SqlServer:
    """The parts of a listener: sessions, the rules of access, and whether statements can run."""

    sessions: Callable[[], SessionStatements]
    service_id: str
    access: RestAccess
    not_ready: Callable[[], str | None] = lambda: None
    active_url: Callable[[], str | None] = lambda: None
    """Returns None on the active runner, and on others where it serves SQL, or an empty text."""
    runners: Runners | None = None
    """Returns the runners of the group. Raises KafkaError, ClientError."""
    connect: AskConnect | None = None
    """Answers requests to Connect."""


def bind_sql(listen: SqlListen) -> socket.socket:
    """Return the bound socket of a listener. Raises HttpStartError."""
    listen.check()
    return bind_listener(listen.address)


async def serve_sql(
    server: SqlServer,
    listen: SqlListen,
    listener: socket.socket,
    brokers: ClientConfig,
    stop: Callable[[], Awaitable[None]],
    task_status: trio.TaskStatus[str],
) -> None:
    """Serve on a bound socket until `stop` returns; reports the URL. Raises ConfigError."""
    port: int = listener.getsockname()[1]
    url = f"{listen.http.scheme}://{ListenAddress(listen.address.host, port)}"
    context = SqlContext(
        server.sessions,
        server.service_id,
        url,
        server.not_ready,
        server.access,
        server.active_url,
        StandbyRelay(listen.http.tls),
        runners=server.runners,
        connect=server.connect,
        origins=listen.http.cross_origin.origins,
    )
    await serve_app(
        SqlApi(context).asgi(),
        HttpSettings(listen.address, listen.http),
        not_ready=server.not_ready,
        error_body=_error_body,
        brokers=brokers,
        stop=stop,
        listener=listener,
        streamed_paths=("/inserts-stream",),
        socket_paths=(SOCKET_PATH,),
        task_status=task_status,
    )


def _error_body(status: int, message: str) -> Body:
    return Body(b"application/json", dumps(SqlRestError(status * 100, message).body()))
