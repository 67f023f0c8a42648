"""The host: an ASGI application on Hypercorn's trio worker.

async with trio.open_nursery() as nursery:
    url = await nursery.start(partial(serve_app, app, settings))
"""

import logging
import socket
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING

import trio

from barnabas.client import ClientConfig
from barnabas.config import ConfigError
from barnabas.http.asgi import Application, ErrorBody, json_error
from barnabas.http.authentication import Authentication, Credentials
from barnabas.http.first_caller import peer_key
from barnabas.http.hosted_app import HostedApp, always_ready
from barnabas.http.http_settings import (
    CrossOrigin,
    HttpOptions,
    HttpSettings,
    ListenAddress,
)
from barnabas.http.optional_packages import require
from barnabas.http.unauthenticated_connections import UnauthenticatedConnections

if TYPE_CHECKING:
    from barnabas.http.host_metrics import HostMetrics

logger = logging.getLogger(__name__)


class HttpStartError(Exception):
    """The host cannot start: one line that says why."""


async def serve_app(
    app: Application,
    settings: HttpSettings,
    *,
    not_ready: Callable[[], str | None] = always_ready,
    error_body: ErrorBody = json_error,
    metrics: "HostMetrics | None" = None,
    brokers: ClientConfig | None = None,
    stop: Callable[[], Awaitable[None]] | None = None,
    listener: socket.socket | None = None,
    streamed_paths: Collection[str] = (),
    socket_paths: Collection[str] = (),
    task_status: "trio.TaskStatus[str]" = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled, or until `stop` returns; then requests in flight end first.

    Reports the URL once it listens. A room that must have its port first gives the `listener` that
    `bind_listener` made; the host closes it. With `auth` by Kafka, `brokers` check credentials.
    Bodies sent to `streamed_paths` have no limits of size and time here: the room has its own.
    The room accepts WebSockets on `socket_paths`; all others are refused.

    Raises HttpStartError when it cannot listen, ConfigError for unusable settings, and
    MissingPackageError when a package is not installed.
    """
    require("the HTTP host")
    from barnabas.http.http_server import HttpServer

    options = settings.options
    hosted = HostedApp(
        app,
        authentication=await _authentication(options, brokers),
        body_bytes_max=options.body_bytes_max,
        logs_requests=options.logs_requests,
        metrics=metrics,
        not_ready=not_ready,
        error_body=error_body,
        peers=await peer_key(brokers, options.peer_secret),
        streamed_paths=streamed_paths,
        socket_paths=socket_paths,
    )
    connections = UnauthenticatedConnections(options.limits, hosted.metrics.closed_unauthenticated)
    hosted.metrics.show_unauthenticated(lambda: len(connections))
    server = HttpServer(_cross_origin(hosted, options.cross_origin), options.tls, connections)
    listening = bind_listener(settings.listen) if listener is None else listener
    _warn_open_access(settings)
    port: int = listening.getsockname()[1]
    url = f"{options.scheme}://{ListenAddress(settings.listen.host, port)}"
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run, listening, stop or trio.sleep_forever)
        logger.info("serving http url=%s", url)
        task_status.started(url)


def _cross_origin(app: Application, rules: CrossOrigin) -> Application:
    """Return the application with answers that pages of other origins may read.

    A browser sends no credentials with its preflight, so that is answered before all checks.
    """
    if not rules.origins:
        return app
    from starlette.middleware.cors import CORSMiddleware

    return CORSMiddleware(
        app,
        allow_origins=rules.origins,
        allow_methods=rules.methods,
        allow_headers=rules.headers,
        expose_headers=rules.exposed,
    )


def _warn_open_access(settings: HttpSettings) -> None:
    if not settings.options.needs_authentication and not settings.listen.is_local:
        logger.warning("serving http without authentication listen=%s", settings.listen)


async def _authentication(
    options: HttpOptions, brokers: ClientConfig | None
) -> Authentication | None:
    schemes: list[Credentials] = []
    if options.auth:
        from barnabas.http.kafka_auth import KafkaAuth

        if brokers is None:
            raise ConfigError("authentication by Kafka needs the address of brokers")
        schemes.append(KafkaAuth(brokers))
    if options.password_file is not None:
        from barnabas.http.basic_auth import BasicAuth, read_password_file

        schemes.append(BasicAuth(read_password_file(options.password_file)))
    if options.bearer is not None:
        from barnabas.http.bearer_auth import BearerAuth, load_validator

        schemes.append(BearerAuth(options.bearer, await load_validator(options.bearer)))
    return Authentication(schemes) if schemes else None


def bind_listener(address: ListenAddress) -> socket.socket:
    """Return a bound socket. Raises HttpStartError with the address and the reason."""
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            listening.bind(target)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise HttpStartError(f"cannot listen on {address}: {error.strerror or error}") from None
    return listening
