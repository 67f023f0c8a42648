"""`barnabas group`: consumer groups, their members, offsets and lag."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from barnabas.cli.client_options import Client, admin_kinds, client_options
from barnabas.cli.command_errors import CliError
from barnabas.cli.group_history import NoHistoryError, rebalances
from barnabas.cli.parameter_types import NAME
from barnabas.cli.terminal_output import (
    confirm,
    counted,
    json_option,
    print_json,
    print_line,
    print_table,
    yes_option,
)
from barnabas.cli.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable

Place = tuple[str, int]

# Errors for partitions without a leader or topic; librdkafka has the last when all of them are so.
_WITHOUT_LEADER = ("UNKNOWN_TOPIC_OR_PART", "LEADER_NOT_AVAILABLE", "_NOENT")
_COLUMNS = ("topic", "partition", "offset", "end", "lag", "behind", "member", "host")
# Time limit of the search for the oldest unread records.
_OLDEST_S = 5.0


@click.group()
def group() -> None:
    """Work with consumer groups."""


@group.command("list")
@click.option("--state", "states", multiple=True, help="Only groups in this state; repeatable.")
@click.option(
    "--type",
    "kinds",
    multiple=True,
    type=click.Choice(("classic", "consumer")),
    help="Only groups of this type; repeatable.",
)
@json_option
@client_options
def list_groups(
    client: Client, *, states: tuple[str, ...], kinds: tuple[str, ...], as_json: bool
) -> None:
    """List groups."""
    from confluent_kafka import ConsumerGroupState

    known = {_squeezed(state.name): state.name.lower() for state in ConsumerGroupState}
    for state in states:
        if _squeezed(state) not in known:
            raise click.UsageError(
                f"Invalid value {state!r} for --state: it must be one of "
                f"{', '.join(sorted(known.values()))}."
            )
    found = client.wait(client.admin.list_consumer_groups())
    for error in found.errors or ():
        raise client.failure(error.args[0])
    wanted = {_squeezed(state) for state in states}
    rows = [
        (one.group_id, one.state.name.lower(), one.type.name.lower())
        for one in sorted(found.valid or (), key=lambda one: one.group_id)
        if (not wanted or _squeezed(one.state.name) in wanted)
        and (not kinds or one.type.name.lower() in kinds)
    ]
    if as_json:
        print_json([{"group": g, "state": s, "type": t} for g, s, t in rows])
    else:
        print_table(("GROUP", "STATE", "TYPE"), rows)


def _squeezed(state: str) -> str:
    return state.replace("_", "").replace("-", "").lower()


class Progress(NamedTuple):
    """The position of a group in one partition; None when it never committed.

    The marker of a pipeline's job is a micro-batch's number, not a position: it has no lag.
    """

    topic: str
    partition: int
    offset: int | None
    end: int | None
    member: str | None
    host: str | None
    # The number of records between the position and the end.
    lag: int | None
    # Seconds since the oldest unread record was written; 0 when all are read.
    behind: float | None = None


@group.command()
@click.argument("names", nargs=-1, required=True, type=NAME)
@click.option("--history", is_flag=True, help="Also show why the group rebalanced lately.")
@json_option
@client_options
def describe(client: Client, *, names: tuple[str, ...], history: bool, as_json: bool) -> None:
    """Show members, assigned partitions, offsets and lag."""
    groups = [_described_group(client, name, history=history) for name in dict.fromkeys(names)]
    if as_json:
        print_json(groups)
        return
    for place, one in enumerate(groups):
        if place:
            click.echo()
        print_line(
            f"group {one['group']}  state {one['state']}  type {one['type']}  "
            f"assignor {one['assignor'] or 'none'}  members {len(one['members'])}  "
            f"coordinator {one['coordinator']}  lag {one['lag']}{_behind(one['behind'])}"
        )
        print_table(
            [column.upper() for column in _COLUMNS],
            [
                (
                    p["topic"],
                    p["partition"],
                    p["offset"],
                    p["end"],
                    p["lag"],
                    _seconds(p["behind"]),
                    p["member"],
                    p["host"],
                )
                for p in one["partitions"]
            ],
        )
        for cause in one.get("rebalances") or ():
            print_line(f"rebalanced {cause['time']}  epoch {cause['epoch']}  {cause['reason']}")


def _shown_time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000).astimezone().isoformat(timespec="seconds")


def _seconds(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:.1f} s"


def _behind(seconds: float | None) -> str:
    return "" if seconds is None else f"  behind {seconds:.1f} s"


def _described_group(client: Client, name: str, *, history: bool) -> dict[str, Any]:
    found = _described(client, name)
    if found.state.name == "DEAD":
        raise CliError(f"group {name} does not exist; list groups with barnabas group list")
    partitions = _progress(client, name, found)
    behind = [one.behind for one in partitions if one.behind is not None]
    return {
        "group": name,
        "state": found.state.name.lower(),
        "type": found.type.name.lower(),
        "assignor": found.partition_assignor,
        "coordinator": found.coordinator.id if found.coordinator is not None else None,
        "lag": sum(one.lag or 0 for one in partitions),
        "behind": max(behind, default=None),
        "members": [
            {
                "member": member.member_id,
                "client": member.client_id,
                "host": member.host,
                "instance": member.group_instance_id,
                "partitions": [
                    {"topic": p.topic, "partition": p.partition}
                    for p in member.assignment.topic_partitions
                ],
            }
            for member in found.members
        ],
        "partitions": [one._asdict() for one in partitions],
        **({"rebalances": _rebalances(client, name, found)} if history else {}),
    }


def _rebalances(client: Client, name: str, found: Any) -> list[dict[str, Any]] | None:
    """Return the causes of rebalances; None, and a line on stderr, when there is no history."""
    try:
        causes = rebalances(client, name, found.coordinator)
    except NoHistoryError as error:
        click.echo(f"group {name}: no history of rebalances: {error}", err=True)
        return None
    return [{"time": _shown_time(cause.pop("time_ms")), **cause} for cause in causes]


def _described(client: Client, name: str) -> Any:
    (future,) = client.admin.describe_consumer_groups([name]).values()
    return client.wait(future, f"group {name}")


class Committed(NamedTuple):
    """The offset that a group has committed for a partition."""

    offset: int
    position: int | None
    """Where the group continues; None when the offset is a marker of a pipeline's job."""


