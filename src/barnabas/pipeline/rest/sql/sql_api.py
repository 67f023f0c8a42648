"""The ASGI application of ksqlDB's REST API: routes, errors, content types."""

from __future__ import annotations

import enum
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import attrs

from barnabas.http import principal_of
from barnabas.http.asgi import Body, header, respond
from barnabas.pipeline.rest.sql import (
    insert_requests,
    query_requests,
    server_requests,
    socket_queries,
    statement_requests,
)
from barnabas.pipeline.rest.sql.request_bodies import ClientGoneError, read_body
from barnabas.pipeline.rest.sql.row_formats import DELIMITED, JSON, V1_JSON, dumps
from barnabas.pipeline.rest.sql.socket_relay import relay_socket
from barnabas.pipeline.rest.sql.sql_errors import (
    FORBIDDEN,
    NOT_ACCEPTABLE,
    NOT_FOUND,
    NOT_READY,
    UNSUPPORTED_TYPE,
    WRONG_METHOD,
    SqlRestError,
)
from barnabas.pipeline.rest.sql.standby_relay import replayed
from barnabas.pipeline.rest.sql.statement_rights import Caller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.http import Application
    from barnabas.http.asgi import Headers, Receive, Scope, Send
    from barnabas.pipeline.rest.sql.sql_context import SqlContext

logger = logging.getLogger(__name__)

SOCKET_PATH: Final = "/ws/query"
"""The path of queries over WebSockets."""
_ANSWERS: Final = (V1_JSON, JSON)
_ROWS: Final = (V1_JSON, JSON, DELIMITED)
_STREAMED: Final = (DELIMITED, V1_JSON, JSON)


@attrs.frozen
class SqlCall:
    """One request."""

    context: SqlContext
    scope: Scope
    receive: Receive
    send: Send
    places: tuple[str, ...]
    """The segments of the path behind that of the route."""
    accepted: str
    """The content type of the answer."""

    @property
    def caller(self) -> Caller:
        """The sender."""
        host, _ = self.scope.get("client") or ("", 0)
        return Caller(principal_of(self.scope), host, self.context.access)

    async def answer(self, body: Any, headers: Headers | None = None) -> None:
        """Send a JSON answer."""
        await respond(self.send, 200, Body(self.accepted.encode(), dumps(body)), headers)


class _Runs(enum.Enum):
    """The runner of a group that answers the requests of a route."""

    HERE = "the one with the connection"
    ON_ACTIVE = "the active one"
    HERE_IF_POSSIBLE = "the active one, unless this one needs no Spark"


@attrs.frozen
class _Route:
    handler: Callable[[SqlCall], Awaitable[None]]
    types: Sequence[str] = _ANSWERS
    places: tuple[int, ...] = (0,)
    """The numbers of segments that may follow."""
    needs_engine: bool = True
    runs: _Runs = _Runs.ON_ACTIVE


_GET: Final = {
    "": _Route(server_requests.root, needs_engine=False, runs=_Runs.HERE),
    "info": _Route(server_requests.info, needs_engine=False, runs=_Runs.HERE),
    "healthcheck": _Route(server_requests.health, needs_engine=False, runs=_Runs.HERE),
    "clusterStatus": _Route(server_requests.cluster, needs_engine=False, runs=_Runs.HERE),
    "status": _Route(server_requests.status, places=(0, 3), needs_engine=False),
    "is_valid_property": _Route(
        server_requests.is_valid, places=(1,), needs_engine=False, runs=_Runs.HERE
    ),
    "v1/metadata": _Route(
        server_requests.metadata, places=(0, 1), needs_engine=False, runs=_Runs.HERE
    ),
    "ws/query": _Route(server_requests.no_socket, needs_engine=False, runs=_Runs.HERE),
}
_POST: Final = {
    "ksql": _Route(statement_requests.statements),
    "ksql/terminate": _Route(statement_requests.terminate),
    "query": _Route(query_requests.query, _ROWS, runs=_Runs.HERE_IF_POSSIBLE),
    "query-stream": _Route(query_requests.query_stream, _STREAMED, runs=_Runs.HERE_IF_POSSIBLE),
    "close-query": _Route(query_requests.close, (JSON, V1_JSON)),
    "inserts-stream": _Route(insert_requests.inserts, (DELIMITED, JSON)),
}
_METHODS: Final = {"GET": _GET, "HEAD": _GET, "POST": _POST}


