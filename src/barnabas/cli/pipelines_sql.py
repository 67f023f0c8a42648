"""ksqlDB's REST API beside the runner of `barnabas pipelines --sql`."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import click
import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from barnabas.http import HttpOptions
    from barnabas.pipeline.jobs.runner_settings import RunnerSettings
    from barnabas.pipeline.rest.job_rights import RestAccess
    from barnabas.pipeline.sql.hosting.hosted_sql import HostedSql

    ServeSql = Callable[[HostedSql, RestAccess], Awaitable[None]]


@contextmanager
def sql_listener(
    settings: RunnerSettings, address: str, http: HttpOptions
) -> Generator[ServeSql | None]:
    """Bind the address, where the settings ask for SQL, and yield what serves on it.

    Raises ConfigError for an invalid address, HttpStartError for one that cannot be used.
    """
    if settings.sql is None:
        yield None
        return
    from barnabas.http import ListenAddress
    from barnabas.pipeline.rest.sql.sql_host import SqlListen, SqlServer, bind_sql, serve_sql

    listen = SqlListen(ListenAddress.parse(address), http)
    with bind_sql(listen) as listener:

        async def serve(sql: HostedSql, access: RestAccess) -> None:
            server = SqlServer(sql.session, settings.group_id, access)
            async with trio.open_nursery() as nursery:
                run = partial(serve_sql, server, listen, listener, settings.client)
                url = await nursery.start(partial(run, trio.sleep_forever))
                click.echo(f"sql ready url={url}")

        yield serve
