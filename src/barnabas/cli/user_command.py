"""`barnabas user`: the users of SCRAM that a cluster keeps.

The server gets a salted password, which is computed here, and never the password.
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
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
from barnabas.cluster.metadata.scram_credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SCRAM_BY_CODE,
    SCRAM_BY_NAME,
)
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from barnabas.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_SALT_BYTES = 26  # as Kafka's ScramFormatter

Credentials = dict[str, dict[str, int]]
"""The iterations of each mechanism of each user."""


@click.group()
def user() -> None:
    """Work with SCRAM users."""


@user.command("list")
@json_option
@client_options
def list_users(client: Client, *, as_json: bool) -> None:
    """List users."""
    _show(_described(client), as_json=as_json)


@user.command()
@click.argument("names", nargs=-1, required=True)
@json_option
@client_options
def describe(client: Client, *, names: tuple[str, ...], as_json: bool) -> None:
    """Show the mechanisms of users. Servers show neither passwords nor keys."""
    found = _described(client)
    for name in names:
        if name not in found:
            raise _unknown(name)
    _show({name: found[name] for name in names}, as_json=as_json)


def _described(client: Client) -> Credentials:
    request = DescribeUserScramCredentialsRequest(users=None)
    answer = ask(client, request, DescribeUserScramCredentialsResponse)
    check(answer.error_code, answer.error_message, "users")
    found: Credentials = {}
    for each in answer.results:
        check(each.error_code, each.error_message, f"user {each.user}")
        found[each.user] = {
            SCRAM_BY_CODE[info.mechanism].name: info.iterations
            for info in each.credential_infos
            if info.mechanism in SCRAM_BY_CODE
        }
    return dict(sorted(found.items()))


def _unknown(name: str) -> CliError:
    return CliError(f"user {name} does not exist; see barnabas user list")


def _show(found: Credentials, *, as_json: bool) -> None:
    if as_json:
        print_json([_user_json(name, mechanisms) for name, mechanisms in found.items()])
        return
    rows = [
        (name, mechanism, iterations)
        for name, mechanisms in found.items()
        for mechanism, iterations in mechanisms.items()
    ]
    print_table(("USER", "MECHANISM", "ITERATIONS"), rows)


def _user_json(name: str, mechanisms: dict[str, int]) -> dict[str, Any]:
    return {
        "user": name,
        "mechanisms": [{"name": each, "iterations": count} for each, count in mechanisms.items()],
    }


def _mechanism_option(help_text: str) -> Any:
    return click.option(
        "--mechanism",
        "mechanisms",
        multiple=True,
        type=click.Choice(list(SCRAM_BY_NAME), case_sensitive=False),
        help=help_text,
    )


@user.command()
@click.argument("name")
@_mechanism_option("A mechanism; repeatable. [default: both, SCRAM-SHA-256 and SCRAM-SHA-512]")
@click.option(
    "--iterations",
    type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX),
    default=ITERATIONS_MIN,
    show_default=True,
    help="The cost of guessing a password from what the cluster keeps.",
)
@click.option(
    "--password-file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="A file whose first line is the password; - is the standard input.",
)
@click.option("--password-env", metavar="NAME", help="The environment variable with the password.")
@click.option("--dry-run", is_flag=True, help="Show what would change, change nothing.")
@json_option
@client_options
def add(
    client: Client,
    *,
    name: str,
    mechanisms: Sequence[str],
    iterations: int,
    password_file: Path | None,
    password_env: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Add a user, or change its password, which is prompted for unless an option has it."""
    if password_file is not None and password_env is not None:
        raise click.UsageError("Use one of --password-file and --password-env.")
    wanted = list(dict.fromkeys(mechanisms)) or list(SCRAM_BY_NAME)
    existed = name in _described(client)
    if not dry_run:
        password = _password(name, password_file, password_env)
        for each in wanted:  # a request may name a user once
            upsertion = _upsertion(name, each, password, iterations)
            _alter(client, name, AlterUserScramCredentialsRequest(upsertions=[upsertion]))
    if as_json:
        shown = _user_json(name, dict.fromkeys(wanted, iterations))
        print_json({**shown, "existed": existed})
        return
    done = "changed" if existed else "added"
    click.echo(f"{name} {f'could be {done}' if dry_run else done} ({', '.join(wanted)})")


def _upsertion(name: str, mechanism_name: str, password: str, iterations: int) -> Any:
    mechanism = SCRAM_BY_NAME[mechanism_name]
    salt = secrets.token_bytes(_SALT_BYTES)
    return AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism.code,
        iterations=iterations,
        salt=salt,
        salted_password=mechanism.salted_password(password, salt, iterations),
    )


def _alter(client: Client, name: str, request: AlterUserScramCredentialsRequest) -> None:
    answer = ask(client, request, AlterUserScramCredentialsResponse)
    for each in answer.results:
        check(each.error_code, each.error_message, f"user {each.user or name}")


def _password(name: str, file: Path | None, variable: str | None) -> str:
    """Return the password of the file, the variable or the prompt. Raises CliError for none."""
    if variable is not None:
        password, place = os.environ.get(variable, ""), f"the variable {variable}"
    elif file is not None:
        try:
            text = sys.stdin.read() if str(file) == "-" else file.read_text()
        except UnicodeDecodeError as error:
            raise CliError(f"the file {file} is not text in UTF-8: {error}") from None
        password, place = text.partition("\n")[0].removesuffix("\r"), f"the file {file}"
    elif sys.stdin.isatty():
        return click.prompt(
            f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True
        )
    else:
        raise CliError(
            "no terminal to prompt for the password; use --password-file or --password-env"
        )
    if not password:
        raise CliError(f"{place} has no password")
    return password


@user.command()
@click.argument("name")
@_mechanism_option("A mechanism to remove; repeatable. [default: all of the user]")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, remove nothing.")
@yes_option
@json_option
@client_options
def remove(
    client: Client,
    *,
    name: str,
    mechanisms: Sequence[str],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove a user, or some of its mechanisms. Connections that have authenticated stay."""
    found = _described(client).get(name)
    if found is None:
        raise _unknown(name)
    wanted = list(dict.fromkeys(mechanisms)) or list(found)
    missing = [each for each in wanted if each not in found]
    if missing:
        raise CliError(f"user {name} has no {missing[0]}; see barnabas user describe {name}")
    if not dry_run:
        confirm(f"Remove {name} ({', '.join(wanted)})?", yes=yes)
        for each in wanted:
            deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion(
                name=name, mechanism=SCRAM_BY_NAME[each].code
            )
            _alter(client, name, AlterUserScramCredentialsRequest(deletions=[deletion]))
    if as_json:
        print_json(_user_json(name, {each: found[each] for each in wanted}))
        return
    click.echo(f"{name} {'could be removed' if dry_run else 'removed'} ({', '.join(wanted)})")
