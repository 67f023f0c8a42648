"""`barnabas topic`: list, create, describe, alter and delete topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.client_options import Client, admin_kinds, client_options, complete_topics, pairs
from barnabas.cli.command_errors import CliError
from barnabas.cli.config_command import change
from barnabas.cli.parameter_types import INT32_MAX, NAME
from barnabas.cli.terminal_output import confirm, json_option, print_json, print_table, yes_option

if TYPE_CHECKING:
    from collections.abc import Sequence

_INT16_MAX = 2**15 - 1


@click.group()
def topic() -> None:
    """Work with topics."""


@topic.command("list")
@click.option(
    "--internal", is_flag=True, help="Include internal topics (__consumer_offsets and others)."
)
@json_option
@client_options
def list_topics(client: Client, *, internal: bool, as_json: bool) -> None:
    """List topics."""
    found = sorted(client.metadata().topics.values(), key=lambda topic: topic.topic)
    rows = [
        (
            described.topic,
            len(described.partitions),
            max((len(p.replicas) for p in described.partitions.values()), default=0),
        )
        for described in found
        if internal or not described.topic.startswith("__")
    ]
    if as_json:
        print_json([{"name": n, "partitions": p, "replicas": r} for n, p, r in rows])
    else:
        print_table(("TOPIC", "PARTITIONS", "REPLICAS"), rows)


@topic.command()
@click.argument("names", nargs=-1, required=True, type=NAME)
@click.option(
    "--partitions", "-p", type=click.IntRange(1, INT32_MAX), help="[default: the server's]"
)
@click.option(
    "--replicas", "-r", type=click.IntRange(1, _INT16_MAX), help="[default: the server's]"
)
@click.option(
    "--assignment",
    metavar="B:B,B:B",
    help="The brokers of each partition: 1:2,2:1 is two partitions on brokers 1 and 2.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A topic property; repeatable."
)
@click.option("--if-not-exists", is_flag=True, help="Accept a topic that exists.")
@click.option("--dry-run", is_flag=True, help="Validate on the server, create nothing.")
@client_options
def create(
    client: Client,
    *,
    names: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    assignment: str | None,
    settings: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create topics."""
    kinds = admin_kinds()
    wanted: dict[str, Any] = {"config": pairs(settings, "--set")}
    if assignment is None:
        wanted["num_partitions"] = partitions if partitions is not None else -1
        wanted["replication_factor"] = replicas if replicas is not None else -1
    elif partitions is not None or replicas is not None:
        raise click.UsageError(
            "--assignment sets the partitions and replicas: remove --partitions and --replicas."
        )
    else:
        placed = _assignment(assignment)
        wanted.update(num_partitions=len(placed), replica_assignment=placed)
    futures = client.admin.create_topics(
        [kinds.NewTopic(name, **wanted) for name in dict.fromkeys(names)], validate_only=dry_run
    )
    for name, future in futures.items():
        try:
            client.wait(future, f"topic {name}")
        except CliError as error:
            if if_not_exists and "(TOPIC_ALREADY_EXISTS)" in error.message:
                click.echo(f"{name} already exists")
                continue
            raise
        click.echo(f"{name} could be created" if dry_run else f"{name} created")


def _assignment(text: str) -> list[list[int]]:
    try:
        placed = [[int(broker) for broker in brokers.split(":")] for brokers in text.split(",")]
    except ValueError:
        placed = [[-1]]
    if not all(0 <= broker <= INT32_MAX for brokers in placed for broker in brokers):
        raise click.UsageError(
            f"Invalid value {text!r} for --assignment: it must be broker ids such as 1:2,2:1."
        )
    return placed


@topic.command()
@click.argument("names", nargs=-1, required=True, type=NAME, shell_complete=complete_topics)
@json_option
@client_options
def describe(client: Client, *, names: tuple[str, ...], as_json: bool) -> None:
    """Show partitions, offsets and properties of topics."""
    from confluent_kafka import TopicCollection

    futures = client.admin.describe_topics(TopicCollection(list(dict.fromkeys(names))))
    described = [_described(client, name, future) for name, future in futures.items()]
    if as_json:
        print_json(described)
        return
    for place, found in enumerate(described):
        if place:
            click.echo()
        own = " ".join(f"{name}={value}" for name, value in found["config"].items()) or "none"
        click.echo(f"topic {found['name']}  id {found['id']}  own properties: {own}")
        print_table(
            ("PARTITION", "LEADER", "REPLICAS", "IN SYNC", "EARLIEST", "LATEST"),
            [
                (
                    partition["partition"],
                    partition["leader"],
                    ",".join(map(str, partition["replicas"])),
                    ",".join(map(str, partition["isr"])),
                    partition["earliest"],
                    partition["latest"],
                )
                for partition in found["partitions"]
            ],
        )


