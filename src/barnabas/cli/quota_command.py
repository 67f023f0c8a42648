"""`barnabas quota`: the quotas of users, client ids and addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.admin_requests import ask, check
from barnabas.cli.client_options import Client, client_options
from barnabas.cli.command_errors import CliError
from barnabas.cli.parameter_types import FiniteRange
from barnabas.cli.terminal_output import (
    confirm,
    json_option,
    print_json,
    print_table,
    yes_option,
)
from barnabas.cluster.metadata.client_quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
    entity_of,
)
from barnabas.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from barnabas.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Quotas = dict[QuotaEntity, dict[str, float]]


@click.group()
def quota() -> None:
    """Work with quotas of users, client ids and addresses."""


@quota.command("list")
@json_option
@client_options
def list_quotas(client: Client, *, as_json: bool) -> None:
    """List quotas."""
    _show(_described(client), as_json=as_json)


def _entity_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name an entity."""
    options = (
        click.option("--user", metavar="NAME", help="A user."),
        click.option("--user-default", is_flag=True, help="Users without a quota."),
        click.option("--client-id", metavar="NAME", help="A client id."),
        click.option("--client-id-default", is_flag=True, help="Client ids without a quota."),
        click.option("--ip", metavar="ADDRESS", help="The address of clients."),
        click.option("--ip-default", is_flag=True, help="Addresses without a quota."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _entity(
    user: str | None,
    user_default: bool,
    client_id: str | None,
    client_id_default: bool,
    ip: str | None,
    ip_default: bool,
) -> QuotaEntity:
    """Return the entity that the options name. Raises UsageError when they name none."""
    parts: list[AlterClientQuotasRequest.EntityData] = []
    named = (
        (USER, user, user_default),
        (CLIENT_ID, client_id, client_id_default),
        (IP, ip, ip_default),
    )
    for kind, name, is_default in named:
        if name is not None and is_default:
            raise click.UsageError(f"Use one of --{kind} and --{kind}-default.")
        if name is not None or is_default:
            parts.append(AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name))
    if not parts:
        raise click.UsageError(
            "Name a user or a client id, or both, or an address: --user, --user-default, "
            "--client-id, --client-id-default, --ip, --ip-default."
        )
    return entity_of(parts)


@quota.command()
@_entity_options
@json_option
@client_options
def describe(client: Client, *, as_json: bool, **named: Any) -> None:
    """Show the quotas of a user, of a client id, of both together, or of an address."""
    entity = _entity(**named)
    _show({entity: _of(client, entity)}, as_json=as_json)


def _of(client: Client, entity: QuotaEntity) -> dict[str, float]:
    """Return the quotas of an entity. Raises CliError when it has none."""
    found = _described(client).get(entity)
    if found is None:
        raise CliError(f"{_text(entity)} has no quota; see barnabas quota list")
    return found


_POSITIVE = FiniteRange(min=0, min_open=True)
_VALUES: tuple[tuple[str, click.IntRange | click.FloatRange, str, str], ...] = (
    (PRODUCER_BYTE_RATE, click.IntRange(min=1), "BYTES", "Bytes a second to each broker."),
    (CONSUMER_BYTE_RATE, click.IntRange(min=1), "BYTES", "Bytes a second from each broker."),
    (REQUEST_PERCENTAGE, _POSITIVE, "PERCENT", "Time of requests, 100 for the whole broker."),
    (CONTROLLER_MUTATION_RATE, _POSITIVE, "PARTITIONS", "Created or deleted a second."),
    (CONNECTION_CREATION_RATE, click.IntRange(min=1), "CONNECTIONS", "Made a second (--ip)."),
)


def _value_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that set a quota, one for each kind."""
    for key, kind, metavar, help_text in reversed(_VALUES):
        name = f"--{key.replace('_', '-')}"
        command = click.option(name, key, type=kind, metavar=metavar, help=help_text)(command)
    return command


@quota.command("set")
@_entity_options
@_value_options
@click.option("--dry-run", is_flag=True, help="Let the server check the change, change nothing.")
@json_option
@client_options
def set_quotas(
    client: Client,
    *,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Limit what clients may ask of a broker, or how fast an address may connect to it."""
    values = {key: options.pop(key) for key, *_ in _VALUES}
    entity = _entity(**options)
    wanted = {key: float(value) for key, value in values.items() if value is not None}
    if not wanted:
        raise click.UsageError("State a quota, such as --producer-byte-rate.")
    _alter(client, entity, {**wanted}, dry_run=dry_run)
    if as_json:
        print_json(_json(entity, wanted))
        return
    click.echo(f"{_text(entity)}: {'could be set' if dry_run else 'set'} ({', '.join(wanted)})")


@quota.command()
@_entity_options
@click.option("--key", "keys", multiple=True, help="A quota to remove; repeatable. [default: all]")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, remove nothing.")
@yes_option
@json_option
@client_options
def remove(
    client: Client,
    *,
    keys: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **named: Any,
) -> None:
    """Remove the quotas of a user, of a client id, of both together, or of an address."""
    entity = _entity(**named)
    found = _of(client, entity)
    wanted = list(dict.fromkeys(keys)) or list(found)
    missing = [key for key in wanted if key not in found]
    if missing:
        raise CliError(f"{_text(entity)} has no {missing[0]}; see barnabas quota list")
    if not dry_run:
        confirm(f"Remove {', '.join(wanted)} of {_text(entity)}?", yes=yes)
        _alter(client, entity, dict.fromkeys(wanted), dry_run=False)
    if as_json:
        print_json(_json(entity, {key: found[key] for key in wanted}))
        return
    done = "could be removed" if dry_run else "removed"
    click.echo(f"{_text(entity)}: {done} ({', '.join(wanted)})")


def _alter(
    client: Client, entity: QuotaEntity, changes: dict[str, float | None], *, dry_run: bool
) -> None:
    data = AlterClientQuotasRequest
    entry = data.EntryData(
        entity=[data.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[
            data.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in changes.items()
        ],
    )
    request = data(entries=[entry], validate_only=dry_run)
    for each in ask(client, request, AlterClientQuotasResponse).entries:
        check(each.error_code, each.error_message, f"quotas of {_text(entity)}")


def _described(client: Client) -> Quotas:
    request = DescribeClientQuotasRequest(components=[])
    answer = ask(client, request, DescribeClientQuotasResponse)
    check(answer.error_code, answer.error_message, "quotas")
    found = {
        entity_of(entry.entity): {each.key: each.value for each in entry.values}
        for entry in answer.entries or ()
    }
    return dict(sorted(found.items(), key=lambda item: _text(item[0])))


def _show(quotas: Quotas, *, as_json: bool) -> None:
    if as_json:
        print_json([_json(entity, values) for entity, values in quotas.items()])
        return
    rows = [
        (*(_name(entity, kind) for kind in (USER, CLIENT_ID, IP)), key, f"{value:.15g}")
        for entity, values in quotas.items()
        for key, value in sorted(values.items())
    ]
    print_table(("USER", "CLIENT ID", "IP", "QUOTA", "VALUE"), rows)


def _name(entity: QuotaEntity, kind: str) -> str:
    names = dict(entity)
    return (names[kind] or "(default)") if kind in names else "-"


def _json(entity: QuotaEntity, values: dict[str, float]) -> dict[str, Any]:
    parts = [{"type": kind, "name": name} for kind, name in entity]
    return {"entity": parts, "quotas": values}


def _text(entity: QuotaEntity) -> str:
    return ", ".join(
        f"{kind} {name}" if name is not None else f"{kind} (default)" for kind, name in entity
    )