def _committed(client: Client, name: str) -> dict[Place, Committed]:
    from confluent_kafka import ConsumerGroupTopicPartitions

    (future,) = client.admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(name)]
    ).values()
    answer = client.wait(future, f"group {name}")
    return {
        (p.topic, p.partition): Committed(p.offset, _position(p.offset, p.metadata))
        for p in answer.topic_partitions
        if p.offset >= 0
    }


def _position(offset: int, metadata: str | None) -> int | None:
    """Return where a group continues: jobs note it when control records follow the offset."""
    from barnabas.pipeline.delivery.micro_batches import micro_batch_markers
    from barnabas.pipeline.delivery.plan import offset_metadata

    if micro_batch_markers.is_marker(metadata):
        return None
    return max(offset, offset_metadata.decode(metadata).position)


def _offsets(client: Client, places: Iterable[Place], spec: Any) -> dict[Place, int]:
    """Return one offset for each partition; those without a leader or topic are omitted."""
    from confluent_kafka import TopicPartition

    asked = {TopicPartition(topic, partition): spec for topic, partition in places}
    answers: dict[Any, Any] = client.admin.list_offsets(asked) if asked else {}
    found: dict[Place, int] = {}
    for partition, future in answers.items():
        try:
            found[partition.topic, partition.partition] = client.wait(future).offset
        except CliError as error:
            if not any(f"({name})" in error.message for name in _WITHOUT_LEADER):
                raise
    return found


def _progress(client: Client, name: str, found: Any) -> list[Progress]:
    committed = _committed(client, name)
    owners: dict[Place, Any] = {
        (p.topic, p.partition): member
        for member in found.members
        for p in member.assignment.topic_partitions
    }
    places = sorted({*committed, *owners})
    markers = {place for place, each in committed.items() if each.position is None}
    ends = _offsets(
        client,
        [place for place in places if place not in markers],
        admin_kinds().OffsetSpec.latest(),
    )
    found_here = [
        Progress(
            *place,
            committed[place].offset if place in committed else None,
            ends.get(place),
            owners[place].member_id if place in owners else None,
            owners[place].host if place in owners else None,
            _lag(committed.get(place), ends.get(place)),
        )
        for place in places
    ]
    written = _oldest_unread(client, [one for one in found_here if one.lag])
    now_s = time.time()
    return [
        one._replace(behind=0.0)
        if one.lag == 0
        else one._replace(behind=max(0.0, now_s - written[one.topic, one.partition] / 1000))
        if (one.topic, one.partition) in written
        else one
        for one in found_here
    ]


def _lag(committed: Committed | None, end: int | None) -> int | None:
    if committed is None or committed.position is None or end is None:
        return None
    return max(0, end - committed.position)


def _oldest_unread(client: Client, lagging: list[Progress]) -> dict[Place, int]:
    """Return the time of the first unread record by partition, in ms.

    Partitions that do not answer within a few seconds are omitted.
    """
    from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, TopicPartition

    if not lagging:
        return {}
    consumer = client.consumer(
        group_id="barnabas-cli",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_message_max_bytes=65_536,
    )
    wanted = {(one.topic, one.partition) for one in lagging}
    written: dict[Place, int] = {}
    try:
        consumer.assign([TopicPartition(p.topic, p.partition, p.offset or 0) for p in lagging])
        deadline = time.monotonic() + min(client.timeout, _OLDEST_S)
        while wanted and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is None or message.error() is not None:
                continue
            place = (message.topic() or "", message.partition() or 0)
            if place in wanted:
                wanted.remove(place)
                consumer.pause([TopicPartition(*place)])
                kind, timestamp_ms = message.timestamp()
                if kind != TIMESTAMP_NOT_AVAILABLE:
                    written[place] = timestamp_ms
    finally:
        consumer.close()
    return written


