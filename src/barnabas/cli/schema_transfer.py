"""`barnabas schema export` and `import`: all schemas of a registry, ids included.

The file is lines of JSON: a schema's version as the registry answers it, or a configuration or
mode. A version is written after those that it refers to.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from barnabas.cli.command_errors import CliError
from barnabas.cli.registry_requests import (
    RegistryClient,
    registry_options,
    subject_path,
    version_path,
)

_FILE = click.Path(dir_okay=False, path_type=Path)
_KEPT = ("schema", "schemaType", "references", "metadata", "ruleSet", "id", "version")


@click.command("export")
@click.argument("file", type=_FILE, required=False)
@click.option("--prefix", default="", help="Only subjects with this prefix.")
@registry_options
def export_schemas(registry: RegistryClient, *, file: Path | None, prefix: str) -> None:
    """Write all schemas, configurations and modes to FILE, or to standard output."""
    lines = [json.dumps(each, ensure_ascii=False) for each in _exported(registry, prefix)]
    text = "".join(f"{line}\n" for line in lines)
    if file is None:
        click.echo(text, nl=False)
        return
    file.write_text(text)
    click.echo(f"{len(lines)} lines to {file}", err=True)


def _exported(registry: RegistryClient, prefix: str) -> Iterator[dict[str, Any]]:
    versions: list[dict[str, Any]] = []
    while page := registry.ask(
        "GET", "/schemas", subjectPrefix=prefix, deleted=True, offset=len(versions)
    ):
        versions += page
    for version in _in_order(versions):
        yield {"kind": "schema", **version}
    names = {version["subject"] for version in versions} | _configured(registry, prefix)
    if not prefix:
        names |= _contexts(registry)
    for subject in sorted(names) if prefix else (None, *sorted(names)):
        for kind in ("config", "mode"):
            path = f"/{kind}" if subject is None else f"/{kind}/{_quoted(subject)}"
            found = registry.find("GET", path)
            if found is not None:
                yield {"kind": kind, "subject": subject, **found}


def _configured(registry: RegistryClient, prefix: str) -> set[str]:
    """Return the names that have a configuration or mode; other registries do not list them."""
    names: list[str] | None = registry.find("GET", "/settings", subjectPrefix=prefix)
    if names is None:
        click.echo(
            "this registry does not list settings: those of subjects without versions are left out",
            err=True,
        )
    return set(names or ())


def _contexts(registry: RegistryClient) -> set[str]:
    """Return the names that hold the configuration and mode of each context."""
    contexts: list[str] = registry.ask("GET", "/contexts")
    return {f":{name}:" for name in (".__GLOBAL", *contexts) if name != "."}


def _quoted(subject: str) -> str:
    return subject_path(subject).removeprefix("/subjects/")


def _in_order(versions: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return versions by id, each after those that it refers to."""
    by_key = {(each["subject"], each["version"]): each for each in versions}
    done: set[tuple[str, int]] = set()

    def visit(version: dict[str, Any]) -> Iterator[dict[str, Any]]:
        key = version["subject"], version["version"]
        if key in done:
            return
        done.add(key)
        for reference in version.get("references", ()):
            referred = by_key.get((reference["subject"], reference["version"]))
            if referred is not None:
                yield from visit(referred)
        yield version

    for version in sorted(versions, key=lambda each: (each["id"], each["version"])):
        yield from visit(version)


@click.command("import")
@click.argument("file", type=_FILE, required=False)
@click.option("--from", "source", metavar="URL", help="Another registry, in place of FILE.")
@click.option("--prefix", default="", help="With --from: only subjects with this prefix.")
@click.option("--force", is_flag=True, help="Into subjects that have schemas, too.")
@registry_options
def import_schemas(
    registry: RegistryClient,
    *,
    file: Path | None,
    source: str | None,
    prefix: str,
    force: bool,
) -> None:
    """Write the schemas of FILE, or of another registry, with their ids and versions."""
    if (file is None) == (source is None):
        raise click.UsageError("Give a FILE, or --from.")
    if source is not None:
        lines: Iterable[dict[str, Any]] = _exported(
            _SourceRegistry(source, None, None, 30.0), prefix
        )
    else:
        lines = _read(file)
    counts = _Import(registry, force=force).run(lines)
    click.echo(f"{counts} versions imported into {registry.url}", err=True)


def _read(file: Path | None) -> list[dict[str, Any]]:
    text = sys.stdin.read() if file is None or str(file) == "-" else file.read_text()
    lines: list[dict[str, Any]] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            found = json.loads(line)
            lines.append({"kind": found["kind"], **found})
        except (ValueError, KeyError, TypeError):
            raise CliError(f"{file} line {number}: it is not a line of an export") from None
    return lines


class _SourceRegistry(RegistryClient):
    """The registry of --from."""

    remedy = "name another with --from"


class _Import:
    """Writes an export: each subject is in import mode while its versions are written."""

    def __init__(self, registry: RegistryClient, *, force: bool) -> None:
        self._registry = registry
        self._force = force
        self._former: dict[str, dict[str, Any] | None] = {}
        self._deleted: list[tuple[str, int]] = []

    def run(self, lines: Iterable[dict[str, Any]]) -> int:
        """Write everything and return how many versions there were."""
        count = 0
        settings: list[dict[str, Any]] = []
        try:
            for line in lines:
                if line["kind"] == "schema":
                    self._write(line)
                    count += 1
                else:
                    settings.append(line)
        finally:
            self._restore_modes()
        for subject, number in self._deleted:
            self._registry.ask("DELETE", version_path(subject, number))
        for line in settings:
            self._apply(line)
        return count

    def _write(self, line: dict[str, Any]) -> None:
        subject = line["subject"]
        if subject not in self._former:
            path = f"/mode/{_quoted(subject)}"
            self._former[subject] = self._registry.find("GET", path)
            self._registry.ask("PUT", path, {"mode": "IMPORT"}, force=self._force)
        body = {name: line[name] for name in _KEPT if name in line}
        self._registry.ask("POST", f"{subject_path(subject)}/versions", body)
        if line.get("deleted"):
            self._deleted.append((subject, line["version"]))

    def _restore_modes(self) -> None:
        for subject, former in self._former.items():
            path = f"/mode/{_quoted(subject)}"
            if former is None:
                self._registry.find("DELETE", path)
            else:
                self._registry.ask("PUT", path, former, force=True)

    def _apply(self, line: dict[str, Any]) -> None:
        kind, subject = line["kind"], line.get("subject")
        place = "" if subject is None else f"/{_quoted(subject)}"
        fields = {name: value for name, value in line.items() if name not in ("kind", "subject")}
        if kind == "config":
            fields["compatibility"] = fields.pop("compatibilityLevel", None)
            self._registry.ask("PUT", f"/config{place}", fields)
        elif kind == "mode":
            self._registry.ask("PUT", f"/mode{place}", fields, force=True)
