"""`barnabas cluster reassign`: plans, requests, and their progress."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from barnabas.cli.admin_requests import ask, check
from barnabas.cli.command_errors import CliError
from barnabas.cli.reassignment_plan import (
    Place,
    PlanError,
    Replicas,
    changes,
    drain,
    from_json,
    spread,
)
from barnabas.cli.terminal_output import counted, print_table
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from barnabas.cli.client_options import Client

_POLL_S = 0.5
_STALLED_S = 600.0


def current_replicas(client: Client) -> Replicas:
    """Return the replicas of every partition."""
    return {
        Place(name, number): list(partition.replicas)
        for name, topic in client.metadata().topics.items()
        for number, partition in topic.partitions.items()
    }


def make_plan(
    client: Client,
    current: Replicas,
    topics: Sequence[str],
    brokers: str | None,
    count: int | None,
    drained: int | None,
    file: Path | None,
) -> Replicas:
    """Return the changes that the options state. Raises CliError."""
    unknown = set(topics) - {place.topic for place in current}
    if unknown:
        raise CliError(f"topic {min(unknown)} does not exist")
    wanted = {place: each for place, each in current.items() if not topics or place.topic in topics}
    known = sorted(client.metadata().brokers)
    try:
        if file is not None:
            plan = from_json(file.read_bytes())
        elif drained is not None:
            if drained not in known and not any(drained in each for each in current.values()):
                raise CliError(
                    f"broker {drained} does not run and has no replica; "
                    f"the brokers are {', '.join(map(str, known))}"
                )
            plan = drain(wanted, drained, known)
        else:
            plan = spread(wanted, _broker_ids(brokers or "", known), count)
        return changes(current, plan)
    except PlanError as error:
        raise CliError(str(error)) from None


def _broker_ids(text: str, known: Collection[int]) -> list[int]:
    try:
        ids = [int(part) for part in text.split(",")]
    except ValueError:
        raise CliError(f"{text} is not a list of broker ids, as 1,2,3") from None
    for each in ids:
        if each not in known:
            raise CliError(f"broker {each} is unknown or fenced; active brokers: {sorted(known)}")
    return list(dict.fromkeys(ids))


def submit(client: Client, plan: Mapping[Place, list[int] | None]) -> None:
    """Start the reassignments, or cancel those with None. Raises CliError."""
    kind = AlterPartitionReassignmentsRequest
    topics: dict[str, list[AlterPartitionReassignmentsRequest.ReassignablePartition]] = {}
    for place, replicas in sorted(plan.items()):
        partition = kind.ReassignablePartition(partition_index=place.partition, replicas=replicas)
        topics.setdefault(place.topic, []).append(partition)
    request = kind(
        topics=[kind.ReassignableTopic(name=name, partitions=each) for name, each in topics.items()]
    )
    answer = ask(client, request, AlterPartitionReassignmentsResponse)
    check(answer.error_code, answer.error_message, "reassignment")
    for topic in answer.responses:
        for each in topic.partitions:
            check(each.error_code, each.error_message, f"{topic.name}-{each.partition_index}")


def running(client: Client) -> dict[Place, tuple[list[int], list[int], list[int]]]:
    """Return replicas, added and removed ones of each reassignment that runs."""
    request = ListPartitionReassignmentsRequest(topics=None)
    answer = ask(client, request, ListPartitionReassignmentsResponse)
    check(answer.error_code, answer.error_message, "reassignments")
    return {
        Place(topic.name, each.partition_index): (
            list(each.replicas),
            list(each.adding_replicas),
            list(each.removing_replicas),
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def show_running(client: Client) -> None:
    """Print the reassignments that run."""
    found = running(client)
    if not found:
        click.echo("no reassignment runs")
        return
    print_table(
        ("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING"),
        [
            (place.topic, place.partition, *(",".join(map(str, ids)) or None for ids in each))
            for place, each in sorted(found.items())
        ],
    )


def cancel(client: Client, topics: Sequence[str], *, dry_run: bool) -> None:
    """Cancel the reassignments that run, of some topics or of all."""
    found = [place for place in running(client) if not topics or place.topic in topics]
    if found and not dry_run:
        submit(client, dict.fromkeys(found))
    verb = "would be cancelled" if dry_run else "cancelled"
    click.echo(f"{counted(len(found), 'reassignment')} {verb}")


def wait_until_done(client: Client, plan: Collection[Place]) -> None:
    """Show the progress until all partitions have their new replicas.

    Raises CliError when none finishes for ten minutes; the reassignments keep running.
    """
    left, changed_at = set(plan), time.monotonic()
    while left:
        time.sleep(_POLL_S)
        still = left & running(client).keys()
        if len(still) != len(left):
            left, changed_at = still, time.monotonic()
            done = len(plan) - len(left)
            print(f"{done} of {counted(len(plan), 'partition')} moved", file=sys.stderr)
        elif time.monotonic() - changed_at > _STALLED_S:
            raise CliError(
                f"{counted(len(left), 'reassignment')} made no progress; they keep running: see "
                "'barnabas cluster reassign', or cancel them with --cancel"
            )
