"""Requests of commands to a runner of pipelines: options, answers, and errors in one line."""

from __future__ import annotations

import base64
import functools
import json
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode, urlsplit

import click

from barnabas.cli.client_options import UNREACHABLE
from barnabas.cli.command_errors import CliError

if TYPE_CHECKING:
    import urllib.error
    from collections.abc import Callable
    from pathlib import Path

DEFAULT_URL = "http://127.0.0.1:8083"
_NOT_FOUND = 404


class RunnerRefusalError(CliError):
    """The runner refused a request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"pipelines: {message}")
        self.status = status


class RunnerClient:
    """Requests to one runner."""

    def __init__(self, url: str, credentials: str | None, ca: str | None, timeout: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CliError(f"Invalid value {url} for --pipelines: it must be http://HOST:PORT")
        self.url = url.rstrip("/")
        self._timeout = timeout
        self._headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if credentials:
            encoded = base64.b64encode(credentials.encode()).decode()
            self._headers["Authorization"] = f"Basic {encoded}"
        self._tls: Any = None
        if parts.scheme == "https":
            import ssl

            self._tls = ssl.create_default_context(cafile=ca)

    def ask(self, method: str, path: str, body: Any = None, **query: object) -> Any:
        """Return the answer as JSON, None for an empty one. Raises CliError."""
        import urllib.error
        import urllib.request

        texts = {name: str(value).lower() for name, value in query.items()}
        target = f"{self.url}{path}" + (f"?{urlencode(texts)}" if texts else "")
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(target, data, self._headers, method=method)
        try:
            with urllib.request.urlopen(
                request, timeout=self._timeout, context=self._tls
            ) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            raise _refusal(error) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            text = getattr(reason, "strerror", None) or reason
            raise CliError(
                f"pipelines {self.url}: {text}; start a runner with barnabas pipelines, or name "
                "another with --pipelines",
                UNREACHABLE,
            ) from None
        return json.loads(text) if text else None

    def find(self, method: str, path: str) -> Any:
        """Return the answer as JSON, None where there is none (404). Raises CliError."""
        try:
            return self.ask(method, path)
        except RunnerRefusalError as refusal:
            if refusal.status != _NOT_FOUND:
                raise
            return None


def _refusal(error: urllib.error.HTTPError) -> CliError:
    text = error.read().decode(errors="replace")
    try:
        message = str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        message = text[:200] or str(error.reason)
    return RunnerRefusalError(error.code, message)


def job_path(name: str, *parts: str) -> str:
    """Return the path of a job, or of a part of it."""
    return "/".join(["/connectors", quote(name, safe=""), *parts])


def read_jobs(file: Path) -> dict[str, dict[str, str]]:
    """Return the configurations of a file by name. Raises CliError.

    The file is JSON: a configuration, {"name": .., "config": {..}}, or a list of those; or
    properties, NAME=VALUE a line.
    """
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

    @click.option(
        "--pipelines",
        "runner_url",
        metavar="URL",
        envvar="BARNABAS_PIPELINES",
        default=DEFAULT_URL,
        show_default=True,
        help="The runner of pipelines, or a Connect worker.",
    )
    @click.option(
        "--pipelines-user",
        metavar="NAME:PASSWORD",
        envvar="BARNABAS_PIPELINES_USER",
        help="User and password for basic authentication.",
    )
    @click.option(
        "--pipelines-ca",
        metavar="FILE",
        help="The authority that signed the runner's https certificate (PEM).",
    )
    @functools.wraps(command)
    def with_runner(
        *arguments: Any,
        runner_url: str,
        pipelines_user: str | None,
        pipelines_ca: str | None,
        **options: Any,
    ) -> Any:
        found = RunnerClient(runner_url, pipelines_user, pipelines_ca, 60.0)
        return command(*arguments, runner=found, **options)

    return with_runner
