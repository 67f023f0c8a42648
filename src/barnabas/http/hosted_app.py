"""An application with everything around it that all rooms share.

Each request passes, from the outside in: metrics and the request log; framing that h11 accepts and
proxies read in different ways; `/healthz` and `/metrics`; authentication; the body limit, except on
paths whose bodies are streams. A WebSocket on a path for WebSockets passes the same, as the request
that opens it; another one is refused before all checks. An exception of the application is a 500
response, logged with its traceback.
"""

import logging
import time
from collections.abc import Callable, Collection
from typing import Final

import trio

from barnabas.http.asgi import (
    Application,
    Body,
    ErrorBody,
    Headers,
    Message,
    Receive,
    Scope,
    Send,
    header,
    json_error,
    respond,
)
from barnabas.http.authentication import (
    AccessUnavailableError,
    Authentication,
    AuthenticationFailedError,
    principal_of,
)
from barnabas.http.body_limit import BodyTooLargeError, BodyTooSlowError, limited, timed
from barnabas.http.first_caller import PeerKey, adopt_first_caller
from barnabas.http.host_metrics import HostMetrics
from barnabas.http.unauthenticated_connections import current_connection

logger = logging.getLogger(__name__)
request_logger = logging.getLogger("barnabas.http.requests")

_RETRY_AFTER: Final = (b"retry-after", b"1")
_CLOSE: Final = (b"connection", b"close")
_TEXT: Final = b"text/plain; charset=utf-8"
_CLOSING_S: Final = 5.0
_SWITCHED: Final = 101
"""Counted for a WebSocket that was accepted."""
_NO_RESPONSE: Final = 499
"""Counted for a request whose client went away before the response."""


def always_ready() -> str | None:
    """Return None: the application serves from the start."""
    return None


