"""Checking a new schema: against earlier versions, and against values that a topic holds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.client_options import Client
from barnabas.cli.command_errors import CliError
from barnabas.cli.registry_requests import RegistryClient, RegistryRefusalError
from barnabas.cli.terminal_output import print_json, print_table

if TYPE_CHECKING:
    from barnabas.registry.payloads.payload_codecs import PayloadCodec

_INCOMPATIBLE = 1
_FAILURES_SHOWN = 10
_SILENCE_S = 5.0


def check_schema(
    registry: RegistryClient,
    subject: str,
    body: dict[str, Any],
    version: str | None,
    *,
    as_json: bool,
) -> int:
    """Print whether a schema may follow a subject's versions; 1 when it may not."""
    from urllib.parse import quote

    path = f"/compatibility/subjects/{quote(subject, safe='')}/versions"
    path = path if version is None else f"{path}/{version}"
    found = registry.ask("POST", path, body, verbose=True)
    if as_json:
        print_json(found)
    elif found["is_compatible"]:
        click.echo(f"{subject}: compatible")
    else:
        _print_reasons(subject, found)
    return 0 if found["is_compatible"] else _INCOMPATIBLE


def _print_reasons(subject: str, found: dict[str, Any]) -> None:
    click.echo(f"{subject}: not compatible")
    details = found.get("details", [])
    if details:
        print_table(
            ("RULE", "PATH", "OLD", "NEW", "HINT"),
            [
                tuple(each.get(name) for name in ("rule", "path", "old", "new", "hint"))
                for each in details
            ],
        )
        return
    for message in found.get("messages", []):
        click.echo(f"  {message}")


def check_topic(
    registry: RegistryClient,
    body: dict[str, Any],
    topic: str,
    last: int,
    bootstrap: str,
    *,
    as_json: bool,
) -> int:
    """Read the last values of a topic with a schema; 1 when one cannot be read."""
    client = Client(bootstrap, {}, 15.0)
    reader = registry.codec(_codec_form(registry, body))
    check = _TopicCheck(registry, reader)
    for message in _last_messages(client, topic, last):
        check.take(message)
    summary = {
        "topic": topic,
        "read": check.read,
        "unframed": check.unframed,
        "failures": check.failures,
    }
    if as_json:
        print_json(summary)
        return _INCOMPATIBLE if check.failures else 0
    click.echo(
        f"{topic}: {check.read:,} of {check.total:,} values can be read"
        + (f", {check.unframed:,} name no schema" if check.unframed else "")
    )
    if check.failures:
        print_table(
            ("PARTITION", "OFFSET", "WRITTEN WITH ID", "REASON"),
            [
                (each["partition"], each["offset"], each["id"], each["reason"])
                for each in check.failures[:_FAILURES_SHOWN]
            ],
        )
    return _INCOMPATIBLE if check.failures else 0


def _codec_form(registry: RegistryClient, body: dict[str, Any]) -> dict[str, Any]:
    """Return a schema in the form that codecs take: Protobuf as a serialized descriptor."""
    if body["schemaType"] != "PROTOBUF":
        return body
    from barnabas.registry.formats import ResolvedReference, SchemaError, format_of

    texts = registry.reference_texts(body, serialized=False)
    references = [ResolvedReference(name, "", 1, text) for name, text in texts.items()]
    try:
        parsed = format_of("PROTOBUF").parse(body["schema"], references)
    except SchemaError as error:
        raise CliError(str(error)) from None
    return {**body, "schema": parsed.formatted("serialized")}


class _TopicCheck:
    """Counts values that a schema can read, and collects those that it cannot."""

    def __init__(self, registry: RegistryClient, reader: PayloadCodec) -> None:
        self._registry = registry
        self._reader = reader
        self._writers: dict[int | str, PayloadCodec | str] = {}
        self.total = self.read = self.unframed = 0
        self.failures: list[dict[str, Any]] = []

    def take(self, message: Any) -> None:
        """Read one value; null is left out."""
        from barnabas.registry.payloads.payload_codecs import PayloadError
        from barnabas.registry.payloads.wire_framing import FramingError, split_payload

        if message.value() is None:
            return
        self.total += 1
        try:
            found = split_payload(message.value(), message.headers() or ())
        except FramingError:
            self.unframed += 1
            return
        name = found.guid or found.schema_id or 0
        writer = self._writer(name)
        try:
            if isinstance(writer, str):
                raise PayloadError(writer)
            self._reader.decode_written(found.data, writer)
        except PayloadError as error:
            self.failures.append(
                {
                    "partition": message.partition(),
                    "offset": message.offset(),
                    "id": name,
                    "reason": str(error),
                }
            )
        else:
            self.read += 1

    def _writer(self, name: int | str) -> PayloadCodec | str:
        """Return the codec of the schema that a value names, or why there is none."""
        if name not in self._writers:
            kind = "ids" if isinstance(name, int) else "guids"
            try:
                found = self._registry.ask("GET", f"/schemas/{kind}/{name}", format="serialized")
                self._writers[name] = self._registry.codec(found)
            except RegistryRefusalError as refusal:
                self._writers[name] = refusal.message
        return self._writers[name]


def _last_messages(client: Client, topic: str, last: int) -> list[Any]:
    """Return the last messages of a topic, as many from each partition as it has of them."""
    from confluent_kafka import KafkaException, TopicPartition

    partitions = client.partitions(topic)
    consumer = client.consumer(
        group_id="barnabas-cli", enable_auto_commit=False, auto_offset_reset="earliest"
    )
    try:
        places: list[Any] = []
        ends: dict[int, int] = {}
        for number in partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, number))
            start = max(low, high - -(-last // len(partitions)))
            if start < high:
                places.append(TopicPartition(topic, number, start))
                ends[number] = high
        consumer.assign(places)
        return _read_until(consumer, ends)
    except KafkaException as error:
        raise client.failure(error.args[0], f"topic {topic}") from None
    finally:
        consumer.close()


def _read_until(consumer: Any, ends: dict[int, int]) -> list[Any]:
    messages: list[Any] = []
    heard = time.monotonic()
    while ends and time.monotonic() - heard < _SILENCE_S:
        for message in consumer.consume(500, timeout=0.2):
            if message.error() is not None:
                continue
            heard = time.monotonic()
            messages.append(message)
            if message.offset() >= ends.get(message.partition(), 0) - 1:
                ends.pop(message.partition(), None)
    return messages
