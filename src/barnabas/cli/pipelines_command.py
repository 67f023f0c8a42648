"""`barnabas pipelines`: the runner of pipelines, beside any Kafka."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from barnabas.cli.command_errors import CliError
from barnabas.cli.pipelines_options import (
    Given,
    listener_options,
    runner_options,
    runner_settings,
    session_settings,
)
from barnabas.cli.pipelines_sql import sql_listener
from barnabas.cli.pipelines_submit import submit
from barnabas.config import ConfigError

if TYPE_CHECKING:
    from barnabas.http import HttpOptions
    from barnabas.http.companion_main import Stop

logger = logging.getLogger(__name__)

_UNUSABLE = 2


@click.group(invoke_without_command=True)
@runner_options
def pipelines(given: Given, options: HttpOptions, log_level: str, log_format: str) -> int:
    """Run connectors and streams on Spark until it is interrupted."""
    context = click.get_current_context()
    if context.invoked_subcommand is not None:
        _check_order(context)
        return 0
    from barnabas.http import ListenAddress, MissingPackageError
    from barnabas.http.companion_main import run_companion
    from barnabas.http.optional_packages import require

    try:
        require("the pipelines' runner")
        address = ListenAddress.parse(given.listen)
        settings = runner_settings(given)
        http = listener_options(settings, options)
    except (ConfigError, MissingPackageError) as error:
        raise CliError(str(error), _UNUSABLE) from None
    from barnabas.access.topic_authorizer import TopicAuthorizer
    from barnabas.client import ClientError
    from barnabas.pipeline.jobs.activity import ForeignGroupError
    from barnabas.pipeline.jobs.storage_topics import StorageTopicError
    from barnabas.pipeline.runner.runner_process import RunnerListen, run_runner
    from barnabas.pipeline.spark.engine import Engine
    from barnabas.protocol.errors import KafkaError

    def on_ready(url: str) -> None:
        click.echo(f"pipelines ready url={url} group={settings.group_id}")

    async def serve(stop: Stop) -> None:
        with (
            tempfile.TemporaryDirectory(prefix="barnabas-pipelines-") as directory,
            sql_listener(settings, given, http) as sql,
        ):
            session = session_settings(settings, Path(directory))
            engine = Engine(session, settings.view_directory)
            runner_listen = RunnerListen(
                address, http, given.advertised_url, TopicAuthorizer, sql.serve, sql.url
            )
            await run_runner(settings, runner_listen, engine, on_ready, stop)

    return run_companion(
        serve,
        expected=(StorageTopicError, ForeignGroupError, KafkaError, ClientError),
        log_level=log_level,
        log_form=log_format,
    )


def _check_order(context: click.Context) -> None:
    """Raise UsageError for options before the name of a subcommand."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"{parameter.opts[0]} goes after '{context.invoked_subcommand}'.", context
            )


pipelines.add_command(submit)