class SqlApi:
    """Answers requests."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context

    def asgi(self) -> Application:
        """Return the application for an ASGI server."""
        return self._serve

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["type"] == "websocket":
                await self._socket(scope, receive, send)
                return
            route, places = self._route(scope)
            _check_origin(scope)
            accepted = _accepted(scope, route.types)
            if route.needs_engine:
                self._check_ready()
            call = SqlCall(self._context, scope, receive, send, places, accepted)
            active_url = None if route.runs is _Runs.HERE else self._context.active_url()
            if active_url is None:
                await route.handler(call)
            elif route.runs is _Runs.ON_ACTIVE:
                await self._context.relay.relay(active_url, scope, receive, send)
            else:
                await self._query(route, call, active_url)
        except SqlRestError as error:
            headers = [(b"retry-after", b"1")] if error.code == NOT_READY else None
            kind = JSON if error.code == NOT_ACCEPTABLE else _accepted(scope, _ANSWERS, JSON)
            await respond(send, error.status, Body(kind.encode(), dumps(error.body())), headers)
        except ClientGoneError:
            logger.debug("a client closed its connection path=%s", scope["path"])

    def _check_ready(self) -> None:
        """Raise SqlRestError (50302) while no statement can run."""
        reason = self._context.not_ready()
        if reason is not None:
            raise SqlRestError(NOT_READY, reason)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a query over a WebSocket. Raises SqlRestError before it is accepted."""
        _check_page(scope, self._context.origins)
        self._check_ready()
        call = SqlCall(self._context, scope, receive, send, (), V1_JSON)
        await receive()
        await send({"type": "websocket.accept"})
        active_url = self._context.active_url()
        try:
            try:
                await socket_queries.query(call)
            except SqlRestError:
                if active_url is None:
                    raise
                await relay_socket(self._context.relay, active_url, scope, receive, send)
        except SqlRestError as error:
            await socket_queries.SocketEnd.of(error).send(send)

    async def _query(self, route: _Route, call: SqlCall, active_url: str) -> None:
        """Answer a query on standby, by a view for example, or else pass it on.

        The active runner decides also about a query that is wrong here: its catalog is newer.
        """
        body = await read_body(call.receive)
        try:
            await route.handler(attrs.evolve(call, receive=replayed(body, call.receive)))
        except SqlRestError:
            receive = replayed(body, call.receive)
            await self._context.relay.relay(active_url, call.scope, receive, call.send)

    def _route(self, scope: Scope) -> tuple[_Route, tuple[str, ...]]:
        path: str = scope["path"].strip("/")
        segments = path.split("/") if path else []
        found = [
            (method, route, tuple(segments[length:]))
            for method, routes in _METHODS.items()
            for name, route in routes.items()
            for length in [len(name.split("/")) if name else 0]
            if "/".join(segments[:length]) == name and len(segments) - length in route.places
        ]
        if not found:
            raise SqlRestError(NOT_FOUND, f"There is nothing at {scope['path']}")
        for method, route, places in found:
            if method == scope["method"]:
                return route, places
        raise SqlRestError(WRONG_METHOD, f"{scope['path']} takes {found[0][0]}")


def _check_origin(scope: Scope) -> None:
    """Raise SqlRestError (415) for a page in a browser that sends something other than JSON.

    A page can send text and forms to any address, and JSON only to its own server.
    """
    kind = (header(scope, b"content-type") or b"").decode("latin-1").partition(";")[0].strip()
    if scope["method"] != "POST" or header(scope, b"origin") is None:
        return
    if kind.lower() not in (JSON, V1_JSON):
        raise SqlRestError(UNSUPPORTED_TYPE, f"Send the header Content-Type: {JSON}")


def _check_page(scope: Scope, origins: Sequence[str]) -> None:
    """Raise SqlRestError (403) for a WebSocket that a page of another server opens.

    A browser lets pages open WebSockets to any address, and may add the user's credentials.
    """
    given = (header(scope, b"origin") or b"").decode("latin-1")
    host = (header(scope, b"host") or b"").decode("latin-1")
    if given and given.partition("://")[2] != host and not {given, "*"} & set(origins):
        raise SqlRestError(FORBIDDEN, f"Pages of {given} may not open a WebSocket here")


def _accepted(scope: Scope, types: Sequence[str], default: str | None = None) -> str:
    """Return the type that the header Accept prefers, the first of several of one weight.

    Raises SqlRestError (406) when there is none, unless there is a default.
    """
    text = ",".join(
        value.decode("latin-1") for name, value in scope["headers"] if name == b"accept"
    )
    ranges = [_weighted(each) for each in text.split(",") if each.strip()]
    if not ranges:
        return types[0]
    for kind, weight in sorted(ranges, key=lambda each: -each[1]):
        if weight == 0:
            continue
        if kind in ("*/*", "*", "application/*"):
            return types[0]
        if kind in types:
            return kind
    if default is not None:
        return default
    raise SqlRestError(NOT_ACCEPTABLE, f"Accept one of these: {', '.join(types)}")


def _weighted(text: str) -> tuple[str, float]:
    kind, _, parameters = text.partition(";")
    name, _, weight = parameters.replace(" ", "").partition("=")
    try:
        return kind.strip().lower(), float(weight) if name == "q" else 1.0
    except ValueError:
        return kind.strip().lower(), 1.0
