"""Jobs on the terminal: rows of the list, a description, offsets, and a list that is repeated."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.command_errors import complain
from barnabas.cli.job_requests import job_path
from barnabas.cli.service_requests import ServiceRefusalError
from barnabas.cli.terminal_output import cell_text, print_json, print_line, print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from barnabas.cli.job_requests import RunnerClient

COLUMNS = ("TYPE", "STATE", "TASKS", "RECORDS", "RECORDS/S", "LAG", "LAG BYTES", "LAG S", "DEAD")
"""The columns of `job_rows` behind the name."""
_REFRESH_S = 1.0
_INDENT = "  "


def read_states(runner: RunnerClient) -> dict[str, Any]:
    """Return the configuration and states of each job."""
    jobs: dict[str, Any] = runner.ask("GET", "/connectors?expand=status&expand=info&hidden=true")
    return jobs


def job_rows(runner: RunnerClient, jobs: dict[str, Any]) -> list[tuple[object, ...]]:
    """Return a row for each of these jobs, as `read_states` has them."""
    progress: dict[str, Any] = runner.find("GET", "/progress") or {}
    return [_row(name, jobs[name], progress.get(name) or {}) for name in sorted(jobs)]


def _row(name: str, found: dict[str, Any], progress: dict[str, Any]) -> tuple[object, ...]:
    status: dict[str, Any] = found.get("status") or {
        "connector": {"state": "UNASSIGNED"},
        "tasks": [],
    }
    return (
        name,
        found.get("info", {}).get("type", "unknown"),
        worst_state(status),
        len(status["tasks"]),
        progress.get("records"),
        progress.get("records_per_second"),
        progress.get("lag_records"),
        progress.get("lag_bytes"),
        progress.get("lag_seconds"),
        progress.get("dead_letters"),
    )


def worst_state(status: dict[str, Any]) -> str:
    """Return the state to show for a job: that of a task which does not run, if there is one."""
    states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
    for state in ("FAILED", "RESTARTING", "UNASSIGNED"):
        if state in states:
            return state
    return states[0]


def warn_unless_healthy(runner: RunnerClient) -> None:
    """Warn on standard error when no runner works: the states are those written before."""
    try:
        runner.find("GET", "/health")  # workers before Kafka 4.2 do not have it
    except ServiceRefusalError as refusal:
        complain(f"the states may be out of date: {refusal.message}")


def watch_jobs(columns: Sequence[str], rows: Callable[[], list[tuple[object, ...]]]) -> None:
    """Show a table again every second until the command is interrupted."""
    if not sys.stdout.isatty():
        while True:
            print_table(columns, rows())
            sys.stdout.flush()
            time.sleep(_REFRESH_S)
    from rich import box
    from rich.live import Live
    from rich.markup import escape
    from rich.table import Table

    def table() -> Table:
        found = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for place, head in enumerate(columns):
            found.add_column(head, justify="left" if place < len(("job", "type")) else "right")
        for row in rows():
            found.add_row(*(escape(cell_text(cell)) for cell in row))
        return found

    with Live(table(), auto_refresh=False) as live:
        while True:
            time.sleep(_REFRESH_S)
            live.update(table(), refresh=True)


def describe_job(runner: RunnerClient, name: str, *, as_json: bool) -> None:
    """Print the configuration, states and figures of a job."""
    found = {
        "info": runner.ask("GET", job_path(name)),
        "status": runner.find("GET", job_path(name, "status")),
        "progress": runner.find("GET", job_path(name, "progress")),
    }
    if as_json:
        print_json(found)
        return
    for line in _describe_lines(found):
        print_line(line)
    warn_unless_healthy(runner)


def _describe_lines(found: dict[str, Any]) -> Iterator[str]:
    """Return the description of a job as lines."""
    info, status, progress = found["info"], found["status"], found["progress"]
    yield f"job {info['name']} ({info['type']})"
    yield "configuration:"
    for name, value in sorted(info["config"].items()):
        yield f"{_INDENT}{name}={value}"
    if status is not None:
        yield f"state: {worst_state(status)} on {status['connector']['worker_id']}"
        for each in (status["connector"], *status["tasks"]):
            yield from _state_lines(each)
    if progress is not None:
        yield from _progress_lines(progress)


def _state_lines(state: dict[str, Any]) -> Iterator[str]:
    part = "connector" if "id" not in state else f"task {state['id']}"
    yield f"{_INDENT}{part}: {state['state']}"
    for line in (state.get("trace") or "").splitlines():
        yield f"{_INDENT * 2}{line}"


def _progress_lines(progress: dict[str, Any]) -> Iterator[str]:
    yield "progress:"
    for name in (
        "records",
        "written",
        "records_per_second",
        "batches",
        "batch_ms",
        "lag_records",
        "lag_bytes",
        "lag_seconds",
        "dead_letters",
        "transactions",
        "fenced",
        "skipped",
        "trimmed",
        "late",
        "restarts",
    ):
        if progress.get(name) is not None:
            yield f"{_INDENT}{name}: {progress[name]}"
    for topic in progress.get("deleted_topics") or ():
        yield f"{_INDENT}deleted at the source, and not copied any longer: topic {topic}"
    phases = ", ".join(f"{name} {ms} ms" for name, ms in progress["phases_ms"].items())
    if phases:
        yield f"{_INDENT}phases: {phases}"
    for each in progress["partitions"]:
        place = f"{each['topic']}-{each['partition']}"
        size = "" if each.get("bytes") is None else f", about {each['bytes']} bytes"
        yield (
            f"{_INDENT}{place}: position {each['position']}, end {each['end']}, "
            f"lag {each['lag']}{size}"
        )


def print_offsets(offsets: list[dict[str, Any]]) -> None:
    """Print partitions with their offsets."""
    if not offsets:
        click.echo("no offsets")
        return
    print_table(
        ("PARTITION", "OFFSET"),
        [
            (json.dumps(each["partition"], ensure_ascii=False), _offset_text(each["offset"]))
            for each in offsets
        ],
    )


def _offset_text(offset: Any) -> str:
    return json.dumps(offset, ensure_ascii=False)
