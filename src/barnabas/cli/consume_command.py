"""`barnabas consume`: read records of topics to the terminal, a file or a pipe."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from barnabas.cli import record_formats
from barnabas.cli.client_options import Client, client_options, complete_topics
from barnabas.cli.command_errors import CliError
from barnabas.cli.parameter_types import NAME, FiniteRange
from barnabas.cli.terminal_output import progress
from barnabas.cli.times import parse_time
from barnabas.cli.value_formats import ValueFormat, value_format_option

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_BATCH = 500
_CHECK_S = 5.0
"""Between two looks at whether the topics still exist, while no record arrives."""


@click.command()
@click.argument("topics", nargs=-1, required=True, type=NAME, shell_complete=complete_topics)
@click.option("--from-beginning", "-b", is_flag=True, help="The same as --offset earliest.")
@click.option(
    "--offset",
    "-o",
    metavar="WHERE",
    help="earliest, latest, a number, or -N for the last N of each partition. [default: latest]",
)
@click.option(
    "--since",
    metavar="TIME",
    help="Start at this time: ISO 8601, ms since 1970, or an age such as 15m.",
)
@click.option("--until", metavar="TIME", help="Stop at this time.")
@click.option(
    "--partition", "-p", "partitions", multiple=True, type=click.IntRange(min=0), help="Repeatable."
)
@click.option(
    "--max-messages", "-n", type=click.IntRange(min=1), help="Stop after this number of records."
)
@click.option(
    "--exit-at-end", "-e", is_flag=True, help="Stop at the current end of the partitions."
)
@click.option(
    "--idle",
    type=FiniteRange(min=0),
    metavar="SECONDS",
    help="Stop when no record arrives for this time.",
)
@click.option(
    "--group", "-g", help="Read as a member of a group; commit the offsets of printed records."
)
@click.option(
    "--isolation",
    type=click.Choice(["committed", "uncommitted"]),
    default="committed",
    show_default=True,
    help="committed skips records of open and aborted transactions.",
)
@click.option(
    "--format",
    "-f",
    "form",
    type=click.Choice(record_formats.FORMATS),
    default="value",
    show_default=True,
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option(
    "--template",
    metavar="TEXT",
    help='A format, for example "{partition} {offset} {key}: {value}".',
)
@click.option(
    "--key-separator", default="\t", help="The text between key and value. [default: a tab]"
)
@click.option("--null", metavar="TEXT", help="The text for null. [default: empty]")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file."
)
@value_format_option(with_schema=False)
@client_options
def consume(client: Client, *, value_format: ValueFormat, **options: Any) -> None:
    """Print records of TOPICS until interrupted, or up to a limit."""
    wanted = _Wanted(options)
    template = record_formats.check_template(options["template"]) if options["template"] else None
    form = "json" if options["as_json"] else options["form"]
    write = record_formats.writer(
        form, options["key_separator"].replace("\\t", "\t"), options["null"], template
    )
    consumer = client.consumer(
        group_id=wanted.group or "barnabas-cli",
        enable_partition_eof=True,
        enable_auto_commit=wanted.group is not None,
        enable_auto_offset_store=False,
        auto_offset_reset="earliest" if wanted.start == "earliest" else "latest",
        isolation_level=f"read_{options['isolation']}",
        fetch_wait_max_ms=100,
    )
    decoder = value_format.decoder()
    reading = _Reading(client, consumer, wanted)
    # On SIGTERM a member commits and leaves its group.
    signal.signal(signal.SIGTERM, _terminate)
    try:
        with _output(options["output"]) as out:
            reading.begin()
            _copy(reading, lambda e: write(decoder.decode(e) if decoder else e), out)
    finally:
        consumer.close()
        if decoder is not None:
            decoder.report()


def _terminate(number: int, _: object) -> None:
    sys.exit(128 + number)


class _Wanted:
    """The validated options."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.topics = list(dict.fromkeys(options["topics"]))
        self.partitions = set(options["partitions"])
        self.limit: int | None = options["max_messages"]
        self.exit_at_end: bool = options["exit_at_end"]
        self.idle: float | None = options["idle"]
        self.group: str | None = options["group"]
        self.since = parse_time(options["since"]) if options["since"] else None
        self.until = parse_time(options["until"]) if options["until"] else None
        given = [options["offset"], options["since"], options["from_beginning"]]
        if sum(bool(one) for one in given) > 1:
            raise click.UsageError("Use only one of --from-beginning, --offset and --since.")
        self.start: str | int = "earliest" if options["from_beginning"] else "latest"
        if options["offset"]:
            self.start = _offset(options["offset"])
        numbers = isinstance(self.start, int) or self.since is not None
        if self.group is not None and (numbers or self.partitions):
            raise click.UsageError(
                "A --group continues at its committed offsets; "
                "change these with group reset-offsets."
            )


