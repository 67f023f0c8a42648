"""`barnabas registry`: a schema registry beside any Kafka."""

from __future__ import annotations

import logging
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from barnabas.cli.command_errors import CliError
from barnabas.config import ConfigError

if TYPE_CHECKING:
    from barnabas.registry.service.registry_process import RegistrySettings

_MISSING = 2


@click.command()
@click.option(
    "--bootstrap",
    "--bootstrap-server",
    metavar="HOST:PORT",
    default="127.0.0.1:9092",
    show_default=True,
    help="Brokers of the Kafka cluster that holds the schemas.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:8081",
    show_default=True,
    help="Where clients connect; port 0 takes a free one.",
)
@click.option(
    "--client-config",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Properties of the Kafka client: TLS, SASL, timeouts.",
)
@click.option(
    "--topic", default="_schemas", show_default=True, help="The topic that holds the schemas."
)
@click.option(
    "--group",
    default="schema-registry",
    show_default=True,
    help="The group in which instances elect their leader.",
)
@click.option(
    "--advertised-host",
    metavar="HOST",
    help="Where other instances reach this one. [default: --listen]",
)
def registry(
    bootstrap: str,
    listen: str,
    file: Path | None,
    topic: str,
    group: str,
    advertised_host: str | None,
) -> int:
    """Run a schema registry until it is interrupted."""
    for package in ("starlette", "hypercorn"):
        if find_spec(package) is None:
            raise CliError(f"{package} is missing: pip install 'barnabas[registry]'", _MISSING)
    import trio

    from barnabas.client.client_config import ClientConfig
    from barnabas.registry.service.registry_process import RegistrySettings

    host, port = _address(listen)
    try:
        client = ClientConfig.load(file, {"bootstrap.servers": bootstrap})
    except ConfigError as error:
        raise CliError(error.message) from None
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="[%(asctime)s] %(levelname)s %(message)s"
    )
    for name in client.ignored:
        logging.warning("ignoring unknown client property name=%s", name)
    settings = RegistrySettings(client, host, port, topic, group, advertised_host)
    trio.run(_serve, settings)
    return 0


async def _serve(settings: RegistrySettings) -> None:
    from barnabas.client import ClientError
    from barnabas.protocol.errors import KafkaError
    from barnabas.registry.service.registry_process import run_registry
    from barnabas.registry.service.schemas_topic import TopicRefusedError

    def on_ready(url: str) -> None:
        click.echo(f"schema registry ready url={url} topic={settings.topic}")

    try:
        await run_registry(settings, on_ready)
    except* OSError as errors:
        raise CliError(f"--listen {settings.host}:{settings.port}: {_first(errors)}") from None
    except* (TopicRefusedError, KafkaError, ClientError) as errors:
        raise CliError(str(_first(errors))) from None


def _first(errors: BaseException) -> BaseException:
    while isinstance(errors, BaseExceptionGroup):
        errors = errors.exceptions[0]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return errors  # pyright: ignore[reportUnknownVariableType]


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal():
        raise CliError(f"Invalid value {text} for --listen: it must be HOST:PORT")
    if int(port) > 65535:
        raise CliError(f"Invalid port {port} in --listen {text}: the largest is 65535")
    return host.removeprefix("[").removesuffix("]"), int(port)
