"""ksqlDB's REST API beside the runner of `barnabas pipelines --sql`."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import attrs
import click
import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from barnabas.cli.pipelines_options import Given
    from barnabas.http import HttpOptions
    from barnabas.pipeline.jobs.runner_settings import RunnerSettings
    from barnabas.pipeline.rest.connect_calls import AskConnect
    from barnabas.pipeline.rest.job_rights import RestAccess
    from barnabas.pipeline.sql.hosting.hosted_sql import HostedSql

    ServeSql = Callable[[HostedSql, RestAccess, AskConnect], Awaitable[None]]


@attrs.frozen
class SqlListener:
    """The server of SQL, if the settings ask for it, and its URL for other runners."""

    serve: ServeSql | None = None
    url: str = ""


@contextmanager
def sql_listener(
    settings: RunnerSettings, given: Given, http: HttpOptions
) -> Generator[SqlListener]:
    """Bind the address of SQL, where the settings ask for SQL.

    Raises ConfigError for an invalid address, HttpStartError for one that cannot be used.
    """
    if settings.sql is None:
        yield SqlListener()
        return
    from barnabas.http import ListenAddress
    from barnabas.pipeline.rest.sql.sql_host import SqlListen, SqlServer, bind_sql, serve_sql

    listen = SqlListen(ListenAddress.parse(given.sql_listen, "--sql-listen"), http)
    with bind_sql(listen) as listener:
        port: int = listener.getsockname()[1]
        advertised = urlsplit(given.advertised_url or "").hostname
        address = ListenAddress(advertised or listen.address.host, port)

        async def serve(sql: HostedSql, access: RestAccess, connect: AskConnect) -> None:
            server = SqlServer(
                sql.session,
                settings.group_id,
                access,
                active_url=sql.active_sql_url,
                runners=sql.runners,
                connect=connect,
            )
            async with trio.open_nursery() as nursery:
                run = partial(serve_sql, server, listen, listener, settings.client)
                url = await nursery.start(partial(run, trio.sleep_forever))
                click.echo(f"sql ready url={url}")

        yield SqlListener(serve, f"{http.scheme}://{address}")
