"""Connections of the host: accepted here, each served by Hypercorn's protocol.

Hypercorn is imported here and nowhere else. Its own loop of accepting has no limits for connections
that have not authenticated, so its class for one connection is used without that loop.
"""

import logging
import math
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import trio

from barnabas.config import ConfigError
from barnabas.http.asgi import Application
from barnabas.http.http_settings import HttpTls
from barnabas.http.unauthenticated_connections import UnauthenticatedConnections

if TYPE_CHECKING:
    from hypercorn.config import Config

logger = logging.getLogger(__name__)

_BACKLOG: Final = 1024
_KEEP_ALIVE_S: Final = 75.0
_REQUESTS_OF_A_CONNECTION: Final = 1_000_000_000
_GRACE_S: Final = 3.0
_SOCKET_MESSAGE_BYTES_MAX: Final = 65_536
"""Clients of WebSockets only listen."""
_SOCKET_PING_S: Final = 20.0
"""Proxies keep a WebSocket open, and one whose client is gone ends."""

_Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]
_Listener = trio.SocketListener | trio.SSLListener[trio.SocketStream]


class HttpServer:
    """Serves an application to the clients of a bound socket."""

    def __init__(
        self, app: Application, tls: HttpTls | None, connections: UnauthenticatedConnections
    ) -> None:
        """Raises ConfigError when the files of TLS cannot be used."""
        from hypercorn.app_wrappers import ASGIWrapper
        from hypercorn.trio.worker_context import WorkerContext

        self._app = ASGIWrapper(cast(Any, app))
        self._context = WorkerContext(None)
        self._config = _hypercorn_config(tls)
        self._connections = connections

    async def run(
        self,
        listening: socket.socket,
        stop: Callable[[], Awaitable[None]],
        task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until `stop` returns; then connections get a moment to end. Closes the socket."""
        listening.listen(_BACKLOG)
        listeners = [self._listener(listening)]
        async with trio.open_nursery() as serving:
            async with trio.open_nursery() as accepting:
                await accepting.start(
                    partial(trio.serve_listeners, self._serve, listeners, handler_nursery=serving)
                )
                task_status.started()
                await stop()
                accepting.cancel_scope.cancel()
            await self._context.terminated.set()
            serving.cancel_scope.deadline = trio.current_time() + _GRACE_S

    def _listener(self, listening: socket.socket) -> _Listener:
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        context = self._config.create_ssl_context()
        if context is None:
            return listener
        return trio.SSLListener(listener, context, https_compatible=True)

    async def _serve(self, stream: _Stream) -> None:
        """Serve one connection; no failure of it ends the others."""
        from hypercorn.trio.tcp_server import TCPServer

        sock = (stream.transport_stream if isinstance(stream, trio.SSLStream) else stream).socket
        server = TCPServer(self._app, self._config, self._context, cast(Any, {}), cast(Any, stream))
        try:
            await self._connections.serve(_host_of(sock), server.run, sock.close)
        except Exception:
            logger.exception("an http connection failed")
        finally:
            sock.close()


def _host_of(sock: trio.socket.SocketType) -> str:
    try:
        return str(sock.getpeername()[0])
    except OSError:  # the client has closed it
        return "-"


def _hypercorn_config(tls: HttpTls | None) -> "Config":
    from hypercorn.config import Config

    config = Config()
    config.ssl_handshake_timeout = math.inf  # it has the time of an unauthenticated connection
    config.keep_alive_timeout = _KEEP_ALIVE_S
    config.keep_alive_max_requests = _REQUESTS_OF_A_CONNECTION
    config.include_server_header = False
    config.websocket_max_message_size = _SOCKET_MESSAGE_BYTES_MAX
    config.websocket_ping_interval = _SOCKET_PING_S
    config.alpn_protocols = ["http/1.1"]
    config.accesslog = None
    config.errorlog = logging.getLogger("barnabas.http.hypercorn")
    config.errorlog.setLevel(logging.WARNING)
    if tls is not None:
        _check_tls(tls)
        config.certfile = str(tls.certificate_file)
        config.keyfile = str(tls.key_file)
        config.keyfile_password = tls.key_password
        if tls.client_ca_file is not None:
            config.ca_certs = str(tls.client_ca_file)
            config.verify_mode = ssl.CERT_REQUIRED
    return config


def _check_tls(tls: HttpTls) -> None:
    """Raise ConfigError when the certificate, key or authority cannot be used."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(tls.certificate_file, tls.key_file, tls.key_password or "")
        if tls.client_ca_file is not None:
            context.load_verify_locations(tls.client_ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"Cannot use the TLS files: {error}") from None