class HostedApp:
    """The ASGI application that the host serves."""

    def __init__(
        self,
        app: Application,
        *,
        authentication: Authentication | None = None,
        body_bytes_max: int,
        logs_requests: bool = True,
        metrics: HostMetrics | None = None,
        not_ready: Callable[[], str | None] = always_ready,
        error_body: ErrorBody = json_error,
        peers: PeerKey | None = None,
        streamed_paths: Collection[str] = (),
        socket_paths: Collection[str] = (),
    ) -> None:
        """`not_ready` returns why the application cannot serve yet, None once it can."""
        self.metrics = metrics or HostMetrics()
        self._app = app
        self._authentication = authentication
        self._body_bytes_max = body_bytes_max
        self._logs_requests = logs_requests
        self._not_ready = not_ready
        self._error_body = error_body
        self._peers = peers
        self._streamed_paths = streamed_paths
        self._socket_paths = socket_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or WebSocket; one on another path than theirs is refused with 403."""
        if scope["type"] == "http":
            exchange = _Exchange(send)
        elif scope["path"] in self._socket_paths:
            scope["method"] = "GET"  # of the request that opens it
            exchange = _SocketExchange(send)
        else:
            await send({"type": "websocket.close"})
            return
        started = time.perf_counter()
        self.metrics.in_flight.inc()
        try:
            with current_connection().request():
                await self._answer(scope, receive, exchange)
        finally:
            seconds = time.perf_counter() - started
            self.metrics.in_flight.dec()
            self.metrics.served(scope["method"], exchange.status, seconds)
            if self._logs_requests:
                _log_request(scope, exchange, seconds)
        if isinstance(exchange, _SocketExchange):
            await exchange.finish(receive)

    async def _answer(self, scope: Scope, receive: Receive, exchange: "_Exchange") -> None:
        try:
            if _is_ambiguous(scope):
                message = "both Content-Length and Transfer-Encoding"
                await self._refuse(exchange, 400, message, [_CLOSE])
            elif scope["path"] in ("/healthz", "/metrics"):
                await self._operational(scope, exchange)
            else:
                if self._authentication is not None:
                    await self._authentication.authenticate(scope)
                current_connection().authenticated()
                adopt_first_caller(scope, self._peers)
                if scope["type"] == "http" and scope["path"] not in self._streamed_paths:
                    receive = limited(scope, timed(receive), self._body_bytes_max)
                await self._app(scope, receive, exchange.send)
        except AuthenticationFailedError as error:
            headers = self._authentication.challenges if self._authentication else []
            await self._refuse(exchange, 401, str(error), headers)
        except AccessUnavailableError as error:
            logger.warning("cannot check the caller error=%s", error)
            message = "the caller cannot be checked now: no broker answers as needed"
            await self._refuse(exchange, 503, message, [_RETRY_AFTER])
        except BodyTooLargeError as error:
            await self._refuse(exchange, 413, str(error), [_CLOSE])
        except BodyTooSlowError as error:
            await self._refuse(exchange, 408, str(error), [_CLOSE])
        except Exception:
            logger.exception("request failed method=%s path=%s", scope["method"], _path(scope))
            if not exchange.is_complete:  # some frameworks answer before they raise
                await self._refuse(exchange, 500, "internal server error", [_CLOSE])

    async def _operational(self, scope: Scope, exchange: "_Exchange") -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await self._refuse(exchange, 405, "only GET is supported", [(b"allow", b"GET, HEAD")])
        elif scope["path"] == "/metrics":
            await respond(exchange.send, 200, self.metrics.exposition())
        else:
            reason = self._not_ready()
            if reason is None:
                await respond(exchange.send, 200, Body(_TEXT, b"ok\n"))
            else:
                body = Body(_TEXT, reason.encode() + b"\n")
                await respond(exchange.send, 503, body, [_RETRY_AFTER])

    async def _refuse(
        self, exchange: "_Exchange", status: int, message: str, headers: Headers | None = None
    ) -> None:
        """Send an error response, unless a response has begun: then the connection ends."""
        if exchange.has_started:
            raise ConnectionAbortedError(message)
        await respond(exchange.send, status, self._error_body(status, message), headers)


class _Exchange:
    """Watches a response on its way out.

    A connection that had time enough to authenticate, and has not, ends with it: also one whose
    requests need no credentials.
    """

    def __init__(self, send: Send) -> None:
        self.status = _NO_RESPONSE
        self.has_started = False
        self.is_complete = False
        self.body_bytes = 0
        self._send = send

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_started = True
            self.status = message["status"]
            if current_connection().is_overdue:
                headers = [each for each in message["headers"] if each[0] != _CLOSE[0]]
                message = {**message, "headers": [*headers, _CLOSE]}
        else:
            self.body_bytes += len(message.get("body", b""))
            self.is_complete = not message.get("more_body", False)
        await self._send(message)


class _SocketExchange(_Exchange):
    """Watches a WebSocket, or the response that refuses it, behind which the connection ends."""

    def __init__(self, send: Send) -> None:
        super().__init__(_refusing(send))

    async def send(self, message: Message) -> None:
        kind: str = message["type"]
        if not kind.startswith("websocket."):
            if "headers" in message:
                message = {**message, "headers": [*message["headers"], _CLOSE]}
            await super().send(message)
            return
        if kind == "websocket.accept":
            self.has_started = True
            self.status = _SWITCHED
        self.body_bytes += len(message.get("text", "").encode())
        self.is_complete = kind == "websocket.close"
        await self._send(message)

    async def finish(self, receive: Receive) -> None:
        """Wait for the client's close frame behind that of the application.

        A connection that ended before could take from the client what it has not read.
        """
        if self.status == _SWITCHED and self.is_complete:
            with trio.move_on_after(_CLOSING_S):
                while (await receive())["type"] != "websocket.disconnect":
                    pass


def _refusing(send: Send) -> Send:
    """Return a `send` that names the messages of a response as those that refuse a WebSocket."""

    async def found(message: Message) -> None:
        kind: str = message["type"]
        is_response = kind.startswith("http.")
        await send({**message, "type": f"websocket.{kind}"} if is_response else message)

    return found


def _is_ambiguous(scope: Scope) -> bool:
    """True for a request whose end proxies may see at different places (request smuggling)."""
    return (
        header(scope, b"transfer-encoding") is not None
        and header(scope, b"content-length") is not None
    )


def _path(scope: Scope) -> str:
    """Return the path as sent, without control characters or blanks."""
    raw = scope.get("raw_path") or scope["path"].encode()
    path = raw.decode("latin-1")
    if path.isascii() and path.isprintable() and "\\" not in path:
        return path.replace(" ", "%20")
    return path.encode("unicode_escape").decode().replace(" ", "%20")


def _log_request(scope: Scope, exchange: _Exchange, seconds: float) -> None:
    client = scope.get("client") or ("-", 0)
    request_logger.info(
        "request method=%s path=%s status=%d bytes=%d ms=%.1f client=%s principal=%s",
        scope["method"],
        _path(scope),
        exchange.status,
        exchange.body_bytes,
        seconds * 1000,
        client[0],
        principal_of(scope),
    )
