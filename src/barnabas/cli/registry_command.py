"""`barnabas registry`: a schema registry beside any Kafka."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from barnabas.cli.command_errors import CliError
from barnabas.cli.http_options import http_options
from barnabas.config import ConfigError

if TYPE_CHECKING:
    from barnabas.client import ClientConfig
    from barnabas.http import HttpOptions
    from barnabas.http.companion_main import Stop
    from barnabas.registry.service.acl_authorizer import Authorization

logger = logging.getLogger(__name__)

_UNUSABLE = 2


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
    "--command-config",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Properties of the Kafka client (TLS, SASL, timeouts) and of the HTTP listener.",
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
@click.option(
    "--authorize",
    is_flag=True,
    help="Authorize requests by the ACLs of the topics that subjects belong to.",
)
@http_options
def registry(
    bootstrap: str,
    listen: str,
    file: Path | None,
    topic: str,
    group: str,
    advertised_host: str | None,
    authorize: bool,
    options: HttpOptions,
    log_level: str,
    log_format: str,
) -> int:
    """Run a schema registry until it is interrupted."""
    from barnabas.http import ListenAddress, MissingPackageError
    from barnabas.http.optional_packages import require

    try:
        require("the schema registry")
        address = ListenAddress.parse(listen)
        given = _given(bootstrap, file, options, authorize=authorize)
    except (ConfigError, MissingPackageError) as error:
        raise CliError(str(error), _UNUSABLE) from None
    from barnabas.client import ClientError
    from barnabas.http.companion_main import run_companion
    from barnabas.protocol.errors import KafkaError
    from barnabas.registry.service.registry_process import RegistrySettings, run_registry
    from barnabas.registry.service.schemas_topic import TopicRefusedError

    settings = RegistrySettings(
        given.client,
        address.host,
        address.port,
        topic,
        group,
        advertised_host,
        given.http,
        given.authorization,
    )

    async def serve(stop: Stop) -> None:
        for name in given.client.ignored:
            logger.warning("ignoring unknown client property name=%s", name)
        await run_registry(settings, on_ready, stop)

    def on_ready(url: str) -> None:
        click.echo(f"schema registry ready url={url} topic={settings.topic}")

    return run_companion(
        serve,
        expected=(TopicRefusedError, KafkaError, ClientError),
        log_level=log_level,
        log_form=log_format,
    )


class _Given(NamedTuple):
    client: ClientConfig
    http: HttpOptions
    authorization: Authorization | None


def _given(bootstrap: str, file: Path | None, options: HttpOptions, *, authorize: bool) -> _Given:
    """Return the settings that the options and the file of --client-config have.

    Raises ConfigError.
    """
    from barnabas.client import ClientConfig
    from barnabas.config import properties_file
    from barnabas.http import HTTP_PROPERTIES
    from barnabas.registry.service.acl_authorizer import AUTHORIZATION_PROPERTIES, Authorization

    found = properties_file.read(file) if file is not None else {}
    http = {name: found.pop(name) for name in HTTP_PROPERTIES if name in found}
    rules = {name: found.pop(name) for name in AUTHORIZATION_PROPERTIES if name in found}
    return _Given(
        ClientConfig.from_properties({**found, "bootstrap.servers": bootstrap}),
        options.with_properties(http),
        Authorization.from_properties(rules, enabled=authorize),
    )
