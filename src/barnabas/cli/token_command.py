"""`barnabas token`: delegation tokens, with which jobs authenticate as a user for some time."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.admin_requests import ask, check
from barnabas.cli.client_options import Client, client_options
from barnabas.cli.command_errors import CliError
from barnabas.cli.terminal_output import (
    confirm,
    json_option,
    print_json,
    print_table,
    yes_option,
)
from barnabas.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from barnabas.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from barnabas.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from barnabas.security.principals import Principal

if TYPE_CHECKING:
    from collections.abc import Iterable

Described = DescribeDelegationTokenResponse.DescribedDelegationToken

_REASONS = {
    61: "the server has no delegation tokens; set delegation.token.secret.key on every node",
    62: "the token does not exist",
    63: "only the owner and the renewers of a token may change it",
    64: "tokens need a client that authenticates with SASL or a certificate, not with a token, and "
    "controllers whose listener is not PLAINTEXT",
    65: "a token of another owner needs CREATE_TOKENS on that user; see barnabas acl add",
    66: "the token has expired",
    67: "renewers must be users, as User:alice",
}


def principal(text: str) -> Principal:
    """Return the principal of a text; a name without a type is a user."""
    return Principal.parse(text if ":" in text else f"User:{text}")


_MILLISECONDS = click.IntRange(min=1)


@click.group()
def token() -> None:
    """Work with delegation tokens."""


@token.command()
@click.option("--owner", type=principal, help="The owner. [default: the user of this command]")
@click.option(
    "--renewer", "renewers", type=principal, multiple=True, help="Who may renew it; repeatable."
)
@click.option(
    "--max-lifetime-ms",
    type=_MILLISECONDS,
    help="Its longest lifetime. [default: the server's delegation.token.max.lifetime.ms]",
)
@json_option
@client_options
def create(
    client: Client,
    *,
    owner: Principal | None,
    renewers: tuple[Principal, ...],
    max_lifetime_ms: int | None,
    as_json: bool,
) -> None:
    """Create a token, and print its id and its HMAC, which is the password."""
    renewer = CreateDelegationTokenRequest.CreatableRenewers
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner and owner.type,
        owner_principal_name=owner and owner.name,
        renewers=[renewer(principal_type=x.type, principal_name=x.name) for x in renewers],
        max_lifetime_ms=max_lifetime_ms or -1,
    )
    answer = ask(client, request, CreateDelegationTokenResponse)
    _check(answer.error_code, "the token was not created")
    shown = {
        "token_id": answer.token_id,
        "hmac": base64.b64encode(answer.hmac).decode(),
        "owner": f"{answer.principal_type}:{answer.principal_name}",
        "renewers": [str(each) for each in renewers],
        "issued": _time(answer.issue_timestamp_ms),
        "expires": _time(answer.expiry_timestamp_ms),
        "renewable_until": _time(answer.max_timestamp_ms),
    }
    if as_json:
        print_json(shown)
        return
    for name, value in shown.items():
        if value:
            text = ", ".join(value) if isinstance(value, list) else value
            click.echo(f"{name.replace('_', ' ') + ':':17}{text}")


@token.command()
@click.argument("token_ids", nargs=-1)
@click.option(
    "--owner",
    "owners",
    type=principal,
    multiple=True,
    help="Tokens that this principal owns or may renew; repeatable. [default: all]",
)
@click.option("--show-hmac", is_flag=True, help="Show the HMACs, which are the passwords.")
@json_option
@client_options
def describe(
    client: Client,
    *,
    token_ids: tuple[str, ...],
    owners: tuple[Principal, ...],
    show_hmac: bool,
    as_json: bool,
) -> None:
    """Show tokens: those of the user, those that it may renew, those that ACLs let it see."""
    found = _described(client, owners)
    wanted = [_chosen(found, each) for each in token_ids] if token_ids else list(found.values())
    if as_json:
        print_json([_json(each, show_hmac=show_hmac) for each in wanted])
        return
    columns = ("TOKEN", "OWNER", "REQUESTER", "RENEWERS", "EXPIRES", "RENEWABLE UNTIL")
    rows = [
        (
            each.token_id,
            _owner(each),
            _requester(each),
            ", ".join(_renewers(each)) or None,
            _time(each.expiry_timestamp),
            _time(each.max_timestamp),
            *((_password(each),) if show_hmac else ()),
        )
        for each in wanted
    ]
    print_table((*columns, "HMAC") if show_hmac else columns, rows)


@token.command()
@click.argument("token_id")
@click.option(
    "--period-ms",
    type=_MILLISECONDS,
    help="For how long. [default: the server's delegation.token.expiry.time.ms]",
)
@json_option
@client_options
def renew(client: Client, *, token_id: str, period_ms: int | None, as_json: bool) -> None:
    """Renew a token from now on."""
    proof = _chosen(_described(client), token_id).hmac
    request = RenewDelegationTokenRequest(hmac=proof, renew_period_ms=period_ms or -1)
    answer = ask(client, request, RenewDelegationTokenResponse)
    _check(answer.error_code, f"token {token_id} was not renewed")
    _show_end(token_id, answer.expiry_timestamp_ms, as_json=as_json)


@token.command()
@click.argument("token_id")
@click.option(
    "--period-ms", type=click.IntRange(min=0), help="When, from now. [default: remove it at once]"
)
@yes_option
@json_option
@client_options
def expire(
    client: Client, *, token_id: str, period_ms: int | None, yes: bool, as_json: bool
) -> None:
    """Remove a token, or set when it expires. Connections that have authenticated stay."""
    proof = _chosen(_described(client), token_id).hmac
    if period_ms is None:
        confirm(f"Remove token {token_id}?", yes=yes)
    period = -1 if period_ms is None else period_ms
    request = ExpireDelegationTokenRequest(hmac=proof, expiry_time_period_ms=period)
    answer = ask(client, request, ExpireDelegationTokenResponse)
    _check(answer.error_code, f"the end of token {token_id} was not set")
    if period_ms is None and not as_json:
        click.echo(f"{token_id} removed")
        return
    _show_end(token_id, answer.expiry_timestamp_ms, as_json=as_json)


def _show_end(token_id: str, expiry_ms: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"token_id": token_id, "expires": _time(expiry_ms)})
        return
    click.echo(f"{token_id} expires {_time(expiry_ms)}")


def _check(code: int, what: str) -> None:
    """Raise CliError about `what` for an error code; responses about tokens have no messages."""
    check(code, _REASONS.get(code), what)


def _described(client: Client, owners: Iterable[Principal] = ()) -> dict[str, Described]:
    owner = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner
    listed = [owner(principal_type=each.type, principal_name=each.name) for each in owners]
    request = DescribeDelegationTokenRequest(owners=listed or None)
    answer = ask(client, request, DescribeDelegationTokenResponse)
    _check(answer.error_code, "tokens cannot be described")
    tokens = sorted(answer.tokens, key=lambda each: (each.issue_timestamp, each.token_id))
    return {each.token_id: each for each in tokens}


def _chosen(found: dict[str, Described], token_id: str) -> Described:
    if token_id not in found:
        raise CliError(
            f"token {token_id} does not exist, or this user may not see it; see barnabas token "
            "describe"
        )
    return found[token_id]


def _owner(each: Described) -> str:
    return f"{each.principal_type}:{each.principal_name}"


def _requester(each: Described) -> str:
    return f"{each.token_requester_principal_type}:{each.token_requester_principal_name}"


def _renewers(each: Described) -> list[str]:
    return [f"{renewer.principal_type}:{renewer.principal_name}" for renewer in each.renewers]


def _password(each: Described) -> str:
    return base64.b64encode(each.hmac).decode()


def _json(each: Described, *, show_hmac: bool) -> dict[str, Any]:
    return {
        "token_id": each.token_id,
        **({"hmac": _password(each)} if show_hmac else {}),
        "owner": _owner(each),
        "requester": _requester(each),
        "renewers": _renewers(each),
        "issued": _time(each.issue_timestamp),
        "expires": _time(each.expiry_timestamp),
        "renewable_until": _time(each.max_timestamp),
    }


def _time(timestamp_ms: int) -> str:
    """Return a time in UTC; the latest that can be shown where it is later."""
    most_s = 253402300799  # the end of the year 9999
    seconds = min(timestamp_ms // 1000, most_s)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
