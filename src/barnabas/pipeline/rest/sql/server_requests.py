"""GET: what the server is, whether it works, and the states of commands."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from barnabas.http.asgi import Body, respond
from barnabas.pipeline.rest.sql.entity_json import SUCCESS
from barnabas.pipeline.rest.sql.sql_errors import (
    BAD_REQUEST,
    NOT_FOUND,
    UPGRADE_NEEDED,
    SqlRestError,
)

if TYPE_CHECKING:
    from barnabas.pipeline.rest.sql.sql_api import SqlCall

VERSION: Final = "0.29.0"
"""The version of ksqlDB whose API this is: clients compare it."""
_FIXED: Final = (
    "application.id",
    "bootstrap.servers",
    "ksql.schema.registry.url",
    "ksql.service.id",
)
"""Properties of the server, which no request changes."""


async def root(call: SqlCall) -> None:
    """Send a client to /info."""
    await respond(call.send, 307, Body(b"text/plain", b""), [(b"location", b"/info")])


async def info(call: SqlCall) -> None:
    """Answer with the version and the cluster."""
    await call.answer(
        {
            "KsqlServerInfo": {
                "version": VERSION,
                "kafkaClusterId": await _cluster_id(call),
                "ksqlServiceId": call.context.service_id,
                "serverStatus": "RUNNING",
            }
        }
    )


async def _cluster_id(call: SqlCall) -> str:
    return await call.context.run(call.context.sessions().cluster_id)


async def no_socket(call: SqlCall) -> None:
    """Refuse a request that is not that of a WebSocket. Raises SqlRestError."""
    raise SqlRestError(
        UPGRADE_NEEDED, f"Open a WebSocket at {call.scope['path']}, or POST the query to /query"
    )


async def health(call: SqlCall) -> None:
    """Answer whether statements can run, and whether Kafka answers."""
    try:
        await _cluster_id(call)
        has_kafka = True
    except SqlRestError:
        has_kafka = False
    is_ready = call.context.not_ready() is None
    found = {"metastore": is_ready, "kafka": has_kafka, "commandRunner": is_ready}
    body: dict[str, Any] = {
        "isHealthy": all(found.values()),
        "details": {name: {"isHealthy": each} for name, each in found.items()},
        "serverState": "READY" if is_ready else "INITIALIZING",
    }
    await call.answer(body)


async def cluster(call: SqlCall) -> None:
    """Answer with this server, the only one."""
    now_ms = time.time_ns() // 1_000_000
    host = call.context.url.partition("://")[2]
    state: dict[str, Any] = {
        "hostAlive": True,
        "lastStatusUpdateMs": now_ms,
        "activeStandbyPerQuery": {},
        "hostStoreLags": {"stateStoreLags": {}, "updateTimeMs": now_ms},
    }
    await call.answer({"clusterStatus": {host: state}})


async def status(call: SqlCall) -> None:
    """Answer with the state of a command, or of all."""
    commands = call.context.commands
    if not call.places:
        await call.answer({"commandStatuses": dict.fromkeys(commands.ids(), SUCCESS)})
        return
    kind, name, action = call.places
    names = (name, f"`{name}`", name.strip("`"))
    for command_id in (f"{kind}/{each}/{action}" for each in names):
        message = commands.message(command_id)
        if message is not None:
            await call.answer({"status": SUCCESS, "message": message, "queryId": None})
            return
    raise SqlRestError(NOT_FOUND, f"Command not found: {kind}/{name}/{action}")


async def is_valid(call: SqlCall) -> None:
    """Answer true for a property that a request may set. Raises SqlRestError for others."""
    (name,) = call.places
    if name in _FIXED:
        raise SqlRestError(
            BAD_REQUEST,
            f"The property {name} is one of the server, and no request can set it: UNSET it",
        )
    await call.answer(True)


async def metadata(call: SqlCall) -> None:
    """Answer with the version and the ids of the clusters, or with the ids alone."""
    ids: dict[str, Any] = {
        "scope": {
            "path": [],
            "clusters": {
                "kafka-cluster": await _cluster_id(call),
                "ksql-cluster": call.context.service_id,
            },
        },
        "id": "",
    }
    if not call.places:
        await call.answer({"version": VERSION, "clusterId": ids})
    elif call.places == ("id",):
        await call.answer(ids)
    else:
        raise SqlRestError(NOT_FOUND, f"There is nothing at {call.scope['path']}")