def _described(client: Client, name: str, future: Any) -> dict[str, Any]:
    from confluent_kafka import TopicPartition

    kinds = admin_kinds()
    found = client.wait(future, f"topic {name}")
    led = [p.id for p in found.partitions if p.leader is not None and p.leader.id >= 0]
    specs = {"earliest": kinds.OffsetSpec.earliest(), "latest": kinds.OffsetSpec.latest()}
    offsets: dict[str, dict[int, int]] = {label: {} for label in specs}
    for label, spec in specs.items() if led else ():
        answers = client.admin.list_offsets({TopicPartition(name, n): spec for n in led})
        offsets[label] = {p.partition: client.wait(f).offset for p, f in answers.items()}
    return {
        "name": name,
        "id": _uuid_text(found.topic_id),
        "internal": found.is_internal,
        "config": _own_properties(client, name),
        "partitions": [
            {
                "partition": p.id,
                "leader": p.leader.id if p.id in led else None,
                "replicas": [node.id for node in p.replicas],
                "isr": [node.id for node in p.isr],
                "earliest": offsets["earliest"].get(p.id),
                "latest": offsets["latest"].get(p.id),
            }
            for p in sorted(found.partitions, key=lambda p: p.id)
        ],
    }


def _uuid_text(uuid: Any) -> str:
    """Return a topic id as Kafka formats it: URL-safe base64 without padding."""
    return str(uuid).rstrip("=").replace("+", "-").replace("/", "_")


def _own_properties(client: Client, name: str) -> dict[str, str | None]:
    kinds = admin_kinds()
    resource = kinds.ConfigResource(kinds.ConfigResource.Type.TOPIC, name)
    (future,) = client.admin.describe_configs([resource]).values()
    own = kinds.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {
        entry.name: entry.value
        for entry in client.wait(future, f"topic {name}").values()
        if entry.source == own
    }


@topic.command()
@click.argument("name", type=NAME, shell_complete=complete_topics)
@click.option(
    "--partitions",
    "-p",
    type=click.IntRange(1, INT32_MAX),
    help="The new number of partitions, larger than the current one.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a property; repeatable."
)
@click.option(
    "--unset",
    "unset",
    multiple=True,
    metavar="NAME",
    help="Remove a property of the topic; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Validate on the server, change nothing.")
@client_options
def alter(
    client: Client,
    *,
    name: str,
    partitions: int | None,
    settings: tuple[str, ...],
    unset: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Add partitions to a topic, or change its properties."""
    kinds = admin_kinds()
    if partitions is None and not settings and not unset:
        raise click.UsageError("Nothing to change: use --partitions, --set or --unset.")
    done = "could be altered" if dry_run else "altered"
    if settings or unset:
        resource = kinds.ConfigResource(kinds.ConfigResource.Type.TOPIC, name)
        change(client, resource, pairs(settings, "--set"), unset, dry_run=dry_run)
    if partitions is not None:
        (future,) = client.admin.create_partitions(
            [kinds.NewPartitions(name, partitions)], validate_only=dry_run
        ).values()
        client.wait(future, f"topic {name}")
    click.echo(f"{name} {done}")


@topic.command()
@click.argument("names", nargs=-1, required=True, type=NAME, shell_complete=complete_topics)
@click.option("--if-exists", is_flag=True, help="Accept a topic that does not exist.")
@yes_option
@client_options
def delete(client: Client, *, names: tuple[str, ...], if_exists: bool, yes: bool) -> None:
    """Delete topics with all their records."""
    wanted: Sequence[str] = list(dict.fromkeys(names))
    confirm(f"Delete {', '.join(wanted)} with all records?", yes=yes)
    for name, future in client.admin.delete_topics(wanted).items():
        try:
            client.wait(future, f"topic {name}")
        except CliError as error:
            if if_exists and "(UNKNOWN_TOPIC_OR_PART)" in error.message:
                click.echo(f"{name} does not exist")
                continue
            raise
        click.echo(f"{name} deleted")
