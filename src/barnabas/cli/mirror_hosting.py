"""A flow that a command starts: at a runner of pipelines, or in the process of the command."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import attrs
import click

from barnabas.cli.client_options import pairs
from barnabas.cli.command_errors import CliError, complain
from barnabas.cli.job_requests import RunnerClient, job_path
from barnabas.cli.mirror_options import UNUSABLE
from barnabas.cli.terminal_output import confirm, counted, progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barnabas.pipeline.delivery.plan.job_plan import JobFailure, JobProgress

_RUNNER_TIMEOUT_S = 60.0

_STARTS = "The runner of pipelines that shall run the flow; without it this command does."
_RUNS = "The runner of pipelines that runs the flow, if one does."
_RUNNER_OPTIONS = (
    click.option("--runner-user", metavar="NAME:PASSWORD", help="User and password at the runner."),
    click.option(
        "--runner-ca", metavar="FILE", help="The authority of the runner's certificate (PEM)."
    ),
)
_SPARK_OPTION = click.option(
    "--spark",
    "spark_pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property of Spark without a runner, such as spark.master=spark://HOST:7077.",
)


@attrs.frozen
class FlowPlace:
    """The runner that shall run a flow, or None for this process and its properties of Spark."""

    runner: RunnerClient | None
    spark: Mapping[str, str] = attrs.field(factory=dict[str, str])

    def check(self) -> None:
        """Raise CliError when a flow cannot run there."""
        if self.runner is None:
            _check_packages()

    def start(self, config: Mapping[str, str], bootstrap: str) -> int:
        """Start a flow and return the exit code; in this process it runs until an interrupt."""
        if self.runner is None:
            return _host(config, bootstrap, self.spark)
        flow = config["name"]
        self.runner.ask("POST", "/connectors", {"name": flow, "config": dict(config)})
        click.echo(f"created flow {flow}; see barnabas mirror describe {flow}")
        return 0

    def start_all(self, configs: Sequence[Mapping[str, str]]) -> int:
        """Start connectors and return the exit code; existing ones get these configurations."""
        if self.runner is None:
            return _host_all(configs, self.spark)
        for config in configs:
            self.runner.ask("PUT", job_path(config["name"], "config"), dict(config))
        click.echo(f"started {counted(len(configs), 'connector')}; see barnabas mirror list")
        return 0


def place_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of a runner and of Spark to a command, which gets them as `place`."""

    def run(**options: Any) -> int:
        spark = pairs(options.pop("spark_pairs"), "--spark")
        return command(place=FlowPlace(_runner(options), spark), **options)

    return _with_options(command, run, (_runner_option(_STARTS), _SPARK_OPTION))


