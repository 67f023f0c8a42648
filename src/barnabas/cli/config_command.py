"""`barnabas config`: describe and alter properties of topics, brokers and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.client_options import Client, admin_kinds, client_options, pairs
from barnabas.cli.command_errors import CliError
from barnabas.cli.parameter_types import NAME
from barnabas.cli.terminal_output import json_option, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# The sources of values in DescribeConfigs, by number.
_SOURCES = {
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "file",
    5: "default",
    6: "broker logger",
    7: "client metrics",
    8: "group",
}

kind_argument = click.argument("kind", type=click.Choice(["topic", "broker", "group"]))


@click.group()
def config() -> None:
    """Work with the properties of topics, brokers and groups."""


@config.command()
@kind_argument
@click.argument("name", type=NAME)
@click.option("--all", "everything", is_flag=True, help="Include properties at their default.")
@json_option
@client_options
def describe(client: Client, *, kind: str, name: str, everything: bool, as_json: bool) -> None:
    """Show properties and the sources of their values. The NAME of a broker is its node id."""
    resource = _resource(client, kind, name)
    (future,) = client.admin.describe_configs([resource]).values()
    entries = [
        entry
        for entry in sorted(client.wait(future, f"{kind} {name}").values(), key=lambda e: e.name)
        if everything or entry.source != 5
    ]
    if as_json:
        print_json([_as_json(entry) for entry in entries])
    else:
        print_table(
            ("PROPERTY", "VALUE", "FROM"),
            [(e.name, _shown(e), _SOURCES.get(e.source, str(e.source))) for e in entries],
        )


def _shown(entry: Any) -> str | None:
    return "(hidden)" if entry.is_sensitive else entry.value


def _as_json(entry: Any) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": _SOURCES.get(entry.source, str(entry.source)),
        "read_only": entry.is_read_only,
        "sensitive": entry.is_sensitive,
        "synonyms": [
            {"name": s.name, "value": s.value, "source": _SOURCES.get(s.source, str(s.source))}
            for s in entry.synonyms.values()
        ],
    }


@config.command()
@kind_argument
@click.argument("name", type=NAME)
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a property; repeatable."
)
@click.option(
    "--unset",
    "unset",
    multiple=True,
    metavar="NAME",
    help="Reset a property to its default; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Validate on the server, change nothing.")
@client_options
def alter(
    client: Client,
    *,
    kind: str,
    name: str,
    settings: tuple[str, ...],
    unset: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Change properties while the server runs."""
    if not settings and not unset:
        raise click.UsageError("Nothing to change: use --set or --unset.")
    change(client, _resource(client, kind, name), pairs(settings, "--set"), unset, dry_run=dry_run)
    click.echo(f"{kind} {name} {'could be altered' if dry_run else 'altered'}")


def _resource(client: Client, kind: str, name: str) -> Any:
    """Return a resource. Raises CliError for an unknown broker: a request to it would time out."""
    if kind == "broker":
        brokers = [str(broker) for broker in sorted(client.metadata().brokers)]
        if name not in brokers:
            raise CliError(f"broker {name} does not run; the brokers are {', '.join(brokers)}")
    kinds = admin_kinds()
    return kinds.ConfigResource(kinds.ConfigResource.Type[kind.upper()], name)


def change(
    client: Client,
    resource: Any,
    settings: Mapping[str, str],
    unset: Iterable[str],
    *,
    dry_run: bool,
) -> None:
    """Set and unset properties of one resource in one request."""
    kinds = admin_kinds()
    operations = kinds.AlterConfigOpType
    entries = [
        kinds.ConfigEntry(name, value, incremental_operation=operations.SET)
        for name, value in settings.items()
    ]
    entries += [
        kinds.ConfigEntry(name, None, incremental_operation=operations.DELETE) for name in unset
    ]
    wanted = kinds.ConfigResource(resource.restype, resource.name, incremental_configs=entries)
    (future,) = client.admin.incremental_alter_configs([wanted], validate_only=dry_run).values()
    client.wait(future, f"{resource.restype.name.lower()} {resource.name}")
