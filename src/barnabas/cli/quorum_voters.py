"""`barnabas cluster voters`: add and remove voters of the quorum (KIP-853)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from barnabas.cli.admin_requests import ask, check
from barnabas.cli.cluster_overview import quorum
from barnabas.cli.command_errors import CliError
from barnabas.cli.terminal_output import confirm
from barnabas.cluster.quorum.storage_format import (
    InitialControllersError,
    parse_initial_controllers,
)
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from barnabas.protocol.types import Uuid

if TYPE_CHECKING:
    from barnabas.cli.client_options import Client


def add(client: Client, text: str, listener: str, *, dry_run: bool) -> None:
    """Add the voter `id@host:port:directoryId`, which must run as an observer. Raises CliError."""
    try:
        (voter,) = parse_initial_controllers(text, listener)
    except (InitialControllersError, ValueError) as error:
        raise CliError(str(error)) from None
    key = voter.key
    state = quorum(client)
    if state is None:
        raise CliError("the quorum has no leader: try again when a majority of the voters runs")
    if key.id in {each.replica_id for each in state.current_voters}:
        raise CliError(f"node {key.id} is a voter: remove its old directory first")
    if (key.id, key.directory_id) not in {
        (each.replica_id, each.replica_directory_id) for each in state.observers
    }:
        raise CliError(
            f"node {key.id} with directory {key.directory_id} does not follow the quorum: start "
            "it first, formatted with --no-initial-controllers"
        )
    if dry_run:
        click.echo(f"node {key.id} would be added to {len(state.current_voters)} voters")
        return
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=int(client.timeout * 1000),
        voter_id=key.id,
        voter_directory_id=key.directory_id,
        listeners=[
            AddRaftVoterRequest.Listener(name=each.name, host=each.host, port=each.port)
            for each in voter.endpoints
        ],
    )
    answer = ask(client, request, AddRaftVoterResponse)
    check(answer.error_code, answer.error_message, f"node {key.id}")
    click.echo(f"node {key.id} is a voter")


def remove(client: Client, text: str, *, dry_run: bool, yes: bool) -> None:
    """Remove the voter `id` or `id:directoryId`. Raises CliError."""
    number, _, directory = text.partition(":")
    if not number.isdecimal():
        raise CliError(f"{text} is not ID or ID:DIRECTORY_ID")
    state = quorum(client)
    if state is None:
        raise CliError("the quorum has no leader: try again when a majority of the voters runs")
    found = [
        each.replica_directory_id
        for each in state.current_voters
        if each.replica_id == int(number) and directory in ("", str(each.replica_directory_id))
    ]
    if not found:
        raise CliError(f"{text} is not a voter; see 'barnabas cluster voters'")
    directory_id: Uuid = found[0]
    left = len(state.current_voters) - 1
    if not left:
        raise CliError(f"node {number} is the only voter")
    if dry_run:
        click.echo(f"node {number} would be removed, leaving {left} voters")
        return
    confirm(f"Remove voter {number}, leaving {left} voters?", yes=yes)
    request = RemoveRaftVoterRequest(
        cluster_id=None, voter_id=int(number), voter_directory_id=directory_id
    )
    answer = ask(client, request, RemoveRaftVoterResponse)
    check(answer.error_code, answer.error_message, f"node {number}")
    click.echo(f"node {number} is no longer a voter")
