"""From a frame to its handler, and from what the handler gave to bytes.

A `Route` is an (api key, version) with all that serving it takes, made on its first request. What
may be served is told by `HANDLER_MODULES` (api name -> module); a module is imported when an api
of it is first asked for, and its `@handles` decorators fill `HANDLERS`.
"""

import logging
from collections.abc import Callable
from importlib import import_module
from struct import Struct
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.protocol.apis import API, ApiKey
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.framing import encode_response, parse_request_header
from barnabas.server.api.context import Peer, RequestContext
from barnabas.server.api.handlers import HANDLER_MODULES

if TYPE_CHECKING:
    from barnabas.protocol.messages_base import Message
    from barnabas.server.node.node import Node

logger = logging.getLogger(__name__)

Handler = Callable[[RequestContext, Any], Any]
HandlerT = TypeVar("HandlerT", bound=Handler)

HANDLERS: dict[int, Handler] = {}

API_VERSIONS = 18
# Their time is the waiting they were asked for: no entry in the slow-request log.
_WAITING_APIS = frozenset({1, 11, 14, 59, 78})

_KEY_AND_VERSION = Struct(">i")
_HEADER_START = Struct(">hhi")


def handles(*request_types: "type[Message]") -> Callable[[HandlerT], HandlerT]:
    """Bind a function to the requests it serves: `@handles(ProduceRequest)`."""

    def bind(handler: HandlerT) -> HandlerT:
        for request_type in request_types:
            key = request_type.API_KEY
            if key in HANDLERS:
                raise RuntimeError(f"api {key} has two handlers")
            HANDLERS[key] = handler
        return handler

    return bind


def listener_kind(*, controller: bool) -> str:
    """The name that Kafka's declarations give to a kind of listener."""
    return "controller" if controller else "broker"


def served_apis(*, controller: bool) -> list[ApiKey]:
    """The apis that a listener answers, by key: declared for it, and with a handler here."""
    listener = listener_kind(controller=controller)
    return [
        api for api in API.values() if api.name in HANDLER_MODULES and listener in api.listeners
    ]


class Route:
    """All that serving one version of one api takes, and what was counted of it."""

    __slots__ = (
        "api",
        "api_key",
        "decode",
        "errors",
        "handler",
        "name",
        "requests",
        "response_header_version",
        "seconds",
        "version",
        "waits",
    )

    def __init__(self, api: ApiKey, version: int, handler: Handler) -> None:
        self.api = api
        self.api_key: int = api.key
        self.name: str = api.name
        self.version = version
        self.handler = handler
        self.decode: Callable[[Any, int, int], tuple[Any, int]] = api.request_type.decode_from
        self.response_header_version: int = api.response_header_version(version)
        self.waits = api.key in _WAITING_APIS
        self.requests = 0
        self.errors = 0
        self.seconds = 0.0


class Dispatcher:
    """Decodes requests and encodes responses for all connections of one kind of listener."""

    def __init__(self, node: "Node", *, controller: bool, slow_request_s: float) -> None:
        self.node = node
        self.controller = controller
        self.routes: dict[int, Route] = {}
        self._slow_request_s = slow_request_s

    def decode(self, connection: Peer, frame: bytearray) -> RequestContext:
        """Read a frame's header and body; ProtocolError is for the connection to close on."""
        if len(frame) < 8:
            raise ProtocolError(f"a frame of {len(frame)} bytes holds no request header")
        route = self.routes.get(_KEY_AND_VERSION.unpack_from(frame)[0])
        if route is None:
            route = self._route(frame)
            _, version, correlation_id = _HEADER_START.unpack_from(frame)
            if version != route.version:  # of ApiVersions; what follows is in an unknown layout
                return RequestContext(self.node, connection, route, correlation_id, None, None)
        header, position = parse_request_header(frame)
        # Bytes behind the body are let be, as Kafka does.
        request, _ = route.decode(frame, position, route.version)
        return RequestContext(
            self.node, connection, route, header.correlation_id, header.client_id, request
        )

    def _route(self, frame: bytearray) -> Route:
        """The route of a header seen for the first time here; ProtocolError when none serves it."""
        key, version, _ = _HEADER_START.unpack_from(frame)
        api = API.get(key)
        listener = listener_kind(controller=self.controller)
        if api is None or listener not in api.listeners or api.name not in HANDLER_MODULES:
            raise ProtocolError(f"api key {key} is not served on this listener")
        if not api.min_version <= version <= api.advertised[1]:
            if key != API_VERSIONS:
                raise ProtocolError(f"{api.name} v{version} is not served")
            version = 0  # the client reads the answer to learn what we know (KIP-511)
        packed = (key << 16) | version
        route = self.routes.get(packed)
        if route is None:
            route = self.routes[packed] = Route(api, version, handler_of(api))
        return route

    def encode(self, context: RequestContext, response: Any) -> list[Any]:
        """The response's parts, ready to send; an exception becomes the api's error response."""
        route = context.route
        failed = isinstance(response, BaseException)
        if failed:
            response = self._error_response(context, response)
        header_version, version = route.response_header_version, route.version
        try:
            parts = encode_response(context.correlation_id, header_version, response, version)
        except Exception as error:
            if failed:
                raise
            response = self._error_response(context, error)
            parts = encode_response(context.correlation_id, header_version, response, version)
        self.count(context)
        return parts

    def count(self, context: RequestContext) -> None:
        """Note that a request has ended; a slow one gets a log line."""
        route = context.route
        elapsed = monotonic() - context.started_at
        route.requests += 1
        route.seconds += elapsed
        if elapsed > self._slow_request_s and not route.waits:
            logger.warning(
                "slow request api=%s version=%d client_id=%s host=%s ms=%.1f",
                route.name,
                route.version,
                context.client_id,
                context.connection.client_host,
                elapsed * 1000,
            )

    def _error_response(self, context: RequestContext, error: BaseException) -> Any:
        from barnabas.server.api.error_responses import error_response

        route = context.route
        route.errors += 1
        if isinstance(error, KafkaError):
            code, message = error.code, error.message
        else:
            code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
            logger.error(
                "handler failed api=%s version=%d client_id=%s host=%s",
                route.name,
                route.version,
                context.client_id,
                context.connection.client_host,
                exc_info=error,
            )
        response = error_response(route.api, context.request, route.version, code, message)
        if response is None:
            raise ProtocolError(f"{route.name} v{route.version} has no place for {code.name}")
        return response


def handler_of(api: ApiKey) -> Handler:
    """The handler of a served api; imports its module on first use."""
    handler = HANDLERS.get(api.key)
    if handler is None:
        import_module(f"barnabas.server.api.handlers.{HANDLER_MODULES[api.name]}")
        handler = HANDLERS[api.key]
    return handler
