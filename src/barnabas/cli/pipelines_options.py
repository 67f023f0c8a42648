"""The options of a runner of pipelines, which `barnabas pipelines` and its `submit` have."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from barnabas.cli.client_options import pairs
from barnabas.cli.http_options import http_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.http import HttpOptions
    from barnabas.pipeline.jobs.runner_settings import RunnerSettings
    from barnabas.pipeline.spark.session import SessionSettings

_MASTER = "spark.master"
_MEMORY = "spark.driver.memory"
_GATEWAY = "PYSPARK_GATEWAY_PORT"
"""Spark sets it for the program that spark-submit runs."""

_OPTIONS = (
    click.option(
        "--bootstrap",
        "--bootstrap-server",
        metavar="HOST:PORT",
        help="Brokers of the Kafka cluster. [default: 127.0.0.1:9092]",
    ),
    click.option(
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:8083",
        show_default=True,
        help="Where clients of Connect's REST API connect; port 0 takes a free one.",
    ),
    click.option(
        "--config",
        "file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Properties of the runner: group, topics, security, converters.",
    ),
    click.option(
        "--set",
        "settings_pairs",
        multiple=True,
        metavar="NAME=VALUE",
        help="A property; repeatable.",
    ),
    click.option(
        "--spark",
        "spark_pairs",
        multiple=True,
        metavar="NAME=VALUE",
        help="A property of Spark, such as spark.master=spark://HOST:7077; repeatable.",
    ),
    click.option(
        "--plugin-path",
        "plugin_directories",
        multiple=True,
        metavar="DIRECTORY",
        help="A directory of Java's plug-ins (plugin.path), whose connectors a worker of Apache "
        "Kafka's Connect runs; repeatable.",
    ),
    click.option(
        "--sql",
        "has_sql",
        is_flag=True,
        help="Run SQL: a stored catalog, and the queries of its statements as jobs.",
    ),
    click.option(
        "--sql-listen",
        metavar="HOST:PORT",
        default="127.0.0.1:8088",
        show_default=True,
        help="With --sql, where clients of ksqlDB's REST API connect; port 0 takes a free one.",
    ),
    click.option(
        "--advertised-url", metavar="URL", help="Where other runners' clients reach this one."
    ),
)


@attrs.frozen
class Given:
    """The options of a runner as they were given."""

    bootstrap: str | None
    listen: str
    file: Path | None
    settings_pairs: tuple[str, ...]
    spark_pairs: tuple[str, ...]
    plugin_directories: tuple[str, ...]
    has_sql: bool
    sql_listen: str
    advertised_url: str | None


def runner_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options to a command; it gets them as `given`, with those of `http_options`."""

    def run(
        bootstrap: str | None,
        listen: str,
        file: Path | None,
        settings_pairs: tuple[str, ...],
        spark_pairs: tuple[str, ...],
        plugin_directories: tuple[str, ...],
        has_sql: bool,
        sql_listen: str,
        advertised_url: str | None,
        **others: object,
    ) -> int:
        given = Given(
            bootstrap,
            listen,
            file,
            settings_pairs,
            spark_pairs,
            plugin_directories,
            has_sql,
            sql_listen,
            advertised_url,
        )
        return command(given=given, **others)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__dict__.update(command.__dict__)
    found: Callable[..., int] = http_options(run)
    for option in reversed(_OPTIONS):
        found = option(found)
    return found


def runner_settings(given: Given) -> RunnerSettings:
    """Return the runner's settings: the options over the file. Raises ConfigError."""
    from barnabas.config import ConfigError
    from barnabas.pipeline.jobs.runner_settings import RunnerSettings

    overrides = pairs(given.settings_pairs, "--set") | pairs(given.spark_pairs, "--spark")
    if given.bootstrap is not None:
        overrides["bootstrap.servers"] = given.bootstrap
    if given.plugin_directories:
        overrides["plugin.path"] = ",".join(given.plugin_directories)
    if given.has_sql:
        overrides["barnabas.sql.enable"] = "true"
    settings = RunnerSettings.load(given.file, overrides)
    if settings.sql is not None and find_spec("sqlglot") is None:
        raise ConfigError("sqlglot is missing, which SQL needs: pip install 'barnabas[spark,sql]'")
    return settings


def listener_options(settings: RunnerSettings, options: HttpOptions) -> HttpOptions:
    """Return the options of the listener with those that the settings have. Raises ConfigError."""
    return options.with_properties(settings.http_properties)


def session_settings(settings: RunnerSettings, directory: Path) -> SessionSettings:
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
        is_submitted=_GATEWAY in os.environ,
    )
