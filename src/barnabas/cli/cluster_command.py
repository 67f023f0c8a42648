"""`barnabas cluster`: the state of a cluster, reassignments, elections, voters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from barnabas.cli.client_options import Client, client_options, complete_topics
from barnabas.cli.command_errors import CliError
from barnabas.cli.terminal_output import (
    confirm,
    counted,
    json_option,
    print_json,
    print_table,
    yes_option,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.cli.reassignment_plan import Replicas

_SHOWN_MAX = 20

dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would change, only.")


@click.group(invoke_without_command=True)
@json_option
@client_options
def cluster(client: Client, *, as_json: bool) -> None:
    """Show the cluster: its nodes, partitions that are not in sync, and the quorum."""
    if _has_subcommand():
        return
    from barnabas.cli.cluster_overview import describe

    found = describe(client)
    if as_json:
        print_json(found)
    else:
        _show(found)


def _has_subcommand() -> bool:
    """True when a command follows. Raises UsageError for an option that belongs after it."""
    context = click.get_current_context()
    if context.invoked_subcommand is None:
        return False
    for name in context.params:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = name.replace("_", "-")
            raise click.UsageError(f"Put --{option} after {context.invoked_subcommand}.")
    return True


def _show(found: dict[str, Any]) -> None:
    counts = f"topics {found['topics']}  partitions {found['partitions']}"
    click.echo(f"cluster {found['cluster_id']}  {counts}")
    if found["partitions_without_leader"]:
        click.echo(f"{counted(found['partitions_without_leader'], 'partition')} without a leader")
    print_table(
        ("NODE", "ADDRESS", "RACK", "STATE", "LEADS", "REPLICAS"),
        [
            (
                node["id"],
                f"{node['host']}:{node['port']}",
                node["rack"],
                "fenced" if node["fenced"] else "serves",
                node["leads"],
                node["replicas"],
            )
            for node in found["nodes"]
        ],
    )
    for node in found["nodes"]:
        if disputed := node["disputed_brokers"]:
            brokers = counted(disputed, "broker")
            click.echo(
                f"node {node['id']} cannot connect to {brokers} that the controller does not "
                "fence: compare the networks of the two"
            )
    _show_lagging(found["partitions_not_in_sync"])
    _show_quorum(found["quorum"])


def _show_lagging(lagging: Sequence[dict[str, Any]]) -> None:
    if not lagging:
        return
    click.echo(f"\n{counted(len(lagging), 'partition')} not fully in sync")
    print_table(
        ("TOPIC", "PARTITION", "LEADER", "IN SYNC", "REPLICAS"),
        [
            (
                each["topic"],
                each["partition"],
                each["leader"] if each["leader"] >= 0 else None,
                ",".join(map(str, each["isr"])),
                ",".join(map(str, each["replicas"])),
            )
            for each in lagging[:_SHOWN_MAX]
        ],
    )
    if len(lagging) > _SHOWN_MAX:
        click.echo(f"and {len(lagging) - _SHOWN_MAX} more; --json lists all")


def _show_quorum(found: dict[str, Any] | None) -> None:
    if found is None:
        click.echo("\nthe quorum has no leader, or the server does not describe it")
        return
    state = f"leader {found['leader']}  epoch {found['epoch']}"
    click.echo(f"\nquorum  {state}  high watermark {found['high_watermark']}")
    print_table(
        ("NODE", "ROLE", "LOG END", "LAG", "CAUGHT UP MS AGO", "DIRECTORY"),
        [
            (
                each["id"],
                each["role"],
                each["log_end_offset"],
                each["lag"],
                each["caught_up_ms_ago"],
                each["directory_id"],
            )
            for each in found["replicas"]
        ],
    )


@cluster.command()
@click.argument("topics", nargs=-1, shell_complete=complete_topics)
@click.option("--to", "brokers", metavar="ID,...", help="Spread the topics over these brokers.")
@click.option(
    "--replicas", type=click.IntRange(min=1), help="With --to: the number of replicas they get."
)
@click.option("--drain", type=int, metavar="ID", help="Move all replicas off this broker.")
@click.option(
    "--plan",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Read the replicas from a file, as kafka-reassign-partitions does.",
)
@click.option("--cancel", is_flag=True, help="Cancel the reassignments that run.")
@click.option("--no-wait", is_flag=True, help="Return when the reassignments have started.")
@dry_run_option
@yes_option
@client_options
def reassign(
    client: Client,
    topics: tuple[str, ...],
    brokers: str | None,
    replicas: int | None,
    drain: int | None,
    file: Path | None,
    *,
    cancel: bool,
    no_wait: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Move partitions to other brokers; without options, list the reassignments that run.

    TOPICS limits --to, --drain and --cancel to these topics.
    """
    from barnabas.cli import reassignments

    if (brokers is not None) + (drain is not None) + (file is not None) + cancel > 1:
        raise click.UsageError("--to, --drain, --plan and --cancel exclude each other.")
    if replicas is not None and brokers is None:
        raise click.UsageError("--replicas needs --to.")
    if cancel:
        reassignments.cancel(client, topics, dry_run=dry_run)
        return
    if brokers is None and drain is None and file is None:
        if topics:
            raise click.UsageError("State the new replicas: --to, --drain or --plan.")
        reassignments.show_running(client)
        return
    current = reassignments.current_replicas(client)
    plan = reassignments.make_plan(client, current, topics, brokers, replicas, drain, file)
    _show_plan(current, plan)
    if dry_run or not plan:
        return
    confirm(f"Reassign {counted(len(plan), 'partition')}?", yes=yes)
    reassignments.submit(client, plan)
    if not no_wait:
        reassignments.wait_until_done(client, plan)


