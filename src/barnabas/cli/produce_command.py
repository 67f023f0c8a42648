"""`barnabas produce`: write records from files and pipes to a topic."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from barnabas.cli import record_formats
from barnabas.cli.client_options import Client, client_options, complete_topics
from barnabas.cli.command_errors import CliError
from barnabas.cli.parameter_types import NAME
from barnabas.cli.terminal_output import counted, print_json, progress
from barnabas.cli.times import parse_time
from barnabas.cli.value_formats import ValueFormat, value_format_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from barnabas.cli.record_formats import Entry

# Records between two updates of the progress bar and checks of delivery reports.
_STRIDE = 1000
# A request of Kafka's default socket.request.max.bytes (100 MiB) has room for it.
_LARGEST_MESSAGE = 104_000_000


@click.command()
@click.argument("topic", type=NAME, shell_complete=complete_topics)
@click.argument("files", nargs=-1, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--format",
    "-f",
    "form",
    type=click.Choice(record_formats.FORMATS),
    default="value",
    show_default=True,
    help="The format of a line; with raw, a file is one record.",
)
@click.option("--key", "-k", help="The key of records without a key.")
@click.option(
    "--key-separator", default="\t", help="The text between key and value. [default: a tab]"
)
@click.option("--null", metavar="TEXT", help="A key or value equal to this text is null.")
@click.option(
    "--header", "-H", "headers", multiple=True, metavar="NAME=VALUE", help="A header; repeatable."
)
@click.option(
    "--partition", "-p", type=click.IntRange(min=0), help="The partition. [default: by key]"
)
@click.option(
    "--timestamp", metavar="TIME", help="The time of every record: ISO 8601 or ms since 1970."
)
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
)
@click.option("--idempotent/--no-idempotent", default=None, help="[default: with --acks all]")
@click.option("--json", "as_json", is_flag=True, help="Print a summary as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Print nothing on success.")
@value_format_option(with_schema=True)
@client_options
def produce(
    client: Client,
    *,
    topic: str,
    files: tuple[Path, ...],
    form: str,
    key: str | None,
    key_separator: str,
    null: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    timestamp: str | None,
    acks: str,
    compression: str,
    idempotent: bool | None,
    as_json: bool,
    quiet: bool,
    value_format: ValueFormat,
) -> None:
    """Write records to TOPIC, one for each line of FILES or of standard input (-)."""
    read = record_formats.reader(
        form, _unescaped(key_separator), null, key.encode() if key is not None else None
    )
    if idempotent and acks != "all":
        raise click.UsageError("--idempotent needs --acks all.")
    _check_topic(client, topic, partition)
    producer = client.producer(
        acks=acks,
        compression_type=compression,
        enable_idempotence=acks == "all" if idempotent is None else idempotent,
        linger_ms=5,
        queue_buffering_max_messages=100_000,
        # The topic's max.message.bytes decides, not librdkafka's own limit of 1,000,000 bytes.
        message_max_bytes=_LARGEST_MESSAGE,
        message_timeout_ms=max(1000, int(client.timeout * 1000)),
    )
    sending = _Sending(
        client,
        producer,
        topic,
        partition=partition,
        timestamp=_time_option(timestamp),
        headers=_header_options(headers),
    )
    sources = _Sources(files or (Path("-"),), whole=form == "raw")
    encode = value_format.encoder(topic)
    _send(sources, lambda line: encode(_sendable(read(line))), sending)
    summary = sending.finish()
    if as_json:
        print_json(summary)
    elif not quiet:
        click.echo(
            f"{counted(summary['records'], 'record')}, "
            f"{counted(summary['bytes'], 'byte')} to {topic}",
            err=True,
        )


def _time_option(text: str | None) -> int | None:
    if not text:
        return None
    timestamp = parse_time(text)
    try:
        _check_timestamp(timestamp)
    except ValueError as error:
        raise click.UsageError(f"Invalid value {text!r} for --timestamp: {error}.") from None
    return timestamp


def _sendable(entry: Entry) -> Entry:
    """Return the record. Raises ValueError when librdkafka would write another one."""
    _check_timestamp(entry.timestamp)
    return entry


def _check_timestamp(timestamp: int | None) -> None:
    if timestamp == 0:
        raise ValueError(
            "timestamp 0 cannot be written, librdkafka would write the present time; give another "
            "one (1 is the next), or none for the present time"
        )


def _unescaped(separator: str) -> str:
    if not separator:
        raise click.UsageError("--key-separator must not be empty.")
    return separator.replace("\\t", "\t")


def _header_options(texts: tuple[str, ...]) -> list[record_formats.Header]:
    pairs = [text.partition("=") for text in texts]
    for text, (name, equals, _) in zip(texts, pairs, strict=True):
        if not (name and equals):
            raise click.UsageError(f"Invalid value {text!r} for --header: it must be NAME=VALUE.")
    return [(name, value.encode()) for name, _, value in pairs]


def _check_topic(client: Client, topic: str, partition: int | None) -> None:
    """Raise CliError when the topic or partition does not exist."""
    known = client.partitions(topic)
    if partition is not None and partition not in known:
        raise CliError(
            f"topic {topic} has no partition {partition}; its partitions are 0 to {len(known) - 1}"
        )


def _send(sources: _Sources, read: Callable[[bytes], Entry], sending: _Sending) -> None:
    with progress(f"producing to {sending.topic}", sources.size) as show:
        for number, (place, line) in enumerate(sources, 1):
            try:
                entry = read(line)
            except ValueError as error:
                raise CliError(
                    f"{place()}: {error}; sent before it: {counted(sending.records, 'record')}"
                ) from None
            sending.send(entry)
            if number % _STRIDE == 0 or len(line) > 1 << 16:
                show(sources.done, sending.records)
                sending.check()
        show(sources.done, sending.records)


class _Sources:
    """The lines of several files in order, or whole files."""

    def __init__(self, paths: tuple[Path, ...], *, whole: bool) -> None:
        self.paths = paths
        self.whole = whole
        self.done = 0
        for path in paths:
            if str(path) != "-" and not os.access(path, os.R_OK):
                reason = "may not be read" if path.exists() else "does not exist"
                raise CliError(f"file {path} {reason}")
        known = [path.stat().st_size for path in paths if path.is_file()]
        self.size = sum(known) if len(known) == len(paths) else None

    def __iter__(self) -> Iterator[tuple[Callable[[], str], bytes]]:
        for path in self.paths:
            if str(path) == "-":
                yield from self._lines("standard input", sys.stdin.buffer)
            else:
                with path.open("rb") as file:
                    yield from self._lines(str(path), file)

    def _lines(self, name: str, file: BinaryIO) -> Iterator[tuple[Callable[[], str], bytes]]:
        if self.whole:
            content = file.read()
            self.done += len(content)
            yield lambda: name, content
            return
        number = 0

        def place() -> str:
            return f"{name} line {number}"

        for number, line in enumerate(file, 1):  # noqa: B007  (place() tells it)
            self.done += len(line)
            ended = line[:-1] if line.endswith(b"\n") else line
            yield place, ended.removesuffix(b"\r")


class _Sending:
    """Hands records to librdkafka and counts the delivered ones."""

    def __init__(
        self,
        client: Client,
        producer: Any,
        topic: str,
        *,
        partition: int | None,
        timestamp: int | None,
        headers: list[record_formats.Header],
    ) -> None:
        self.client = client
        self.producer = producer
        self.topic = topic
        self.partition = partition
        self.timestamp = timestamp
        self.headers = headers
        self.records = 0
        self.bytes = 0
        self._failed: Any = None
        self._failures = 0
        self._started = time.monotonic()

    def send(self, entry: Entry) -> None:
        """Queue one record; wait while the queue is full."""
        options: dict[str, Any] = {}
        timestamp = entry.timestamp if entry.timestamp is not None else self.timestamp
        partition = entry.partition if self.partition is None else self.partition
        if timestamp is not None:
            options["timestamp"] = timestamp
        if partition is not None:
            options["partition"] = partition
        if entry.headers or self.headers:
            options["headers"] = [*entry.headers, *self.headers]
        while True:
            try:
                self.producer.produce(
                    self.topic, entry.value, entry.key, on_delivery=self._report, **options
                )
                break
            except BufferError:
                self.producer.poll(0.1)
                self.check()
            except Exception as error:
                from confluent_kafka import KafkaException

                if not isinstance(error, KafkaException):
                    raise
                raise self.client.failure(error.args[0], f"topic {self.topic}") from None

    def _report(self, error: Any, message: Any) -> None:
        if error is None:
            self.records += 1
            self.bytes += len(message)
            return
        self._failures += 1
        if self._failed is None:
            self._failed = error

    def check(self) -> None:
        """Handle delivery reports. Raises CliError at the first failure."""
        self.producer.poll(0)
        if self._failed is not None:
            raise self._failure()

    def finish(self) -> dict[str, Any]:
        """Wait for the remaining records and return a summary."""
        while self.producer.flush(0.2):
            self.check()
        self.check()
        seconds = time.monotonic() - self._started
        return {
            "topic": self.topic,
            "records": self.records,
            "bytes": self.bytes,
            "seconds": round(seconds, 3),
        }

    def _failure(self) -> CliError:
        error, acknowledged = self._failed, f"acknowledged: {counted(self.records, 'record')}"
        if error.name() != "_MSG_TIMED_OUT":
            failure = self.client.failure(error, f"topic {self.topic}")
            return CliError(f"{failure.message}; {acknowledged}")
        try:
            self.client.check_exists([self.topic])
        except CliError as gone:
            return CliError(f"{gone.message}; {acknowledged}")
        return CliError(
            f"topic {self.topic}: no acknowledgement within {self.client.timeout:g} s; "
            f"{acknowledged} (raise --timeout for more time)"
        )
