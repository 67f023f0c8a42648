"""The ASGI application of Connect's REST API: dispatch by the route table, errors, JSON."""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import unquote_to_bytes

import attrs
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Router

from barnabas.client import ClientError
from barnabas.http import Application, first_caller_headers, principal_of
from barnabas.http.asgi import Receive, Scope, Send
from barnabas.pipeline.connect.rest_errors import ConnectRestError, NotActiveError, bad_request
from barnabas.pipeline.rest import connector_handlers, runner_handlers, view_handlers
from barnabas.pipeline.rest.connect_calls import OK, ROUTES, Answer, ConnectCall, ConnectRoute
from barnabas.pipeline.rest.connector_service import ConnectorService
from barnabas.pipeline.rest.java_routing import JavaSide, java_answer
from barnabas.pipeline.rest.job_rights import CallerRights, RestAccess
from barnabas.pipeline.rest.request_forwarding import RequestForwarding
from barnabas.pipeline.rest.runner_loggers import RunnerLoggers
from barnabas.protocol.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.pipeline.views.live_view import LiveView

logger = logging.getLogger(__name__)

_HANDLERS: Final = (connector_handlers, runner_handlers, view_handlers)
"""Imported for their routes."""
_JSON: Final = "application/json"
_JSON_RANGES: Final = frozenset({_JSON, "application/*", "*/*", "*"})
_NOT_JSON: Final = "HTTP 415 Unsupported Media Type: send the header Content-Type: application/json"
_UNWRITTEN: Final = (
    "Failed to write to config topic; this may be due to a transient error and the request can be "
    "safely retried"
)


class ConnectorOffsets(Protocol):
    """Reads and changes the positions of connectors."""

    async def read(self, name: str) -> list[dict[str, Any]]:
        """Return partitions with their offsets."""
        ...

    async def alter(self, name: str, offsets: Any) -> None:
        """Set positions; an offset of null removes one."""
        ...

    async def reset(self, name: str) -> None:
        """Remove all positions."""
        ...


@attrs.frozen
class ConnectContext:
    """The parts that handlers use."""

    service: ConnectorService
    offsets: ConnectorOffsets
    loggers: RunnerLoggers
    progress: Callable[[str], dict[str, Any]]
    """Returns the figures of a job."""
    logs: Callable[[str], list[dict[str, Any]]]
    """Returns the newest log lines of a job."""
    engine_problem: Callable[[], str | None]
    """Returns why no job can run, None when the engine runs or is not needed."""
    views: "Callable[[], Mapping[str, LiveView]]"
    """Returns the views that run here, by the names of their jobs."""
    base_url: str
    forwarding: RequestForwarding
    store_errors: tuple[type[Exception], ...] = ()
    """What the store raises when it cannot write."""
    tracks_topics: bool = True
    allows_topics_reset: bool = True
    access: RestAccess = attrs.field(factory=RestAccess)
    java: JavaSide | None = None
    """The worker of Java's connectors, None in a runner without one."""


