"""One registry: a Kafka client, the topic, the group of instances, and a listener."""

import logging
import os
import socket
from collections.abc import Callable
from typing import Any, cast

import attrs
import trio

from barnabas.client import KafkaClient, open_client
from barnabas.client.client_config import ClientConfig
from barnabas.registry.core.registry_core import RegistryCore
from barnabas.registry.rest.registry_app import RegistryApp
from barnabas.registry.service.election_protocol import InstanceAddress
from barnabas.registry.service.leadership import Leadership
from barnabas.registry.service.registry_service import RegistryService
from barnabas.registry.service.schemas_topic import SchemasTopic, prepare_topic

logger = logging.getLogger(__name__)

_WILDCARDS = ("0.0.0.0", "::", "")


@attrs.frozen
class RegistrySettings:
    """The settings of one registry."""

    client: ClientConfig
    host: str = "127.0.0.1"
    port: int = 8081
    topic: str = "_schemas"
    group_id: str = "schema-registry"
    advertised_host: str | None = None


async def run_registry(
    settings: RegistrySettings, on_ready: Callable[[str], None] = lambda url: None
) -> None:
    """Serve until cancelled. ``on_ready`` gets the URL once requests are answered.

    Raises OSError when the address is taken, TopicRefusedError, or what the client raises when
    Kafka refuses it.
    """
    listener = _bound(settings.host, settings.port)
    try:
        async with open_client(settings.client) as client, trio.open_nursery() as nursery:
            own = InstanceAddress("http", _advertised(settings), listener.getsockname()[1])
            core = RegistryCore()
            topic = SchemasTopic(client, settings.topic, core)
            leadership = Leadership(client, settings.group_id, own, None)
            service = RegistryService(client, topic, core, leadership)
            nursery.start_soon(_serve_http, RegistryApp(service), listener)
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
    finally:
        listener.close()


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


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(256)
    except OSError:
        listener.close()
        raise
    return listener


def _advertised(settings: RegistrySettings) -> str:
    """Return the host that other instances connect to."""
    if settings.advertised_host is not None:
        return settings.advertised_host
    return socket.getfqdn() if settings.host in _WILDCARDS else settings.host


async def _serve_http(app: RegistryApp, listener: socket.socket) -> None:
    from hypercorn.config import Config
    from hypercorn.trio import serve  # pyright: ignore[reportUnknownVariableType]

    config = Config()
    # The server closes the descriptor that it is given.
    config.bind = [f"fd://{os.dup(listener.fileno())}"]
    config.accesslog = None
    config.errorlog = None
    config.keep_alive_timeout = 75
    await serve(cast("Any", app.asgi()), config, shutdown_trigger=trio.sleep_forever)
