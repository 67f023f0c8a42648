"""`barnabas mirror`: flows that keep topics of one cluster equal in another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from barnabas.cli.job_requests import RunnerClient, job_path, runner_options
from barnabas.cli.job_view import (
    COLUMNS,
    describe_job,
    job_rows,
    read_states,
    warn_unless_healthy,
)
from barnabas.cli.mirror_hosting import FlowPlace, is_confirmed, place_options
from barnabas.cli.mirror_options import MIRROR_CLASS, GivenFlow, flow_argument, flow_options
from barnabas.cli.mirror_promote_command import promote
from barnabas.cli.mirror_requests import previewed
from barnabas.cli.mirror_reverse_command import reverse
from barnabas.cli.mirror_run_command import run
from barnabas.cli.mirror_verify_command import verify
from barnabas.cli.terminal_output import (
    confirm,
    counted,
    json_option,
    print_json,
    print_table,
    yes_option,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.pipeline.mirror.flow_preview import TopicPreview

_COLUMNS = ("TOPIC", "PARTITIONS", "OFFSETS", "BYTES", "AT THE TARGET")
_LIST_COLUMNS = ("FLOW", *COLUMNS)
_MAKER_CLASSES = tuple(
    f"{package}Mirror{part}Connector"
    for part in ("Source", "Checkpoint", "Heartbeat")
    for package in ("org.apache.kafka.connect.mirror.", "")
)
_CLASSES = (MIRROR_CLASS, "MirrorConnector", "Mirror", *_MAKER_CLASSES)


@click.group()
def mirror() -> None:
    """Keep topics of one cluster equal in another."""


@mirror.command()
@flow_argument
@place_options
@yes_option
@flow_options
def create(given: GivenFlow, *, flow: str, place: FlowPlace, yes: bool) -> int:
    """Show the plan of a flow, and start it with --yes or after a confirmation.

    Without --runner the flow runs in this process until it is interrupted. Started again with the
    same name, it resumes where it was.
    """
    place.check()
    config = given.config(flow)
    _show_plan(given, *previewed(config))
    if not yes and not is_confirmed(flow):
        return 0
    return place.start(config, given.target)


def _show_plan(given: GivenFlow, topics: Sequence[TopicPreview], acls: str) -> None:
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
    left_out = ["users and their credentials, which no client can read", "quotas"]
    if given.offsets == "assigned":
        click.echo("translated: offsets of groups, because the target assigns other offsets")
    click.echo(acls)
    for each in left_out:
        click.echo(f"not copied: {each}")


@mirror.command("list")
@json_option
@runner_options
def list_flows(runner: RunnerClient, *, as_json: bool) -> None:
    """List the flows of a runner with their states and figures."""
    flows = {
        name: each
        for name, each in read_states(runner).items()
        if each["info"]["config"].get("connector.class") in _CLASSES
    }
    if as_json:
        print_json(flows)
        return
    print_table(_LIST_COLUMNS, job_rows(runner, flows))
    warn_unless_healthy(runner)


@mirror.command()
@flow_argument
@json_option
@runner_options
def describe(runner: RunnerClient, *, flow: str, as_json: bool) -> None:
    """Show the configuration, states and figures of a flow."""
    describe_job(runner, flow, as_json=as_json)


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


mirror.add_command(promote)
mirror.add_command(reverse)
mirror.add_command(verify)
mirror.add_command(run)
