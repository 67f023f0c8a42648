"""`barnabas mirror`: flows that keep topics of one cluster equal in another."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.client_options import pairs
from barnabas.cli.command_errors import CliError, complain
from barnabas.cli.job_requests import RunnerClient, job_path, runner_options
from barnabas.cli.job_view import describe_lines, job_rows, warn_unless_healthy
from barnabas.cli.mirror_options import GivenFlow, flow_options
from barnabas.cli.mirror_requests import previewed, promoted
from barnabas.cli.mirror_verify_command import verify
from barnabas.cli.terminal_output import (
    confirm,
    counted,
    json_option,
    print_json,
    print_table,
    progress,
    yes_option,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.pipeline.delivery.plan.job_plan import JobFailure, JobProgress
    from barnabas.pipeline.mirror.flow_preview import TopicPreview

_COLUMNS = ("TOPIC", "PARTITIONS", "OFFSETS", "BYTES", "AT THE TARGET")
_LIST_COLUMNS = ("FLOW", "TYPE", "STATE", "TASKS", "RECORDS", "RECORDS/S", "LAG", "LAG S", "DEAD")
_UNUSABLE = 2
_CLASS = "barnabas.MirrorConnector"

flow_argument = click.argument("flow", metavar="FLOW")


@click.group()
def mirror() -> None:
    """Keep topics of one cluster equal in another."""


@mirror.command()
@flow_argument
@click.option(
    "--runner",
    "runner_url",
    metavar="URL",
    help="The runner of pipelines that shall run the flow; without it this command does.",
)
@click.option("--runner-user", metavar="NAME:PASSWORD", help="User and password at the runner.")
@click.option(
    "--runner-ca", metavar="FILE", help="The authority of the runner's certificate (PEM)."
)
@click.option(
    "--spark",
    "spark_pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property of Spark without a runner, such as spark.master=spark://HOST:7077.",
)
@yes_option
@flow_options
def create(
    given: GivenFlow,
    *,
    flow: str,
    runner_url: str | None,
    runner_user: str | None,
    runner_ca: str | None,
    spark_pairs: tuple[str, ...],
    yes: bool,
) -> int:
    """Show the plan of a flow, and start it with --yes or after a confirmation.

    Without --runner the flow runs in this process until it is interrupted. Started again with the
    same name, it resumes where it was.
    """
    spark = pairs(spark_pairs, "--spark")
    if runner_url is None:
        _check_packages()
    config = given.config(flow)
    _show_plan(given, previewed(config))
    if not yes and not _is_confirmed(flow):
        return 0
    if runner_url is not None:
        runner = RunnerClient(runner_url, runner_user, runner_ca, 60.0)
        runner.ask("POST", "/connectors", {"name": flow, "config": config})
        click.echo(f"created flow {flow}; see barnabas mirror describe {flow}")
        return 0
    return _host(config, given.target, spark)


def _check_packages() -> None:
    """Raise CliError when this process cannot run Spark."""
    from barnabas.http.optional_packages import MissingPackageError, require

    try:
        require("the pipelines' runner")
    except MissingPackageError as error:
        raise CliError(str(error), _UNUSABLE) from None
    from barnabas.pipeline.spark.class_archive import java_problem

    if problem := java_problem("Spark needs", "Spark"):
        raise CliError(problem, _UNUSABLE)


def _show_plan(given: GivenFlow, topics: Sequence[TopicPreview]) -> None:
    rows = [
        (
            each.topic,
            each.partitions,
            each.offsets,
            each.bytes,
            "created by the flow" if each.is_new else "present",
        )
        for each in topics
    ]
    print_table(_COLUMNS, rows)
    partitions = sum(each.partitions for each in topics)
    click.echo(
        f"{counted(len(topics), 'topic')}, {counted(partitions, 'partition')}, "
        f"{counted(sum(each.offsets for each in topics), 'offset')}, "
        f"{counted(sum(each.bytes or 0 for each in topics), 'byte')}"
    )
    left_out = ["users and their credentials, which no client can read", "ACLs", "quotas"]
    if given.offsets == "assigned":
        left_out.append("offsets of groups: the target assigns other offsets to records")
    for each in left_out:
        click.echo(f"not copied: {each}")


def _is_confirmed(flow: str) -> bool:
    """True when the person at the terminal starts the flow; it stays a plan without a terminal."""
    import sys

    if not sys.stdin.isatty():
        click.echo(f"nothing was started: repeat the command with --yes to start flow {flow}")
        return False
    confirm(f"Start flow {flow}?", yes=False)
    return True


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
        raise CliError(str(error), _UNUSABLE) from None
    except FlowEndedError as error:
        raise CliError(f"flow {config['name']} ended: {error}") from None
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


@mirror.command("list")
@json_option
@runner_options
def list_flows(runner: RunnerClient, *, as_json: bool) -> None:
    """List the flows of a runner with their states and figures."""
    found: dict[str, Any] = runner.ask("GET", "/connectors?expand=status&expand=info")
    flows = {
        name: each
        for name, each in found.items()
        if each["info"]["config"].get("connector.class") in (_CLASS, "MirrorConnector", "Mirror")
    }
    if as_json:
        print_json(flows)
        return
    print_table(_LIST_COLUMNS, [row for row in job_rows(runner) if row[0] in flows])
    warn_unless_healthy(runner)


@mirror.command()
@flow_argument
@json_option
@runner_options
def describe(runner: RunnerClient, *, flow: str, as_json: bool) -> None:
    """Show the configuration, states and figures of a flow."""
    found = {
        "info": runner.ask("GET", job_path(flow)),
        "status": runner.find("GET", job_path(flow, "status")),
        "progress": runner.find("GET", job_path(flow, "progress")),
    }
    if as_json:
        print_json(found)
        return
    for line in describe_lines(found):
        click.echo(line)
    warn_unless_healthy(runner)


@mirror.command()
@flow_argument
@runner_options
def pause(runner: RunnerClient, *, flow: str) -> None:
    """Pause a flow."""
    runner.ask("PUT", job_path(flow, "pause"))


@mirror.command()
@flow_argument
@runner_options
def resume(runner: RunnerClient, *, flow: str) -> None:
    """Resume a flow that is paused or stopped."""
    runner.ask("PUT", job_path(flow, "resume"))


@mirror.command()
@flow_argument
@yes_option
@runner_options
def delete(runner: RunnerClient, *, flow: str, yes: bool) -> None:
    """Delete a flow. Topics and positions stay: a flow of the same name resumes there."""
    confirm(f"Delete flow {flow}?", yes=yes)
    runner.ask("DELETE", job_path(flow))


@mirror.command()
@flow_argument
@click.option(
    "--to", "target", metavar="HOST:PORT", required=True, help="Brokers of the target cluster."
)
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; repeatable."
)
@click.option("--target-config", type=click.Path(dir_okay=False), help="Properties of its clients.")
@yes_option
def promote(
    *, flow: str, target: str, topics: tuple[str, ...], target_config: str | None, yes: bool
) -> None:
    """Open the mirrors of a flow for producers. The flow ends in them."""
    confirm(f"Promote the mirrors of flow {flow} at {target}?", yes=yes)
    for topic in promoted(flow, target, topics, target_config):
        click.echo(f"promoted topic {topic}")


mirror.add_command(verify)
