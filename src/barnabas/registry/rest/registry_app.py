"""The ASGI application: dispatch by the route table, errors and content types.

Reads are answered from the state of this instance. Writes go to the backend, which decides and
appends them one after another, or hands the request on to the leader.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import attrs
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Router

from barnabas.http import Application, first_caller_headers
from barnabas.http.asgi import Receive, Scope, Send
from barnabas.registry.core.json_fields import write_json
from barnabas.registry.core.registry_core import RegistryCore
from barnabas.registry.core.registry_errors import RegistryError
from barnabas.registry.core.schema_requests import Decision
from barnabas.registry.rest import schema_handlers, settings_handlers, subject_handlers
from barnabas.registry.rest.openapi_document import openapi_document
from barnabas.registry.rest.registry_routes import ROUTES, RestRoute, RouteTable
from barnabas.registry.rest.request_paths import in_context, split_path
from barnabas.registry.rest.rest_calls import RawText, RestCall
from barnabas.registry.rest.route_rights import EVERY_RIGHT, RegistryAuthorizer, check

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
ANSWERED_TYPES = (CONTENT_TYPE, "application/vnd.schemaregistry+json", "application/json")
ACCEPTED_TYPES = (*ANSWERED_TYPES, "application/octet-stream")

_NO_CACHE = "no-cache, no-store, must-revalidate"
_HANDLERS = (subject_handlers, schema_handlers, settings_handlers)

_DOCUMENT = ["openapi.json"]

# Segments after which the next one may be an alias.
_ALIASED = "subjects"


@attrs.frozen
class ForwardRequest:
    """A write as the leader is to see it."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    is_repeatable: bool
    """True when it may be sent to two leaders."""


@attrs.frozen
class ForwardAnswer:
    """The answer of the leader."""

    status: int
    body: bytes


class RegistryBackend(Protocol):
    """The side of the topic and of the other instances."""

    core: RegistryCore
    clusters: Mapping[str, str]

    @property
    def not_ready(self) -> str | None:
        """Return why requests cannot be answered yet, or None."""
        ...

    async def submit(
        self, decide: Callable[[], Decision], request: ForwardRequest, *, was_forwarded: bool
    ) -> Decision | ForwardAnswer:
        """Decide at the end of the log, append the records and wait until they are replayed.

        Another instance than the leader sends the request to the leader, once. Raises
        RegistryError when the request is refused, or cannot be done.
        """
        ...

    async def catch_up(self) -> bool:
        """Replay up to the end of the log; True when records were replayed meanwhile."""
        ...