def _show_plan(current: Replicas, plan: Replicas) -> None:
    if not plan:
        click.echo("nothing to move")
        return
    print_table(
        ("TOPIC", "PARTITION", "FROM", "TO"),
        [
            (
                place.topic,
                place.partition,
                ",".join(map(str, current[place])),
                ",".join(map(str, replicas)),
            )
            for place, replicas in sorted(plan.items())
        ],
    )


@cluster.command()
@click.argument("topics", nargs=-1, shell_complete=complete_topics)
@click.option("--unclean", is_flag=True, help="Elect replicas that are not in sync: loses records.")
@dry_run_option
@yes_option
@client_options
def elect(
    client: Client, topics: tuple[str, ...], *, unclean: bool, dry_run: bool, yes: bool
) -> None:
    """Elect the preferred leaders of all topics, or of TOPICS."""
    from barnabas.cli import election_requests

    wanted = election_requests.partitions_to_elect(client, topics, unclean=unclean)
    print_table(
        ("TOPIC", "PARTITION", "LEADER", "REPLICAS"),
        [(each.topic, each.partition, each.leader, each.replicas) for each in wanted],
    )
    if dry_run or not wanted:
        return
    if unclean:
        confirm("Records that only other replicas have are lost. Elect?", yes=yes)
    click.echo(election_requests.elect(client, wanted, unclean=unclean))


@cluster.command()
@click.argument("broker", type=int)
@dry_run_option
@yes_option
@client_options
def unregister(client: Client, broker: int, *, dry_run: bool, yes: bool) -> None:
    """Remove the registration of a broker that has stopped for good."""
    from barnabas.cli.admin_requests import ask, check
    from barnabas.cli.cluster_overview import describe
    from barnabas.protocol.messages.unregister_broker import (
        UnregisterBrokerRequest,
        UnregisterBrokerResponse,
    )

    found = {node["id"]: node for node in describe(client)["nodes"]}.get(broker)
    if found is None:
        raise CliError(f"broker {broker} is not registered")
    if not found["fenced"]:
        raise CliError(f"broker {broker} runs: stop it first")
    if found["replicas"]:
        click.echo(
            f"broker {broker} still has {counted(found['replicas'], 'replica')}: move them with "
            f"'barnabas cluster reassign --drain {broker}'"
        )
    if dry_run:
        click.echo(f"broker {broker} would be unregistered")
        return
    confirm(f"Unregister broker {broker}?", yes=yes)
    answer = ask(client, UnregisterBrokerRequest(broker_id=broker), UnregisterBrokerResponse)
    check(answer.error_code, answer.error_message, f"broker {broker}")
    click.echo(f"broker {broker} unregistered")


@cluster.command()
@click.argument("levels", nargs=-1, metavar="NAME=LEVEL...")
@dry_run_option
@client_options
def features(client: Client, levels: tuple[str, ...], *, dry_run: bool) -> None:
    """Raise features of the cluster to these levels: eligible.leader.replicas.version=1."""
    from barnabas.cli.admin_requests import ask, check
    from barnabas.cluster.metadata.releases import UnknownLevelError, parse_feature
    from barnabas.protocol.messages.update_features import (
        UpdateFeaturesRequest,
        UpdateFeaturesResponse,
    )

    try:
        wanted = dict(map(parse_feature, levels))
    except UnknownLevelError as error:
        raise CliError(str(error)) from None
    if not wanted:
        raise click.UsageError("State at least one NAME=LEVEL.")
    update = UpdateFeaturesRequest.FeatureUpdateKey
    request = UpdateFeaturesRequest(
        timeout_ms=int(client.timeout * 1000),
        feature_updates=[
            update(feature=name, max_version_level=level, upgrade_type=1)
            for name, level in wanted.items()
        ],
        validate_only=dry_run,
    )
    answer = ask(client, request, UpdateFeaturesResponse)
    check(answer.error_code, answer.error_message, "features")
    for each in answer.results:
        check(each.error_code, each.error_message, each.feature)
    click.echo("the levels are valid" if dry_run else "the levels are finalized")


@cluster.group(invoke_without_command=True)
@json_option
@client_options
def voters(client: Client, *, as_json: bool) -> None:
    """Show, add and remove the voters of the quorum."""
    if _has_subcommand():
        return
    from barnabas.cli.cluster_overview import describe

    found = describe(client)["quorum"]
    if as_json:
        print_json(found)
    else:
        _show_quorum(found)


@voters.command("add")
@click.argument("voter", metavar="ID@HOST:PORT:DIRECTORY_ID")
@click.option("--listener", default="CONTROLLER", show_default=True, help="The listener's name.")
@dry_run_option
@client_options
def add_voter(client: Client, voter: str, listener: str, *, dry_run: bool) -> None:
    """Make a controller that runs as an observer a voter."""
    from barnabas.cli import quorum_voters

    quorum_voters.add(client, voter, listener, dry_run=dry_run)


@voters.command("remove")
@click.argument("voter", metavar="ID[:DIRECTORY_ID]")
@dry_run_option
@yes_option
@client_options
def remove_voter(client: Client, voter: str, *, dry_run: bool, yes: bool) -> None:
    """Remove a voter from the quorum."""
    from barnabas.cli import quorum_voters

    quorum_voters.remove(client, voter, dry_run=dry_run, yes=yes)