def running_place_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of the runner that runs a flow; the command gets it as `runner`, or None."""

    def run(**options: Any) -> int:
        return command(runner=_runner(options), **options)

    return _with_options(command, run, (_runner_option(_RUNS),))


def _with_options(
    command: Callable[..., int], run: Callable[..., int], options: tuple[Any, ...]
) -> Callable[..., int]:
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__dict__.update(command.__dict__)
    found = run
    for option in reversed((options[0], *_RUNNER_OPTIONS, *options[1:])):
        found = option(found)
    return found


def _runner_option(text: str) -> Any:
    return click.option("--runner", "runner_url", metavar="URL", help=text)


def _runner(options: dict[str, Any]) -> RunnerClient | None:
    """Take the options of a runner out; return its client, None without one."""
    url, user, ca = (options.pop(name) for name in ("runner_url", "runner_user", "runner_ca"))
    return None if url is None else RunnerClient(url, user, ca, _RUNNER_TIMEOUT_S)


def is_confirmed(flow: str) -> bool:
    """True when the person at the terminal starts the flow; it stays a plan without a terminal."""
    import sys

    if not sys.stdin.isatty():
        click.echo(f"nothing was started: repeat the command with --yes to start flow {flow}")
        return False
    confirm(f"Start flow {flow}?", yes=False)
    return True


def _check_packages() -> None:
    """Raise CliError when this process cannot run Spark."""
    from barnabas.http.optional_packages import MissingPackageError, require

    try:
        require("the pipelines' runner")
    except MissingPackageError as error:
        raise CliError(str(error), UNUSABLE) from None
    from barnabas.pipeline.spark.class_archive import java_problem

    if problem := java_problem("Spark needs", "Spark"):
        raise CliError(problem, UNUSABLE)


def _host(config: Mapping[str, str], bootstrap: str, spark: Mapping[str, str]) -> int:
    """Run a flow until it is interrupted; return the exit code."""
    from barnabas.pipeline.connect.rest_errors import ConnectRestError
    from barnabas.pipeline.definitions.config_types import ConfigValueError
    from barnabas.pipeline.runner.flow_host import FlowEndedError, flow_plan, host_flow
    from barnabas.pipeline.spark.session import SparkUnavailableError

    def failed(failure: JobFailure, delay_s: float) -> None:
        complain(f"the flow failed and starts again in {delay_s:g} s: {failure.message}")

    signal.signal(signal.SIGTERM, _interrupt)
    try:
        plan = flow_plan(config, bootstrap)
        with _Shown(plan.name) as shown:
            host_flow(plan, spark, shown.update, failed)
    except KeyboardInterrupt:
        click.echo(f"flow {config['name']} stopped")
        return 0
    except (ConfigValueError, ConnectRestError, SparkUnavailableError) as error:
        raise CliError(str(error), UNUSABLE) from None
    except FlowEndedError as error:
        raise CliError(f"flow {config['name']} ended: {error}") from None
    return 0


def _host_all(configs: Sequence[Mapping[str, str]], spark: Mapping[str, str]) -> int:
    """Run connectors until they are interrupted; return the exit code."""
    from barnabas.pipeline.connect.rest_errors import ConnectRestError
    from barnabas.pipeline.definitions.config_types import ConfigValueError
    from barnabas.pipeline.runner.flow_host import FlowEndedError, flow_plan, host_flows
    from barnabas.pipeline.spark.session import SparkUnavailableError

    def failed(name: str, failure: JobFailure, delay_s: float) -> None:
        complain(f"{name} failed and starts again in {delay_s:g} s: {failure.message}")

    def started() -> None:
        click.echo("the connectors run; interrupt the command to stop them")

    signal.signal(signal.SIGTERM, _interrupt)
    try:
        plans = [
            flow_plan(config, config["target.cluster.bootstrap.servers"]) for config in configs
        ]
        host_flows(plans, spark, started, failed)
    except KeyboardInterrupt:
        click.echo("the connectors stopped")
        return 0
    except (ConfigValueError, ConnectRestError, SparkUnavailableError) as error:
        raise CliError(str(error), UNUSABLE) from None
    except FlowEndedError as error:
        raise CliError(f"the connectors ended: {error}") from None
    return 0


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


class _Shown:
    """A progress bar until the flow has caught up, and the line that it has."""

    def __init__(self, flow: str) -> None:
        self._flow = flow
        self._bar: Any = None
        self._update: Any = None
        self._has_caught_up = False

    def __enter__(self) -> _Shown:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def update(self, found: JobProgress) -> None:
        """Take the figures of the job in."""
        lag = sum(each.lag for each in found.lag)
        if not found.lag:
            return
        if self._bar is None and not self._has_caught_up:
            self._bar = progress(f"flow {self._flow}", found.records + lag)
            self._update = self._bar.__enter__()
        if self._update is not None:
            self._update(found.records, found.records)
        if lag == 0 and not self._has_caught_up:
            self._has_caught_up = True
            self._close()
            partitions = counted(len(found.lag), "partition")
            click.echo(
                f"flow {self._flow} has caught up: {counted(found.records, 'record')} copied, "
                f"{partitions} followed; interrupt it to stop"
            )

    def _close(self) -> None:
        bar, self._bar, self._update = self._bar, None, None
        if bar is not None:
            bar.__exit__(None, None, None)