class RegistryApp:
    """Answers requests with a backend; without an authorizer, every caller may do everything."""

    def __init__(
        self, backend: RegistryBackend, authorizer: RegistryAuthorizer | None = None
    ) -> None:
        self._backend = backend
        self._authorizer = authorizer
        self._routes = RouteTable(ROUTES)

    def asgi(self) -> Application:
        """Return the application for an ASGI server.

        The router answers what is not a request; the registry's route table answers requests, and
        describes them.
        """
        return Router(default=self._serve, redirect_slashes=False)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; the host answers bodies above its limit and unexpected failures."""
        try:
            response = await self._answer(Request(scope, receive))
        except RegistryError as error:
            response = _error_answer(error)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        media_type = _answer_type(request)
        raw_path: bytes = request.scope.get("raw_path") or request.url.path.encode()
        segments = split_path(raw_path.partition(b"?")[0].decode("latin-1"))
        if segments == _DOCUMENT and request.method in ("GET", "HEAD"):
            return _json_answer(openapi_document(ROUTES), 200, "application/json")
        query = list(request.query_params.multi_items()) if request.scope["query_string"] else []
        segments, query = in_context(segments, query)
        method = "GET" if request.method == "HEAD" else request.method
        route, places = self._routes.find(method, segments)
        if route is None:
            return self._without_route(method, segments)
        body = await _read_body(request)
        if self._backend.not_ready is not None:
            raise RegistryError(503, 50001, self._backend.not_ready)
        if "subject" in places and _ALIASED in segments:
            places["subject"] = self._backend.core.state.alias_target(places["subject"])
        authorizer = self._authorizer
        rights = EVERY_RIGHT if authorizer is None else await authorizer.rights(request.scope)
        call = RestCall(self._backend.core, places, query, body, self._backend.clusters, rights)
        check(rights, route.needs, call.optional_subject)
        if route.writes:
            return await self._write(request, route, call, media_type)
        return _shown(await self._read(route, call), 200, media_type)

    def _without_route(self, method: str, segments: list[str]) -> Response:
        """Answer OPTIONS. Raises RegistryError (404, 405) for other methods."""
        methods = {"GET"} if segments == _DOCUMENT else set(self._routes.methods(segments))
        if not methods:
            raise RegistryError(404, 404, "HTTP 404 Not Found")
        methods |= {"OPTIONS", "HEAD"} if "GET" in methods else {"OPTIONS"}
        headers = {"Allow": ", ".join(sorted(methods))}
        if method == "OPTIONS":
            return Response(headers=headers)
        error = RegistryError(405, 405, "HTTP 405 Method Not Allowed")
        error.headers = headers
        raise error

    async def _read(self, route: RestRoute, call: RestCall) -> Any:
        """Return the handler's answer; after a 404, catch up with the topic and ask again."""
        try:
            return route.handler(call)
        except RegistryError as error:
            # A new leader may lack records of the former one, too.
            if error.status != 404 or not await self._backend.catch_up():
                raise
        return route.handler(call)

    async def _write(
        self, request: Request, route: RestRoute, call: RestCall, media_type: str
    ) -> Response:
        answer = await self._backend.submit(
            lambda: route.handler(call),
            _forwarded(request, route, call.body),
            was_forwarded=request.headers.get("x-forward", "").lower() == "true",
        )
        headers = {"Cache-Control": _NO_CACHE}
        if isinstance(answer, ForwardAnswer):
            return Response(answer.body, answer.status, headers, media_type=media_type)
        if answer.answer is None:
            return Response(status_code=answer.status, headers=headers)
        return _shown(answer.answer, answer.status, media_type)


def _forwarded(request: Request, route: RestRoute, body: bytes) -> ForwardRequest:
    raw_path: bytes = request.scope.get("raw_path") or request.url.path.encode()
    query: bytes = request.scope.get("query_string", b"")
    path = raw_path.partition(b"?")[0].decode("latin-1")
    kept = ("content-type", "accept", "authorization")
    headers = {name: request.headers[name] for name in kept if name in request.headers}
    headers |= first_caller_headers(request.scope, request.method, path)
    text = f"{path}?{query.decode('latin-1')}" if query else path
    return ForwardRequest(request.method, text, headers, body, route.is_repeatable)


def _answer_type(request: Request) -> str:
    """Return the content type of the answer: the first that the client accepts of ours."""
    accepted = request.headers.get("accept", "")
    for offered in ANSWERED_TYPES:
        if offered in accepted:
            return offered
    return CONTENT_TYPE


async def _read_body(request: Request) -> bytes:
    """Return the body. Raises RegistryError for a body cut short, and for a type not read (415)."""
    try:
        body = await request.body()
    except ClientDisconnect:
        raise RegistryError(400, 400, "The body ends before its length") from None
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and content_type and content_type not in ACCEPTED_TYPES:
        raise RegistryError(415, 415, "HTTP 415 Unsupported Media Type")
    return body


def _shown(answer: Any, status: int, media_type: str) -> Response:
    if isinstance(answer, RawText):
        headers = {"Cache-Control": _NO_CACHE}
        return Response(answer.text.encode(), status, headers, media_type=media_type)
    return _json_answer(answer, status, media_type)


def _json_answer(answer: Any, status: int, media_type: str) -> Response:
    body = write_json(answer)
    headers = {"Cache-Control": _NO_CACHE}
    return Response(body.encode(), status, headers, media_type=media_type)


def _error_answer(error: RegistryError) -> Response:
    answer: dict[str, Any] = {"error_code": error.code, "message": error.message}
    if error.details:
        answer["details"] = error.details
    response = _json_answer(answer, error.status, CONTENT_TYPE)
    response.headers.update(error.headers)
    if error.status == 503:
        response.headers["Retry-After"] = "1"
    return response
