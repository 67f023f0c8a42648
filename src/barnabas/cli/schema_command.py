"""`barnabas schema`: subjects and schemas of a registry."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any, cast

import click

from barnabas.cli.command_errors import CliError
from barnabas.cli.registry_requests import (
    TYPES,
    RegistryClient,
    registry_options,
    schema_body,
    subject_path,
    version_path,
)
from barnabas.cli.schema_check import check_schema
from barnabas.cli.schema_transfer import export_schemas, import_schemas
from barnabas.cli.terminal_output import confirm, json_option, print_json, print_table, yes_option

_FILE = click.Path(dir_okay=False, path_type=Path)

type_option = click.option(
    "--type", "kind", type=click.Choice(list(TYPES)), help="[default: by the file's suffix]"
)
reference_option = click.option(
    "--reference",
    "references",
    multiple=True,
    metavar="NAME=SUBJECT:VERSION",
    help="A schema that this one refers to; repeatable.",
)


@click.group()
def schema() -> None:
    """Work with the schemas of a registry."""


@schema.command("list")
@click.option("--prefix", default="", help="Only subjects with this prefix; :*: is any context.")
@click.option("--deleted", is_flag=True, help="Also what is soft-deleted.")
@json_option
@registry_options
def list_schemas(registry: RegistryClient, *, prefix: str, deleted: bool, as_json: bool) -> None:
    """List subjects with their versions."""
    found: list[dict[str, Any]] = []
    while page := registry.ask(
        "GET", "/schemas", subjectPrefix=prefix, deleted=deleted, offset=len(found)
    ):
        found += page
    rows: dict[str, list[dict[str, Any]]] = {}
    for version in found:
        rows.setdefault(version["subject"], []).append(version)
    if as_json:
        print_json(found)
        return
    print_table(
        ("SUBJECT", "VERSIONS", "TYPE", "LATEST ID"),
        [
            (subject, _listed(versions), versions[-1]["schemaType"], versions[-1]["id"])
            for subject, versions in rows.items()
        ],
    )


def _listed(versions: list[dict[str, Any]]) -> str:
    return ",".join(
        f"{version['version']}{' (deleted)' if version['deleted'] else ''}" for version in versions
    )


@schema.command("register")
@click.argument("subject")
@click.argument("file", type=_FILE)
@type_option
@reference_option
@click.option("--normalize", is_flag=True, help="Store the normal form.")
@click.option("--dry-run", is_flag=True, help="Check the compatibility only.")
@json_option
@registry_options
def register_schema(
    registry: RegistryClient,
    *,
    subject: str,
    file: Path,
    kind: str | None,
    references: tuple[str, ...],
    normalize: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Register the schema in FILE as the next version of SUBJECT."""
    body = schema_body(file, kind, references)
    if dry_run:
        return check_schema(registry, subject, body, None, as_json=as_json)
    found = registry.ask("POST", f"{subject_path(subject)}/versions", body, normalize=normalize)
    if as_json:
        print_json(found)
    else:
        click.echo(f"{subject} version {found.get('version', '?')} id {found['id']}")
    return 0


@schema.command("get")
@click.argument("subject", required=False)
@click.argument("version", default="latest")
@click.option("--id", "schema_id", type=int, help="By id, in place of SUBJECT and VERSION.")
@click.option("--text-format", help="resolved (Avro), serialized (Protobuf).")
@json_option
@registry_options
def get_schema(
    registry: RegistryClient,
    *,
    subject: str | None,
    version: str,
    schema_id: int | None,
    text_format: str | None,
    as_json: bool,
) -> None:
    """Print the schema of a VERSION of SUBJECT."""
    if (subject is None) == (schema_id is None):
        raise click.UsageError("Give a SUBJECT, or --id.")
    path = f"/schemas/ids/{schema_id}" if subject is None else version_path(subject, version)
    found = registry.ask("GET", path, format=text_format)
    if as_json:
        print_json(found)
    else:
        click.echo(_pretty(found["schema"]))


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text.rstrip("\n")


@schema.command("diff")
@click.argument("subject")
@click.argument("old")
@click.argument("new", default="latest")
@registry_options
def diff_schemas(registry: RegistryClient, *, subject: str, old: str, new: str) -> int:
    """Show what differs between the versions OLD and NEW of SUBJECT; either may be a file."""
    texts = [_text_of(registry, subject, name) for name in (old, new)]
    lines = list(
        difflib.unified_diff(
            texts[0].splitlines(),
            texts[1].splitlines(),
            f"{subject} {old}",
            f"{subject} {new}",
            lineterm="",
        )
    )
    for line in lines:
        click.echo(line)
    return 1 if lines else 0


