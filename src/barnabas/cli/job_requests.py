"""Requests of commands to a runner of pipelines: options, answers, and errors in one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from barnabas.cli.command_errors import CliError
from barnabas.cli.service_requests import ServiceClient, ServiceRefusalError, service_options

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx

DEFAULT_URL = "http://127.0.0.1:8083"


class RunnerClient(ServiceClient):
    """Requests to one runner."""

    service = "pipelines"
    remedy = "start a runner with barnabas pipelines, or name another with --pipelines"
    content_type = "application/json"

    def refusal(self, answer: httpx.Response) -> ServiceRefusalError:
        """Return the error that Connect's answer describes."""
        text = answer.content.decode(errors="replace")
        try:
            message = str(json.loads(text)["message"])
        except (ValueError, KeyError, TypeError):
            message = text[:200] or answer.reason_phrase
        return ServiceRefusalError(answer.status_code, f"pipelines: {message}")


def job_path(name: str, *parts: str) -> str:
    """Return the path of a job, or of a part of it."""
    return "/".join(["/connectors", quote(name, safe=""), *parts])


def read_jobs(file: Path) -> dict[str, dict[str, str]]:
    """Return the configurations of a file by name. Raises CliError.

    The file is JSON: a configuration, {"name": .., "config": {..}}, or a list of those; or
    properties, NAME=VALUE a line.
    """
    if file.suffix in (".yaml", ".yml"):  # which would be read as properties, quotes and all
        raise CliError(f"{file}: YAML is not supported: write the job as JSON or properties")
    if file.suffix != ".json":
        from barnabas.config import ConfigError, properties_file

        try:
            return _named(file, properties_file.read(file))
        except ConfigError as error:
            raise CliError(error.message) from None
    try:
        found = json.loads(file.read_text())
    except OSError as error:
        raise CliError(f"{file}: {error.strerror or error}") from None
    except ValueError as error:
        raise CliError(f"{file} is not JSON: {error}") from None
    jobs: dict[str, dict[str, str]] = {}
    for each in cast(list[Any], found) if isinstance(found, list) else [found]:
        jobs |= _named(file, each)
    return jobs


def _named(file: Path, found: Any) -> dict[str, dict[str, str]]:
    fields = cast(dict[str, Any], found) if isinstance(found, dict) else {}
    inner = fields.get("config")
    config = cast(dict[str, Any], inner) if isinstance(inner, dict) else fields
    name = str(fields.get("name") or config.get("name") or "")
    if not name:
        raise CliError(f"{file}: a job needs a name")
    texts = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in config.items()
        if value is not None
    }
    return {name: {"name": name, **texts}}


def runner_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add a runner as the argument `runner`, and the options that describe it."""
    return service_options(
        command,
        "runner",
        lambda url, user, ca: RunnerClient(url, user, ca, 60.0),
        option="pipelines",
        default_url=DEFAULT_URL,
        url_help="The runner of pipelines, or a Connect worker.",
        server="runner",
    )