def _offset(text: str) -> str | int:
    if text in ("earliest", "latest"):
        return text
    try:
        return int(text)
    except ValueError:
        raise click.UsageError(
            f"Invalid value {text!r} for --offset: it must be earliest, latest, a number, or -N."
        ) from None


@contextlib.contextmanager
def _output(path: Path | None) -> Generator[BinaryIO]:
    if path is None:
        yield sys.stdout.buffer
        return
    with path.open("wb") as file:
        yield file


class _Reading:
    """Tracks the partitions: their start offsets, which are finished, when to stop."""

    def __init__(self, client: Client, consumer: Any, wanted: _Wanted) -> None:
        self.client = client
        self.consumer = consumer
        self.wanted = wanted
        self.ends: dict[tuple[str, int], int] = {}
        self.total: int | None = wanted.limit
        self._finished: set[tuple[str, int]] = set()
        self._assigned: set[tuple[str, int]] = set()

    def begin(self) -> None:
        """Subscribe as a member of a group, or assign the partitions."""
        from confluent_kafka import TopicPartition

        numbers = {t: self.client.partitions(t) for t in self.wanted.topics}
        if self.wanted.group is not None:
            self.consumer.subscribe(self.wanted.topics, on_assign=self._note_assigned)
            return
        taken: list[Any] = []
        for topic, known in numbers.items():
            for number in sorted(self.wanted.partitions) or known:
                if number not in known:
                    raise CliError(
                        f"topic {topic} has no partition {number}; its partitions are "
                        f"0 to {len(known) - 1}"
                    )
                taken.append(TopicPartition(topic, number))
        starts = self._starts(taken)
        self._assigned = {(p.topic, p.partition) for p in starts}
        self.consumer.assign(starts)

    def _note_assigned(self, _: Any, partitions: list[Any]) -> None:
        self._assigned |= {(p.topic, p.partition) for p in partitions}
        for partition in partitions:
            self._bounds(partition)

    def _bounds(self, partition: Any) -> tuple[int, int]:
        from confluent_kafka import KafkaException

        try:
            low, high = self.consumer.get_watermark_offsets(partition, timeout=self.client.timeout)
        except KafkaException as error:
            what = f"topic {partition.topic} partition {partition.partition}"
            raise self.client.failure(error.args[0], what) from None
        self.ends[partition.topic, partition.partition] = high
        return low, high

    def _starts(self, partitions: list[Any]) -> list[Any]:
        """Return the partitions with their start offsets; count the records up to the end."""
        from confluent_kafka import OFFSET_END, KafkaException, TopicPartition

        by_time: dict[tuple[str, int], int] = {}
        if self.wanted.since is not None:
            wanted = [TopicPartition(p.topic, p.partition, self.wanted.since) for p in partitions]
            try:
                found = self.consumer.offsets_for_times(wanted, timeout=self.client.timeout)
            except KafkaException as error:
                raise self.client.failure(error.args[0]) from None
            by_time = {(p.topic, p.partition): p.offset for p in found}
        starts: list[Any] = []
        count = 0
        for partition in partitions:
            low, high = self._bounds(partition)
            offset = self._start(low, high, by_time.get((partition.topic, partition.partition)))
            count += high - offset
            stop = offset >= high and self.wanted.exit_at_end
            if stop:
                self._finished.add((partition.topic, partition.partition))
            at_end = self.wanted.start == "latest" and self.wanted.since is None
            offset = OFFSET_END if at_end and not stop else offset
            starts.append(TopicPartition(partition.topic, partition.partition, offset))
        if self.wanted.exit_at_end:
            self.total = count if self.total is None else min(count, self.total)
        return starts

    def _start(self, low: int, high: int, by_time: int | None) -> int:
        if by_time is not None:
            return high if by_time < 0 else max(low, by_time)
        if self.wanted.start == "earliest":
            return low
        if self.wanted.start == "latest":
            return high
        start = int(self.wanted.start)
        if start < 0:
            return max(low, high + start)
        if not low <= start <= high:
            raise CliError(f"offset {start} is out of range; it must be from {low} to {high}")
        return start

    @property
    def done(self) -> bool:
        """True when every partition is finished."""
        return bool(self._assigned) and self._assigned <= self._finished

    def finish(self, topic: str, partition: int) -> None:
        """Mark a partition as finished."""
        self._finished.add((topic, partition))

    def takes(self, message: Any) -> bool:
        """Return True when the record is within the limits; mark partitions that are finished."""
        place = (message.topic(), message.partition())
        if place in self._finished:
            return False
        if self.wanted.until is not None and message.timestamp()[1] > self.wanted.until:
            self._finished.add(place)
            return False
        end = self.ends.get(place)
        if self.wanted.exit_at_end and end is not None and message.offset() >= end - 1:
            self._finished.add(place)
            return message.offset() < end
        return True


