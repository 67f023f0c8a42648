"""`barnabas job`: create, watch and change jobs of pipelines."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from barnabas.cli.command_errors import CliError
from barnabas.cli.job_redrive import redrive
from barnabas.cli.job_requests import RunnerClient, job_path, read_jobs, runner_options
from barnabas.cli.job_view import (
    COLUMNS,
    describe_job,
    job_rows,
    print_offsets,
    read_states,
    warn_unless_healthy,
    watch_jobs,
)
from barnabas.cli.terminal_output import (
    confirm,
    json_option,
    print_json,
    print_table,
    yes_option,
)

_FILE = click.Path(dir_okay=False, path_type=Path)
_COLUMNS = ("JOB", *COLUMNS)
_POLL_S = 0.3
_WAIT_S = 120.0
_SPARK_WAIT_S = 600.0

name_argument = click.argument("name", metavar="JOB")
file_argument = click.argument("file", type=_FILE)


@click.group()
def job() -> None:
    """Work with jobs of pipelines: connectors, copies of topics."""


@job.command()
@file_argument
@click.option("--wait", is_flag=True, help="Return once the jobs run.")
@runner_options
def create(runner: RunnerClient, *, file: Path, wait: bool) -> None:
    """Create the jobs of FILE (JSON or properties)."""
    jobs = read_jobs(file)
    for name, config in jobs.items():
        runner.ask("POST", "/connectors", {"name": name, "config": config})
        click.echo(f"created job {name}")
    if wait:
        _wait_running(runner, list(jobs))


@job.command()
@file_argument
@click.option("--wait", is_flag=True, help="Return once the jobs run.")
@runner_options
def apply(runner: RunnerClient, *, file: Path, wait: bool) -> None:
    """Create the jobs of FILE, or change those that exist."""
    jobs = read_jobs(file)
    for name, config in jobs.items():
        stored = runner.find("GET", job_path(name, "config"))
        if stored == config:
            click.echo(f"unchanged job {name}")
            continue
        runner.ask("PUT", job_path(name, "config"), config)
        click.echo(f"{'created' if stored is None else 'changed'} job {name}")
    if wait:
        _wait_running(runner, list(jobs))


def _wait_running(runner: RunnerClient, names: list[str]) -> None:
    """Return once all jobs run.

    Raises CliError when one fails, when Spark cannot start, or after two minutes.

    While Spark starts, no job is assigned: that may take ten minutes on a busy host.
    """
    deadline = time.monotonic() + _WAIT_S
    latest = time.monotonic() + _SPARK_WAIT_S
    for name in names:
        while True:
            found = runner.find("GET", job_path(name, "status"))
            states = [] if found is None else [found["connector"], *found["tasks"]]
            failed = [each for each in states if each["state"] == "FAILED"]
            if failed:
                trace = (failed[0].get("trace") or "").partition("\n")[0]
                raise CliError(f"job {name} failed: {trace}; see barnabas job describe {name}")
            if len(states) > 1 and all(each["state"] == "RUNNING" for each in states):
                break
            if states and states[0]["state"] == "UNASSIGNED":
                if problem := states[0].get("trace"):
                    raise CliError(f"job {name} was created but does not run: {problem}")
                deadline = min(time.monotonic() + _WAIT_S, latest)
            if time.monotonic() > deadline:
                shown = states[0]["state"] if states else "not assigned"
                raise CliError(f"job {name} does not run in time: {shown}")
            time.sleep(_POLL_S)


@job.command()
@file_argument
@json_option
@runner_options
def validate(runner: RunnerClient, *, file: Path, as_json: bool) -> int:
    """Check the jobs of FILE without creating them; the exit code is 1 when one is invalid."""
    found: dict[str, Any] = {}
    for name, config in read_jobs(file).items():
        plugin = config.get("connector.class", "")
        path = f"/connector-plugins/{plugin.rpartition('.')[2]}/config/validate"
        found[name] = runner.ask("PUT", path, config)
    count = sum(each["error_count"] for each in found.values())
    if as_json:
        print_json(found)
        return 1 if count else 0
    for name, result in found.items():
        errors = [
            (config["value"]["name"], error)
            for config in result["configs"]
            for error in config["value"]["errors"]
        ]
        click.echo(f"job {name}: {'valid' if not errors else 'invalid'}")
        for key, error in errors:
            click.echo(f"  {key}: {error}")
    return 1 if count else 0


@job.command("list")
@click.option("--watch", is_flag=True, help="Show the jobs again every second.")
@json_option
@runner_options
def list_jobs(runner: RunnerClient, *, watch: bool, as_json: bool) -> None:
    """List the jobs with their states and figures."""
    if watch:
        watch_jobs(_COLUMNS, lambda: job_rows(runner, read_states(runner)))
    elif as_json:
        jobs = runner.ask("GET", "/connectors", expand="status", hidden=True)
        progress: dict[str, Any] = runner.find("GET", "/progress") or {}
        for name, found in jobs.items():
            found["progress"] = progress.get(name)
        print_json(jobs)
    else:
        print_table(_COLUMNS, job_rows(runner, read_states(runner)))
        warn_unless_healthy(runner)


@job.command()
@name_argument
@json_option
@runner_options
def describe(runner: RunnerClient, *, name: str, as_json: bool) -> None:
    """Show the configuration, states and figures of a job."""
    describe_job(runner, name, as_json=as_json)


@job.command()
@name_argument
@click.option("--follow", "-f", is_flag=True, help="Wait for further lines.")
@runner_options
def logs(runner: RunnerClient, *, name: str, follow: bool) -> None:
    """Show the newest log lines of a job."""
    last_ms = -1
    while True:
        for line in runner.ask("GET", job_path(name, "logs")):
            if line["time_ms"] <= last_ms:
                continue
            last_ms = line["time_ms"]
            when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(last_ms / 1000))
            click.echo(f"{when}.{last_ms % 1000:03d}Z {line['level']} {line['message']}")
        if not follow:
            return
        time.sleep(1)


@job.command()
@name_argument
@runner_options
def pause(runner: RunnerClient, *, name: str) -> None:
    """Pause a job; it keeps its tasks."""
    runner.ask("PUT", job_path(name, "pause"))


@job.command()
@name_argument
@runner_options
def resume(runner: RunnerClient, *, name: str) -> None:
    """Resume a job that is paused or stopped."""
    runner.ask("PUT", job_path(name, "resume"))


@job.command()
@name_argument
@runner_options
def stop(runner: RunnerClient, *, name: str) -> None:
    """Stop a job; its offsets can be changed then."""
    runner.ask("PUT", job_path(name, "stop"))


@job.command()
@name_argument
@click.option("--only-failed", is_flag=True, help="Only when the job failed.")
@runner_options
def restart(runner: RunnerClient, *, name: str, only_failed: bool) -> None:
    """Restart a job."""
    path = job_path(name, "restart")
    runner.ask("POST", path, includeTasks=True, onlyFailed=only_failed)


@job.command()
@name_argument
@yes_option
@runner_options
def delete(runner: RunnerClient, *, name: str, yes: bool) -> None:
    """Delete a job. Its offsets stay: a job of the same name resumes there."""
    confirm(f"Delete job {name}?", yes=yes)
    runner.ask("DELETE", job_path(name))


@job.command()
@name_argument
@click.option("--reset", is_flag=True, help="Remove all offsets of a stopped job.")
@click.option("--set", "file", type=_FILE, help="Set the offsets of a JSON file, as --json shows.")
@yes_option
@json_option
@runner_options
def offsets(
    runner: RunnerClient, *, name: str, reset: bool, file: Path | None, yes: bool, as_json: bool
) -> None:
    """Show the offsets of a job, or change those of a stopped one."""
    path = job_path(name, "offsets")
    if reset and file is not None:
        raise click.UsageError("--reset and --set exclude each other.")
    if reset:
        confirm(f"Remove all offsets of job {name}?", yes=yes)
        click.echo(runner.ask("DELETE", path)["message"])
    elif file is not None:
        try:
            wanted = json.loads(file.read_text())
        except ValueError as error:
            raise CliError(f"{file} is not JSON: {error}") from None
        click.echo(runner.ask("PATCH", path, wanted)["message"])
    else:
        found = runner.ask("GET", path)
        print_json(found) if as_json else print_offsets(found["offsets"])


@job.command()
@name_argument
@yes_option
@runner_options
def rebuild(runner: RunnerClient, *, name: str, yes: bool) -> None:
    """Process everything again: stop the job, remove its offsets, and resume it."""
    confirm(f"Process all records of job {name} again?", yes=yes)
    runner.ask("PUT", job_path(name, "stop"))
    deadline = time.monotonic() + _WAIT_S
    while True:
        status = runner.find("GET", job_path(name, "status"))
        if status is not None and status["connector"]["state"] == "STOPPED":
            break
        if time.monotonic() > deadline:
            raise CliError(f"job {name} does not stop; its offsets were not changed")
        time.sleep(_POLL_S)
    runner.ask("DELETE", job_path(name, "offsets"))
    runner.ask("PUT", job_path(name, "resume"))
    click.echo(f"job {name} processes all records again")


job.add_command(redrive)
