"""GET: what the server is, whether it works, and the states of commands."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.client import ClientError
from barnabas.http.asgi import Body, respond
from barnabas.pipeline.jobs.core.activity_protocol import GroupRunner
from barnabas.pipeline.rest.sql.entity_json import SUCCESS
from barnabas.pipeline.rest.sql.sql_context import failure
from barnabas.pipeline.rest.sql.sql_errors import (
    BAD_REQUEST,
    NOT_FOUND,
    UPGRADE_NEEDED,
    SqlRestError,
)
from barnabas.protocol.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.pipeline.rest.sql.sql_api import SqlCall
    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
    from barnabas.pipeline.sql.shell.session_statements import SessionStatements

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
    """Answer with the servers of the group, and the queries on the active one."""
    context = call.context
    try:
        given = None if context.runners is None else await context.runners()
    except (KafkaError, ClientError) as error:
        raise failure(error) from error
    runners = given or [GroupRunner("", context.url, True)]
    queries = await context.run(partial(_active_queries, context.sessions()))
    now_ms = time.time_ns() // 1_000_000
    found: dict[str, Any] = {
        each.sql_url.partition("://")[2]: {
            "hostAlive": True,
            "lastStatusUpdateMs": now_ms,
            "activeStandbyPerQuery": queries if each.is_active else {},
            "hostStoreLags": {"stateStoreLags": {}, "updateTimeMs": now_ms},
        }
        for each in runners
        if each.sql_url
    }
    await call.answer({"clusterStatus": found})


def _active_queries(session: SessionStatements) -> dict[str, Any]:
    """Return the queries with the partitions that they read."""
    catalog = session.catalog
    partitions = session.partitions() if catalog.queries else {}
    return {
        query.name: {
            "activeStores": [],
            "activePartitions": [
                {"topic": topic, "partition": number}
                for topic in dict.fromkeys(catalog.source(each).topic for each in query.reads)
                for number in range(partitions.get(topic, 0))
            ],
            "standByStores": [],
            "standByPartitions": [],
        }
        for query in catalog.queries
    }


async def status(call: SqlCall) -> None:
    """Answer with the state of a command, or of all."""
    commands = call.context.commands
    if not call.places:
        await call.answer({"commandStatuses": dict.fromkeys(commands.ids(), SUCCESS)})
        return
    kind, name, action = call.places
    names = (name, f"`{name}`", name.strip("`"))
    ids = (f"{kind}/{each}/{action}" for each in names)
    known = [message for each in ids if (message := commands.message(each)) is not None]
    known += _created(call.context.sessions().catalog, *call.places)
    if not known:
        raise SqlRestError(
            NOT_FOUND,
            f"Command not found: {kind}/{name}/{action}. This server knows the newest commands "
            "that it has run itself, and those that created what is in the catalog now",
        )
    await call.answer({"status": SUCCESS, "message": known[0], "queryId": None})


def _created(catalog: Catalog, kind: str, name: str, action: str) -> list[str]:
    """Return the message of a command that another server may have run, as the catalog shows."""
    name = name.strip("`")
    if kind == "type":
        is_there = name in catalog.types
    else:
        source = catalog.sources.get(name)
        is_there = source is not None and source.kind.lower() == kind
    return [f"created {kind} {name}"] if is_there and action == "create" else []


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