def _text_of(registry: RegistryClient, subject: str, name: str) -> str:
    if name == "latest" or name.lstrip("-").isdecimal():
        return _pretty(registry.ask("GET", version_path(subject, name))["schema"])
    return _pretty(Path(name).read_text())


@schema.command("check")
@click.argument("subject")
@click.argument("file", type=_FILE)
@type_option
@reference_option
@click.option("--version", help="Against this version only.")
@click.option(
    "--against-topic", metavar="TOPIC", help="Read stored values with the schema as well."
)
@click.option(
    "--last", type=click.IntRange(min=1), default=1000, show_default=True, help="Values to read."
)
@click.option(
    "--bootstrap", envvar="BARNABAS_BOOTSTRAP", default="127.0.0.1:9092", show_default=True
)
@json_option
@registry_options
def check(
    registry: RegistryClient,
    *,
    subject: str,
    file: Path,
    kind: str | None,
    references: tuple[str, ...],
    version: str | None,
    against_topic: str | None,
    last: int,
    bootstrap: str,
    as_json: bool,
) -> int:
    """Check whether the schema in FILE may be the next version of SUBJECT.

    The exit code is 1 when it may not.
    """
    body = schema_body(file, kind, references)
    code = check_schema(registry, subject, body, version, as_json=as_json)
    if against_topic is not None:
        from barnabas.cli.schema_check import check_topic

        code |= check_topic(registry, body, against_topic, last, bootstrap, as_json=as_json)
    return code


@schema.command("delete")
@click.argument("subject")
@click.option("--version", help="Only this version.")
@click.option("--permanent", is_flag=True, help="For good; first the soft delete, if need be.")
@yes_option
@registry_options
def delete_schema(
    registry: RegistryClient, *, subject: str, version: str | None, permanent: bool, yes: bool
) -> None:
    """Delete SUBJECT, or one version of it."""
    what = subject if version is None else f"{subject} version {version}"
    confirm(f"Delete {what}{' permanently' if permanent else ''}?", yes=yes)
    path = subject_path(subject) if version is None else version_path(subject, version)
    done: Any = None
    try:
        done = registry.ask("DELETE", path)
    except CliError as error:
        if not (permanent and "soft deleted" in error.message):
            raise
    if permanent:
        done = registry.ask("DELETE", path, permanent=True)
    numbers: list[int] = cast("list[int]", done) if isinstance(done, list) else [done]
    click.echo(f"{subject} versions {','.join(map(str, numbers))} deleted")


def _config_changes(pairs: tuple[str, ...], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the body that sets and clears properties. A registry ignores unknown names."""
    from barnabas.registry.core.subject_settings import CONFIG_FIELDS

    changes: dict[str, Any] = dict.fromkeys(names)
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"Invalid value {pair!r} for --set: it must be NAME=VALUE.")
        changes[name] = value
    for name in changes:
        if name not in CONFIG_FIELDS:
            known = ", ".join(CONFIG_FIELDS)
            raise click.UsageError(f"Unknown property {name!r}. Properties: {known}.")
    return changes


@schema.command("config")
@click.argument("subject", required=False)
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a property, for example compatibility=FULL; repeatable.",
)
@click.option(
    "--unset", "names", multiple=True, metavar="NAME", help="Clear a property; repeatable."
)
@click.option("--mode", type=click.Choice(["READWRITE", "READONLY", "IMPORT"]))
@click.option("--force", is_flag=True, help="Allow mode IMPORT where there are schemas already.")
@registry_options
def config_schema(
    registry: RegistryClient,
    *,
    subject: str | None,
    pairs: tuple[str, ...],
    names: tuple[str, ...],
    mode: str | None,
    force: bool,
) -> None:
    """Show or change the configuration and mode of SUBJECT, or of the registry."""
    place = "" if subject is None else subject_path(subject).removeprefix("/subjects")
    changes = _config_changes(pairs, names)
    if changes:
        registry.ask("PUT", f"/config{place}", changes)
    if mode is not None:
        registry.ask("PUT", f"/mode{place}", {"mode": mode}, force=force)
    found = registry.ask("GET", f"/config{place}", defaultToGlobal=True)
    found |= registry.ask("GET", f"/mode{place}", defaultToGlobal=True)
    print_json(found)


schema.add_command(export_schemas)
schema.add_command(import_schemas)