@group.command()
@click.argument("names", nargs=-1, required=True, type=NAME)
@yes_option
@client_options
def delete(client: Client, *, names: tuple[str, ...], yes: bool) -> None:
    """Delete groups and their offsets."""
    wanted = list(dict.fromkeys(names))
    confirm(f"Delete {', '.join(wanted)} and their offsets?", yes=yes)
    for name, future in client.admin.delete_consumer_groups(wanted).items():
        client.wait(future, f"group {name}")
        click.echo(f"{name} deleted")


@group.command("reset-offsets")
@click.argument("name", type=NAME)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:P,P]",
    help="A topic, or partitions of it; repeatable. [default: all that the group has offsets for]",
)
@click.option("--to", metavar="WHERE", help="earliest, latest, or an offset.")
@click.option("--to-datetime", metavar="TIME", help="The first record at or after this time.")
@click.option("--shift-by", type=int, metavar="N", help="Add N, which may be negative.")
@click.option("--dry-run", is_flag=True, help="Show the changes, change nothing.")
@json_option
@client_options
def reset_offsets(
    client: Client,
    *,
    name: str,
    topics: tuple[str, ...],
    to: str | None,
    to_datetime: str | None,
    shift_by: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Set the offsets of a group without members."""
    if sum(one is not None for one in (to, to_datetime, shift_by)) != 1:
        raise click.UsageError("Use exactly one of --to, --to-datetime and --shift-by.")
    target = _Target(to, parse_time(to_datetime) if to_datetime else None, shift_by)
    members = _described(client, name).members
    if members:
        raise CliError(f"group {name} has {counted(len(members), 'member')}; stop them first")
    committed = {
        place: each.offset
        for place, each in _committed(client, name).items()
        if each.position is not None
    }
    places = _places(client, topics) if topics else sorted(committed)
    if not places:
        raise CliError(f"group {name} has no offsets; name the topics with --topic")
    moved = target.resolve(client, places, committed)
    if not dry_run:
        _commit(client, name, moved)
    rows = [(*place, committed.get(place), offset) for place, offset in sorted(moved.items())]
    if as_json:
        print_json([{"topic": t, "partition": p, "from": f, "to": o} for t, p, f, o in rows])
    else:
        print_table(("TOPIC", "PARTITION", "FROM", "TO"), rows)


def _places(client: Client, topics: Iterable[str]) -> list[Place]:
    """Parse TOPIC and TOPIC:0,1. Raises CliError for a topic or partition that does not exist."""
    places: set[Place] = set()
    for text in topics:
        name, colon, numbers = text.partition(":")
        known = client.partitions(name)
        if not colon:
            places |= {(name, number) for number in known}
            continue
        for number in numbers.split(","):
            if not (number.isdecimal() and int(number) in known):
                raise CliError(
                    f"topic {name} has no partition {number!r}; "
                    f"its partitions are 0 to {len(known) - 1}"
                )
            places.add((name, int(number)))
    return sorted(places)


class _Target:
    """The target of a reset."""

    def __init__(self, to: str | None, timestamp: int | None, shift: int | None) -> None:
        self.to = to
        self.timestamp = timestamp
        self.shift = shift
        if to is not None and to not in ("earliest", "latest") and not to.isdecimal():
            raise click.UsageError(
                f"Invalid value {to!r} for --to: it must be earliest, latest, or an offset."
            )

    def resolve(
        self, client: Client, places: list[Place], committed: dict[Place, int]
    ) -> dict[Place, int]:
        """Return each partition's new offset, within the range of its log."""
        specs = admin_kinds().OffsetSpec
        first = _offsets(client, places, specs.earliest())
        last = _offsets(client, places, specs.latest())
        gone = [
            f"{topic}:{partition}" for topic, partition in places if (topic, partition) not in last
        ]
        if gone:
            raise CliError(
                f"topic {', '.join(gone)} does not exist; name other topics with --topic"
            )
        timed: dict[Place, int] = {}
        if self.timestamp is not None:
            timed = _offsets(client, places, specs.for_timestamp(self.timestamp))
        moved: dict[Place, int] = {}
        for place in places:
            if self.to == "earliest":
                wanted = first[place]
            elif self.to == "latest" or (self.timestamp is not None and timed[place] < 0):
                wanted = last[place]
            elif self.to is not None:
                wanted = int(self.to)
            elif self.timestamp is not None:
                wanted = timed[place]
            elif place in committed:
                wanted = committed[place] + (self.shift or 0)
            else:
                raise CliError(
                    f"{place[0]}:{place[1]} has no offset to shift; use --to or --to-datetime"
                )
            moved[place] = min(max(wanted, first[place]), last[place])
        return moved


def _commit(client: Client, name: str, moved: dict[Place, int]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    wanted = [TopicPartition(*place, offset) for place, offset in moved.items()]
    (future,) = client.admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(name, wanted)]
    ).values()
    answer = client.wait(future, f"group {name}")
    for partition in answer.topic_partitions:
        if partition.error is not None:
            raise client.failure(partition.error, f"{partition.topic}:{partition.partition}")
