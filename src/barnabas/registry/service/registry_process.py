"""One registry: a Kafka client, the topic, the group of instances, and a listener."""

import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import attrs
import trio
from prometheus_client import Gauge

from barnabas.client import KafkaClient, open_client
from barnabas.client.client_config import ClientConfig
from barnabas.http import (
    Body,
    HttpOptions,
    HttpSettings,
    HttpTls,
    ListenAddress,
    bind_listener,
    json_error,
    serve_app,
)
from barnabas.http.host_metrics import HostMetrics
from barnabas.registry.core.registry_core import RegistryCore
from barnabas.registry.rest.registry_app import CONTENT_TYPE, RegistryApp
from barnabas.registry.service.acl_authorizer import AclAuthorizer, Authorization
from barnabas.registry.service.election_protocol import InstanceAddress
from barnabas.registry.service.leadership import Leadership
from barnabas.registry.service.registry_service import RegistryService
from barnabas.registry.service.schemas_topic import SchemasTopic, prepare_topic

logger = logging.getLogger(__name__)

_WILDCARDS = ("0.0.0.0", "::", "")
_ERROR_CODES = {401: 40101, 403: 40301, 500: 50001}


@attrs.frozen
class RegistrySettings:
    """The settings of one registry."""

    client: ClientConfig
    host: str = "127.0.0.1"
    port: int = 8081
    topic: str = "_schemas"
    group_id: str = "schema-registry"
    advertised_host: str | None = None
    http: HttpOptions = attrs.field(factory=HttpOptions)
    """TLS, authentication and limits of the listener."""
    authorization: Authorization | None = None
    """How the cluster's ACLs decide about requests; None: every caller may do everything."""


async def run_registry(
    settings: RegistrySettings,
    on_ready: Callable[[str], None] = lambda url: None,
    stop: Callable[[], Awaitable[None]] = trio.sleep_forever,
) -> None:
    """Serve until cancelled or until ``stop`` returns. ``on_ready`` gets the URL.

    Raises HttpStartError when it cannot listen, TopicRefusedError, ConfigError when it cannot
    authorize as its settings say, or what the client raises when
    Kafka refuses it.
    """
    address = ListenAddress(settings.host, settings.port)
    with bind_listener(address) as listener:
        async with (
            open_client(settings.client) as client,
            AsyncExitStack() as stack,
            trio.open_nursery() as nursery,
        ):
            own = InstanceAddress(
                settings.http.scheme, _advertised(settings), listener.getsockname()[1]
            )
            core = RegistryCore()
            topic = SchemasTopic(client, settings.topic, core)
            tls = _peer_tls(settings.http.tls)
            leadership = Leadership(client, settings.group_id, own, tls)
            service = RegistryService(client, topic, core, leadership, tls)
            stack.push_async_callback(service.close)
            rules = settings.authorization
            authorizer = None if rules is None else AclAuthorizer(client, rules)

            async def serve(task_status: "trio.TaskStatus[str]") -> None:
                await serve_app(
                    RegistryApp(service, authorizer).asgi(),
                    HttpSettings(address, settings.http),
                    not_ready=lambda: service.not_ready,
                    error_body=_error_body,
                    metrics=_metrics(core, leadership, topic),
                    brokers=settings.client,
                    stop=stop,
                    listener=listener,
                    task_status=task_status,
                )
                nursery.cancel_scope.cancel()

            await nursery.start(serve)
            if authorizer is not None:
                await authorizer.load()
            await _read_topic(client, settings, topic)
            nursery.start_soon(topic.follow)
            nursery.start_soon(leadership.run)
            service.ready(
                {
                    "kafka-cluster": client.metadata.cluster_id or "",
                    "schema-registry-cluster": settings.group_id,
                }
            )
            on_ready(own.url)


def _error_body(status: int, message: str) -> Body:
    """Return the body of an error that the host answers, with the registry's error codes."""
    code = _ERROR_CODES.get(status, status)
    return Body(CONTENT_TYPE.encode(), json_error(code, message).data)


def _peer_tls(tls: HttpTls | None) -> ssl.SSLContext | None:
    """Return how to trust other instances, which may share a self-signed certificate."""
    if tls is None:
        return None
    context = ssl.create_default_context(cafile=tls.client_ca_file)
    context.load_verify_locations(tls.certificate_file)
    if tls.client_ca_file is not None:
        context.load_cert_chain(tls.certificate_file, tls.key_file, tls.key_password or "")
    return context


def _metrics(core: RegistryCore, leadership: Leadership, topic: SchemasTopic) -> HostMetrics:
    metrics = HostMetrics()
    state = core.state
    values: dict[tuple[str, str], Callable[[], float]] = {
        ("subjects", "Subjects."): lambda: len(state.subjects),
        ("schemas", "Schemas: ids in use, of all contexts."): state.id_count,
        ("leader", "1 when this instance leads."): lambda: leadership.is_leader,
        ("offset", "Records of the topic that are replayed."): lambda: topic.position,
        ("skipped_records", "Records that cannot be read."): lambda: core.skipped_records,
        ("undone_records", "Records that came after one that excludes them."): (
            lambda: state.undone_records
        ),
    }
    for (name, text), value in values.items():
        Gauge(f"barnabas_registry_{name}", text, registry=metrics.registry).set_function(value)
    return metrics


async def _read_topic(client: KafkaClient, settings: RegistrySettings, topic: SchemasTopic) -> None:
    await prepare_topic(client, settings.topic)
    started = trio.current_time()
    await topic.read_to_end()
    logger.info(
        "read topic=%s end=%d seconds=%.3f",
        settings.topic,
        topic.position,
        trio.current_time() - started,
    )


def _advertised(settings: RegistrySettings) -> str:
    """Return the host that other instances connect to."""
    if settings.advertised_host is not None:
        return settings.advertised_host
    return socket.getfqdn() if settings.host in _WILDCARDS else settings.host
