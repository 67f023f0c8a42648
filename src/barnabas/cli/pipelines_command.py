"""`barnabas pipelines`: the runner of pipelines, beside any Kafka."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from barnabas.cli.client_options import pairs
from barnabas.cli.command_errors import CliError
from barnabas.cli.http_options import http_options
from barnabas.config import ConfigError

if TYPE_CHECKING:
    from barnabas.http import HttpOptions
    from barnabas.http.companion_main import Stop
    from barnabas.pipeline.jobs.runner_settings import RunnerSettings
    from barnabas.pipeline.spark.session import SessionSettings

logger = logging.getLogger(__name__)

_UNUSABLE = 2
_MASTER = "spark.master"
_MEMORY = "spark.driver.memory"


@click.command()
@click.option(
    "--bootstrap",
    "--bootstrap-server",
    metavar="HOST:PORT",
    help="Brokers of the Kafka cluster. [default: 127.0.0.1:9092]",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:8083",
    show_default=True,
    help="Where clients of Connect's REST API connect; port 0 takes a free one.",
)
@click.option(
    "--config",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Properties of the runner: group, topics, security, converters.",
)
@click.option(
    "--set", "settings_pairs", multiple=True, metavar="NAME=VALUE", help="A property; repeatable."
)
@click.option(
    "--spark",
    "spark_pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property of Spark, such as spark.master=spark://HOST:7077; repeatable.",
)
@click.option(
    "--advertised-url", metavar="URL", help="Where other runners' clients reach this one."
)
@http_options
def pipelines(
    bootstrap: str | None,
    listen: str,
    file: Path | None,
    settings_pairs: tuple[str, ...],
    spark_pairs: tuple[str, ...],
    advertised_url: str | None,
    options: HttpOptions,
    log_level: str,
    log_format: str,
) -> int:
    """Run connectors and streams on Spark until it is interrupted."""
    from barnabas.http import ListenAddress, MissingPackageError
    from barnabas.http.companion_main import run_companion
    from barnabas.http.optional_packages import require

    try:
        require("the pipelines' runner")
        address = ListenAddress.parse(listen)
        settings = _settings(bootstrap, file, settings_pairs, spark_pairs)
    except (ConfigError, MissingPackageError) as error:
        raise CliError(str(error), _UNUSABLE) from None
    from barnabas.client import ClientError
    from barnabas.pipeline.jobs.activity import ForeignGroupError
    from barnabas.pipeline.jobs.runner_process import RunnerListen, run_runner
    from barnabas.pipeline.jobs.storage_topics import StorageTopicError
    from barnabas.pipeline.spark.engine import Engine
    from barnabas.protocol.errors import KafkaError

    def on_ready(url: str) -> None:
        click.echo(f"pipelines ready url={url} group={settings.group_id}")

    async def serve(stop: Stop) -> None:
        with tempfile.TemporaryDirectory(prefix="barnabas-pipelines-") as directory:
            engine = Engine(_session(settings, Path(directory)), settings.view_directory)
            runner_listen = RunnerListen(address, options, advertised_url)
            await run_runner(settings, runner_listen, engine, on_ready, stop)

    return run_companion(
        serve,
        expected=(StorageTopicError, ForeignGroupError, KafkaError, ClientError),
        log_level=log_level,
        log_form=log_format,
    )


def _settings(
    bootstrap: str | None,
    file: Path | None,
    settings_pairs: tuple[str, ...],
    spark_pairs: tuple[str, ...],
) -> RunnerSettings:
    """Return the runner's settings: the options over the file. Raises ConfigError."""
    from barnabas.pipeline.jobs.runner_settings import RunnerSettings

    overrides = pairs(settings_pairs, "--set") | pairs(spark_pairs, "--spark")
    if bootstrap is not None:
        overrides["bootstrap.servers"] = bootstrap
    return RunnerSettings.load(file, overrides)


def _session(settings: RunnerSettings, directory: Path) -> SessionSettings:
    """Return the settings of the Spark session."""
    from barnabas.pipeline.spark.session import SessionSettings

    properties = dict(settings.spark_properties)
    return SessionSettings(
        work_directory=directory,
        checkpoint_directory=settings.checkpoint_directory,
        properties={k: v for k, v in properties.items() if k not in (_MASTER, _MEMORY)},
        master=properties.get(_MASTER, "local[*]"),
        driver_memory=properties.get(_MEMORY, "1g"),
        formats=settings.lake_formats,
    )