def _copy(reading: _Reading, write: Callable[[record_formats.Entry], bytes], out: BinaryIO) -> None:
    """Write records up to the limit, the end, or the idle time."""
    limit, count = reading.wanted.limit, 0
    started = last_record = checked = time.monotonic()
    # On a terminal the records show the progress.
    on_screen = out is sys.stdout.buffer and sys.stdout.isatty()
    label = f"consuming {' '.join(reading.wanted.topics)}"
    with progress(label, reading.total, hidden=on_screen) as show:
        while not (reading.done or (limit is not None and count >= limit)):
            room = _BATCH if limit is None else min(_BATCH, limit - count)
            messages = reading.consumer.consume(room, timeout=0.1)
            for message in messages:
                if message.error() is not None:
                    _handle_event(reading, message)
                elif reading.takes(message):
                    out.write(write(_entry(message)))
                    count += 1
                    if reading.wanted.group is not None:
                        reading.consumer.store_offsets(message)
            if messages:
                last_record = time.monotonic()
                reading.client.answered()
            else:
                out.flush()
                reading.client.check_lost(started)
                now = time.monotonic()
                if reading.wanted.idle is not None and now - last_record > reading.wanted.idle:
                    break
                if now - max(checked, last_record) > _CHECK_S:
                    reading.client.check_exists(reading.wanted.topics)
                    checked = now
            if on_screen:
                out.flush()
            show(count, count)
    out.flush()


def _handle_event(reading: _Reading, message: Any) -> None:
    """Handle an event of librdkafka: the end of a partition, or an error."""
    error = message.error()
    if error.name() == "_PARTITION_EOF":
        if reading.wanted.exit_at_end or reading.wanted.until is not None:
            reading.finish(message.topic(), message.partition())
    elif not error.retriable() and error.name() not in ("_TRANSPORT", "_ALL_BROKERS_DOWN"):
        raise reading.client.failure(error, f"topic {message.topic()}")


def _entry(message: Any) -> record_formats.Entry:
    kind, timestamp = message.timestamp()
    return record_formats.Entry(
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
        message.partition(),
        timestamp if kind else None,
        message.topic(),
        message.offset(),
    )
