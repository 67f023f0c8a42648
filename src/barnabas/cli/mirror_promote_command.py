"""`barnabas mirror promote`: the mirrors of a flow become ordinary topics, and the flow ends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.command_errors import CliError
from barnabas.cli.job_requests import job_path
from barnabas.cli.mirror_hosting import running_place_options
from barnabas.cli.mirror_options import flow_argument
from barnabas.cli.mirror_requests import promoted
from barnabas.cli.parameter_types import FiniteRange
from barnabas.cli.terminal_output import confirm, counted, yes_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.cli.job_requests import RunnerClient

_LOOK_EVERY_S = 0.2
_PAUSE_S = 60.0
_IDLE = {"PAUSED", "STOPPED"}
_TIMES_MIN = 4


@click.command()
@flow_argument
@click.option(
    "--to", "target", metavar="HOST:PORT", required=True, help="Brokers of the target cluster."
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    help="Only this topic; repeatable. Not with --runner.",
)
@click.option("--target-config", type=click.Path(dir_okay=False), help="Properties of its clients.")
@running_place_options
@click.option("--now", is_flag=True, help="Do not wait until the flow has caught up.")
@click.option(
    "--timeout",
    "timeout_s",
    type=FiniteRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="The time to wait until the flow has caught up.",
)
@yes_option
def promote(
    *,
    flow: str,
    target: str,
    topics: tuple[str, ...],
    target_config: str | None,
    runner: RunnerClient | None,
    now: bool,
    timeout_s: float,
    yes: bool,
) -> int:
    """Open the mirrors of a flow for producers. The flow ends in them.

    With --runner, the command waits until the flow has caught up with the source, pauses it,
    promotes its mirrors, and deletes it from the runner. A flow that does not run, because its
    source does not answer for example, is not waited for longer than --timeout.
    """
    if runner is not None and topics:
        raise click.UsageError("--topic and --runner exclude each other: the flow ends as a whole")
    confirm(f"Promote the mirrors of flow {flow} at {target}?", yes=yes)
    if runner is not None:
        _end_copying(runner, flow, None if now else timeout_s)
    for topic in promoted(flow, target, topics, target_config):
        click.echo(f"promoted topic {topic}")
    if runner is not None:
        runner.ask("DELETE", job_path(flow))
        click.echo(f"deleted flow {flow} from the runner")
    return 0


def _end_copying(runner: RunnerClient, flow: str, timeout_s: float | None) -> None:
    """Pause a flow, after it has caught up unless there is no time. Raises CliError."""
    is_idle = _states(runner, flow) <= _IDLE
    if timeout_s is not None and not is_idle:
        _catch_up(runner, flow, timeout_s)
    runner.ask("PUT", job_path(flow, "pause"))
    if not _comes_true(lambda: _states(runner, flow) <= {*_IDLE, "FAILED"}, _PAUSE_S):
        raise CliError(
            f"the runner has not paused flow {flow} within {_PAUSE_S:g} s, and nothing was "
            f"promoted; see barnabas mirror describe {flow}"
        )
    click.echo(f"paused flow {flow}")


def _states(runner: RunnerClient, flow: str) -> set[str]:
    """Return the states of a flow and of its task. Raises CliError when the runner has none."""
    status: dict[str, Any] | None = runner.find("GET", job_path(flow, "status"))
    if status is None:
        raise CliError(
            f"the runner has no flow {flow}: see barnabas mirror list, or leave --runner out when "
            "no runner runs the flow"
        )
    return {each["state"] for each in (status["connector"], *status["tasks"])}


def _catch_up(runner: RunnerClient, flow: str, timeout_s: float) -> None:
    """Return when the flow is at the ends of its source, or does not run. Raises CliError."""
    ends = _EndsOfSource()
    if _comes_true(lambda: ends.are_reached(_progress(runner, flow)), timeout_s):
        click.echo(f"flow {flow} has caught up")
        return
    progress = _progress(runner, flow)
    if _states(runner, flow) != {"RUNNING"} or not ends.are_read:
        reason = progress.get("last_failure") or "a cluster of the flow does not answer"
        click.echo(f"flow {flow} does not run, and is not waited for: {reason}")
        return
    raise CliError(
        f"flow {flow} is {counted(progress.get('lag_records') or 0, 'offset')} behind its source "
        f"after {timeout_s:g} s, and nothing was promoted: stop the producers at the source, "
        "repeat the command with a longer --timeout, or promote what is there with --now"
    )


def _progress(runner: RunnerClient, flow: str) -> dict[str, Any]:
    return runner.find("GET", job_path(flow, "progress")) or {}


class _EndsOfSource:
    """Sees from figures whether a flow was at the ends that the source had after the first look.

    The figures say when a turn of the flow has read the ends. The first look shows an earlier turn,
    and the next turn may have begun before it; a copy adds another time.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()

    @property
    def are_read(self) -> bool:
        """True when the flow has read the ends since the first look."""
        return len(self._seen) > 1

    def are_reached(self, progress: dict[str, Any]) -> bool:
        """Take figures in; True when they are new enough and no partition has a lag."""
        self._seen.add(progress.get("updated_ms") or 0)
        is_new = len(self._seen - {0}) >= _TIMES_MIN
        has_figures = bool(progress.get("partitions") or progress.get("deleted_topics"))
        return is_new and has_figures and progress.get("lag_records") == 0


def _comes_true(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_EVERY_S)
    return True