class ConnectApi:
    """Answers requests."""

    def __init__(self, context: ConnectContext) -> None:
        self._context = context
        self._failures = (*context.store_errors, ClientError, KafkaError)

    def asgi(self) -> Application:
        """Return the application for an ASGI server."""
        return Router(default=self._serve, redirect_slashes=False)

    async def ask(
        self, method: str, segments: Sequence[str], body: object, rights: CallerRights
    ) -> Answer:
        """Return the answer to a request of another API of this runner; errors are answers, too."""
        data = b"" if body is None else json.dumps(body).encode()
        places = {each: each.places(segments) for each in ROUTES if each.method == method}
        route, found = next((each, found) for each, found in places.items() if found is not None)
        try:
            return await self._called(route, ConnectCall(self._context, found, [], data, rights))
        except ConnectRestError as error:
            return _refusal(error.status, error.message)
        except self._failures as error:
            return _failed(method, error)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            try:
                answer = await self._answer(request)
            except NotActiveError as error:
                response = await self._forwarded(request, error)
                await response(scope, receive, send)
                return
        except ConnectRestError as error:
            answer = _refusal(error.status, error.message)
        except self._failures as error:
            answer = _failed(scope["method"], error)
        response = _response(answer)
        await response(scope, receive, send)

    async def _forwarded(self, request: Request, error: NotActiveError) -> Response:
        """Return the active runner's answer. Raises ConnectRestError."""
        found = await self._context.forwarding.send(
            error,
            request.method,
            _raw_path(request),
            request.url.query,
            request.headers,
            await _read_body(request),
            partial(first_caller_headers, request.scope, request.method),
        )
        return Response(found.body, found.status, found.headers)

    async def _answer(self, request: Request) -> Answer:
        segments = _segments(_raw_path(request))
        method = "GET" if request.method == "HEAD" else request.method
        found = [(each, each.places(segments)) for each in ROUTES]
        matching = [(each, places) for each, places in found if places is not None]
        if matching and method == "OPTIONS":
            return Answer(OK, headers={"Allow": _allowed(each.method for each, _ in matching)})
        for each, places in matching:
            if each.method == method:
                host, _ = request.scope.get("client") or ("", 0)
                name = principal_of(request.scope)
                rights = await self._context.access.rights(name, host, method)
                body = await _read_body(request)
                _check_type(request, body)
                _check_accepts_json(request)
                query = list(request.query_params.multi_items())
                call = ConnectCall(self._context, places, query, body, rights)
                return await self._called(each, call)
        if matching:
            raise ConnectRestError(405, "HTTP 405 Method Not Allowed")
        raise ConnectRestError(404, "HTTP 404 Not Found")

    async def _called(self, route: ConnectRoute, call: ConnectCall) -> Answer:
        if route.needs_store:
            self._context.service.check_ready()
        if route.method != "GET" and "connector" in call.places:
            call.check_stored(call.connector)
        answer = await java_answer(call, route)
        return await route.handler(call) if answer is None else answer


def _failed(method: str, error: Exception) -> Answer:
    logger.warning("request failed method=%s error=%s", method, error)
    return _refusal(500, f"{_UNWRITTEN}: {error}")


def _refusal(status: int, message: str) -> Answer:
    return Answer(status, {"error_code": status, "message": message})


def _raw_path(request: Request) -> str:
    """Return the path as the client sent it, with escapes."""
    raw_path: bytes = request.scope.get("raw_path") or request.url.path.encode()
    return raw_path.partition(b"?")[0].decode("latin-1")


def _segments(raw_path: str) -> list[str]:
    """Return the decoded segments of a path. Raises ConnectRestError (400) for bad UTF-8."""
    parts = raw_path.strip("/").split("/") if raw_path.strip("/") else []
    try:
        return [unquote_to_bytes(part).decode() for part in parts]
    except UnicodeDecodeError:
        raise bad_request("The path is not UTF-8") from None


def _check_type(request: Request, body: bytes) -> None:
    """Raise ConnectRestError (415) for a body that is said to be something other than JSON.

    A page in a browser can send text and forms to any address, and JSON only to its own server.
    """
    given = request.headers.get("content-type", _JSON)
    if body and given.partition(";")[0].strip().lower() != _JSON:
        raise ConnectRestError(415, _NOT_JSON)


def _check_accepts_json(request: Request) -> None:
    """Raise ConnectRestError (406) for a client that takes no JSON; weights do not matter."""
    ranges = ",".join(request.headers.getlist("accept")).split(",")
    kinds = {each.partition(";")[0].strip().lower() for each in ranges}
    if kinds != {""} and kinds.isdisjoint(_JSON_RANGES):
        raise ConnectRestError(406, "HTTP 406 Not Acceptable")


def _allowed(methods: Iterable[str]) -> str:
    """Return the methods of a path as the header Allow lists them."""
    found = {*methods, "OPTIONS"}
    return ",".join(sorted(found | {"HEAD"} if "GET" in found else found))


async def _read_body(request: Request) -> bytes:
    try:
        return await request.body()
    except ClientDisconnect:
        raise bad_request("The body ends before its length") from None


def _response(answer: Answer) -> Response:
    headers = dict(answer.headers)
    if answer.status == 503:
        headers["Retry-After"] = "1"
    if answer.body is None:
        return Response(status_code=answer.status, headers=headers)
    body = json.dumps(answer.body, ensure_ascii=False, separators=(",", ":"))
    return Response(body.encode(), answer.status, headers, media_type=_JSON)
