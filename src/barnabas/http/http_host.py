"""The host: an ASGI application on Hypercorn's trio worker.

    async with trio.open_nursery() as nursery:
        url = await nursery.start(partial(serve_app, app, settings))

Hypercorn is imported here and nowhere else.
"""

import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import trio

from barnabas.client import ClientConfig
from barnabas.config import ConfigError
from barnabas.http.asgi import Application, ErrorBody, json_error
from barnabas.http.authentication import Authentication, Credentials
from barnabas.http.hosted_app import HostedApp, always_ready
from barnabas.http.http_settings import (
    CrossOrigin,
    HttpOptions,
    HttpSettings,
    HttpTls,
    ListenAddress,
)
from barnabas.http.optional_packages import require

if TYPE_CHECKING:
    from hypercorn.config import Config

    from barnabas.http.host_metrics import HostMetrics

logger = logging.getLogger(__name__)

_BACKLOG = 1024
_KEEP_ALIVE_S = 75.0
# As long as a node's clients have (barnabas.authentication.timeout.ms).
_HANDSHAKE_S = 30.0
_REQUESTS_OF_A_CONNECTION = 1_000_000_000
_GRACE_S = 3.0


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
    task_status: "trio.TaskStatus[str]" = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled, or until `stop` returns; then requests in flight end first.

    Reports the URL once it listens. A room that must have its port first gives the `listener` that
    `bind_listener` made; the host closes it. With `auth` by Kafka, `brokers` check credentials.

    Raises HttpStartError when it cannot listen, ConfigError for unusable settings, and
    MissingPackageError when a package is not installed.
    """
    require("the HTTP host")
    from hypercorn import trio as hypercorn

    # Hypercorn's types describe every ASGI message; those of this package do not.
    run = cast(Any, hypercorn).serve

    options = settings.options
    hosted = HostedApp(
        app,
        authentication=await _authentication(options, brokers),
        body_bytes_max=options.body_bytes_max,
        logs_requests=options.logs_requests,
        metrics=metrics,
        not_ready=not_ready,
        error_body=error_body,
    )
    application = _cross_origin(hosted, options.cross_origin)
    config = _hypercorn_config(options.tls)
    listening = bind_listener(settings.listen) if listener is None else listener
    _warn_open_access(settings)
    port: int = listening.getsockname()[1]
    url = f"{options.scheme}://{ListenAddress(settings.listen.host, port)}"
    config.bind = [f"fd://{listening.detach()}"]
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(run, application, config, shutdown_trigger=stop))
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
    is_local = settings.listen.host in ("127.0.0.1", "::1", "localhost")
    if not settings.options.needs_authentication and not is_local:
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


def _hypercorn_config(tls: HttpTls | None) -> "Config":
    from hypercorn.config import Config

    config = Config()
    config.backlog = _BACKLOG
    config.ssl_handshake_timeout = _HANDSHAKE_S
    config.keep_alive_timeout = _KEEP_ALIVE_S
    config.keep_alive_max_requests = _REQUESTS_OF_A_CONNECTION
    config.graceful_timeout = _GRACE_S
    config.include_server_header = False
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
