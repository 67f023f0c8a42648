"""`barnabas pipelines submit`: the runner as an application of spark-submit."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from barnabas.cli import submitted_runner
from barnabas.cli.command_errors import CliError
from barnabas.cli.pipelines_options import (
    Given,
    listener_options,
    runner_options,
    runner_settings,
    session_settings,
)
from barnabas.config import ConfigError
from barnabas.private_files import write_new_file

if TYPE_CHECKING:
    from types import FrameType

    from barnabas.http import HttpOptions
    from barnabas.pipeline.spark.submission import Submission

_UNUSABLE = 2
_OWN = ("deploy_mode", "dry_run")
_TOKEN_KEYS = "token_keys"


@click.command()
@click.option(
    "--deploy-mode",
    type=click.Choice(["client", "cluster"]),
    default="client",
    show_default=True,
    help="Where the runner and Spark's driver run: here, or on a host of the cluster.",
)
@click.option(
    "--dry-run", is_flag=True, help="Print the command and the properties, and start nothing."
)
@runner_options
def submit(given: Given, options: HttpOptions, deploy_mode: str, dry_run: bool, **_: str) -> int:
    """Run the runner by spark-submit, with its packages, on a Spark cluster.

    The options are those of `barnabas pipelines`. The cluster's hosts need Spark and Python only.
    """
    from barnabas.http import HttpStartError, MissingPackageError
    from barnabas.pipeline.spark import submission as spark_submission
    from barnabas.pipeline.spark.jar_cache import JarsUnavailableError
    from barnabas.pipeline.spark.session import SparkUnavailableError

    environment = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="barnabas-submit-") as directory:
        try:
            submission = _submission(given, options, deploy_mode, Path(directory))
            spark_submission.check(submission, environment)
            file = Path(directory) / "spark.properties"
            command = spark_submission.command(submission, file, environment)
            properties = _properties(submission)
            environment = spark_submission.variables(environment)
        except (ConfigError, MissingPackageError, SparkUnavailableError) as error:
            raise CliError(str(error), _UNUSABLE) from None
        except (HttpStartError, JarsUnavailableError) as error:
            raise CliError(str(error)) from None
        if dry_run:
            _show(command, properties)
            return 0
        write_new_file(file, spark_submission.properties_file(properties))
        return _run(command, environment, Path(directory) / "pid")


def _submission(
    given: Given, options: HttpOptions, deploy_mode: str, directory: Path
) -> Submission:
    """Return what the options describe. Raises ConfigError, MissingPackageError, HttpStartError."""
    from barnabas.http import ListenAddress
    from barnabas.http.optional_packages import require

    require("the pipelines' runner")
    from barnabas.pipeline.runner.runner_process import RunnerListen
    from barnabas.pipeline.spark.submission import DEPLOY_MODE, DeployMode, Submission

    mode = DeployMode(deploy_mode)
    settings = runner_settings(given)
    http = listener_options(settings, options)
    listen = RunnerListen(ListenAddress.parse(given.listen), http, given.advertised_url)
    listen.check()
    is_remote = mode is DeployMode.CLUSTER
    if is_remote and not listen.http.needs_authentication:
        raise ConfigError(
            f"--deploy-mode cluster runs the runner on another host, where --listen {given.listen} "
            "answers only there: use --listen 0.0.0.0:8083 with --auth kafka, --password-file or "
            "--token-keys"
        )
    arguments, files = _arguments(click.get_current_context(), is_remote)
    return Submission(
        session_settings(settings, directory),
        mode,
        Path(submitted_runner.__file__),
        (*arguments, "--spark", f"{DEPLOY_MODE}={mode}"),
        tuple(files),
    )


def _arguments(context: click.Context, is_remote: bool) -> tuple[list[str], list[Path]]:
    """Return the arguments of the runner, and the files that they name.

    A runner on another host finds its files in its directory. Raises ConfigError.
    """
    arguments: list[str] = []
    files: dict[str, Path] = {}
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if name in _OWN or source is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        for each in value if parameter.multiple else (value,):
            text = str(each)
            if isinstance(each, Path) or (name == _TOKEN_KEYS and "://" not in text):
                path = Path(text).resolve()
                if files.setdefault(path.name, path) != path and is_remote:
                    raise ConfigError(
                        f"{files[path.name]} and {path} have one name: the runner on another host "
                        "finds files by name, so rename one"
                    )
                if not path.is_file():
                    raise ConfigError(f"file {path} does not exist")
                text = path.name if is_remote else str(path)
            is_flag = isinstance(parameter, click.Option) and parameter.is_flag
            arguments += [parameter.opts[0]] if is_flag else [parameter.opts[0], text]
    return arguments, list(files.values())


def _properties(submission: Submission) -> dict[str, str]:
    """Return the properties of Spark, with jars and packages. Raises JarsUnavailableError."""
    from barnabas.pipeline.spark import jar_cache, table_formats, worker_environment
    from barnabas.pipeline.spark.submission import properties

    cache = submission.settings.cache_directory
    jars = jar_cache.find_or_fetch(cache, table_formats.packages(submission.settings.formats))
    return properties(submission, jars, worker_environment.find_or_pack(cache))


def _show(command: list[str], properties: dict[str, str]) -> None:
    from barnabas.pipeline.connect.secret_masking import masked

    click.echo(shlex.join(command))
    for name, value in sorted(masked(properties).items()):
        click.echo(f"{name}={value}")


def _run(command: list[str], environment: dict[str, str], pid_file: Path) -> int:
    """Run spark-submit until it ends; return its exit code.

    A signal goes to the runner, which ends its transactions, then Spark; the JVM ends after it. A
    runner on another host continues.
    """
    environment[submitted_runner.PID_FILE] = str(pid_file)
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True
    )

    def forward(number: int, frame: FrameType | None) -> None:
        try:
            os.kill(int(pid_file.read_text()), number)
        except (OSError, ValueError):  # it has not started, or has ended
            process.terminate()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, forward)
    return process.wait()
