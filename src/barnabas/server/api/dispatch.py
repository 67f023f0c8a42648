"""From a frame to its handler, and from the handler's response to bytes.

A `Route` is an (api key, version) with all that serving it takes, made on its first request from
the api's line in `api.registry`; a handler's module is imported then.
"""

import logging
from collections.abc import Callable, Mapping
from struct import Struct
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.framing import encode_response, parse_request_header
from barnabas.server.api.authorization import guarded
from barnabas.server.api.context import AnyContext, Peer, RequestContext
from barnabas.server.api.node_quotas import ClientQuotas, QuotaWindows
from barnabas.server.api.registry import REGISTRY, ListenerKind, ServedApi

if TYPE_CHECKING:
    from barnabas.security.standard_authorizer import StandardAuthorizer

logger = logging.getLogger(__name__)

API_VERSIONS: Final = 18
_WINDOWS: Final = QuotaWindows(11, 1000)

_KEY_AND_VERSION = Struct(">i")
_HEADER_START = Struct(">hhi")


class Route:
    """One version of one api: its decoder, handler and services, and counts of its requests."""

    __slots__ = (
        "api",
        "api_key",
        "authorizer",
        "decode",
        "error_places",
        "errors",
        "handler",
        "listener",
        "name",
        "quotas",
        "requests",
        "response_header_version",
        "seconds",
        "services",
        "version",
        "waits",
    )

    def __init__(
        self,
        line: ServedApi,
        listener: ListenerKind,
        version: int,
        services: Any,
        authorizer: "StandardAuthorizer | None",
        quotas: ClientQuotas,
    ) -> None:
        api = self.api = line.api
        self.listener: ListenerKind = listener
        self.api_key: int = api.key
        self.name: str = api.name
        self.version = version
        self.authorizer = authorizer
        self.quotas = quotas
        self.handler = line.handler()
        if authorizer is not None:
            self.handler = guarded(self.handler, line.authorization)
        self.services = services
        self.error_places = line.errors
        self.decode: Callable[[Any, int, int], tuple[Any, int]] = api.request_type.decode_from
        self.response_header_version: int = api.response_header_version(version)
        self.waits = line.waits
        self.requests = 0
        self.errors = 0
        self.seconds = 0.0


class Dispatcher:
    """Decodes requests and encodes responses for all connections of one kind of listener.

    `services` holds, for each family of handlers, the parts of the node that they use. Without
    `quotas` no client is held back.
    """

    def __init__(
        self,
        listener: ListenerKind,
        services: Mapping[str, object],
        *,
        slow_request_s: float,
        authorizer: "StandardAuthorizer | None" = None,
        quotas: ClientQuotas | None = None,
    ) -> None:
        self._services = services
        self.quotas = quotas or ClientQuotas(_WINDOWS, _WINDOWS, lambda: 0)
        self._authorizer = authorizer
        self.listener: ListenerKind = listener
        self.routes: dict[int, Route] = {}
        self._slow_request_s = slow_request_s

    def decode(self, connection: Peer, frame: bytearray) -> AnyContext:
        """Read a frame's header and body.

        Raises ProtocolError when the connection must be closed.
        """
        if len(frame) < 8:
            raise ProtocolError(f"a frame of {len(frame)} bytes holds no request header")
        route = self.routes.get(_KEY_AND_VERSION.unpack_from(frame)[0])
        if route is None:
            route = self._route(frame)
            _, version, correlation_id = _HEADER_START.unpack_from(frame)
            if version != route.version:  # of ApiVersions: the body's layout is unknown
                header, _ = parse_request_header(frame)
                return RequestContext(connection, route, correlation_id, header.client_id, None)
        header, position = parse_request_header(frame)
        # Bytes after the body are ignored, as by Kafka.
        request, _ = route.decode(frame, position, route.version)
        return RequestContext(
            connection, route, header.correlation_id, header.client_id, request, len(frame)
        )

    def _route(self, frame: bytearray) -> Route:
        """Return the route of an api and version on its first request.

        Raises ProtocolError when this listener does not serve it.
        """
        key, version, _ = _HEADER_START.unpack_from(frame)
        line = REGISTRY[self.listener].get(key)
        if line is None:
            raise ProtocolError(f"api key {key} is not served on this listener")
        api = line.api
        if not api.min_version <= version <= api.advertised[1]:
            if key != API_VERSIONS:
                raise ProtocolError(f"{api.name} v{version} is not served")
            version = 0  # the client reads the supported versions from the response (KIP-511)
        packed = (key << 16) | version
        route = self.routes.get(packed)
        if route is None:
            services = self._services[line.family]
            route = self.routes[packed] = Route(
                line, self.listener, version, services, self._authorizer, self.quotas
            )
        return route

    def encode(self, context: AnyContext, response: Any) -> list[Any]:
        """Return the response's parts, ready to send; an exception becomes the api's error
        response.
        """
        route = context.route
        failed = isinstance(response, BaseException)
        if failed:
            response = self._error_response(context, response)
        header_version, version = route.response_header_version, route.version
        if context.throttle_ms and "throttle_time_ms" in response.FIELDS:
            response.throttle_time_ms = context.throttle_ms
        try:
            parts = encode_response(context.correlation_id, header_version, response, version)
        except Exception as error:
            if failed:
                raise
            response = self._error_response(context, error)
            parts = encode_response(context.correlation_id, header_version, response, version)
        self.count(context)
        return parts

    def count(self, context: AnyContext) -> None:
        """Count a finished request; log a slow one."""
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

    def _error_response(self, context: AnyContext, error: BaseException) -> Any:
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
        places, version = route.error_places, route.version
        response = error_response(route.api, places, context.request, version, code, message)
        if response is None:
            raise ProtocolError(f"{route.name} v{version} has no place for {code.name}")
        return response
