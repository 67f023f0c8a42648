"""Values with a schema in `produce` and `consume`: JSON here, another encoding in Kafka."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from barnabas.cli.command_errors import CliError
from barnabas.cli.registry_requests import (
    TYPES,
    RegistryClient,
    RegistryRefusalError,
    UnusableSchemaError,
    registry_options,
    schema_body,
    subject_path,
    version_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.cli.record_formats import Entry
    from barnabas.registry.payloads.payload_codecs import PayloadCodec


_NOT_FOUND = 404
_REASONS_MAX = 20
"""Reasons reported on stderr: broken values may each have another one."""


@attrs.frozen
class ValueFormat:
    """The schema language of values, and the registry that has the schemas."""

    kind: str | None
    registry: RegistryClient
    file: Path | None = None
    message: str | None = None

    def encoder(self, topic: str) -> Callable[[Entry], Entry]:
        """Return a function that encodes the JSON value of a record, or leaves it as it is.

        The schema is that of the file, registered if need be, or the latest of the topic's.
        """
        if self.kind is None:
            return lambda entry: entry
        from barnabas.registry.payloads.payload_codecs import PayloadError
        from barnabas.registry.payloads.wire_framing import framed

        schema_id, codec = self._schema(f"{topic}-value")

        def encode(entry: Entry) -> Entry:
            if entry.value is None:
                return entry
            try:
                value = json.loads(entry.value)
                return entry._replace(value=framed(schema_id, codec.encode(value)))
            except json.JSONDecodeError as error:
                raise ValueError(f"the value is not JSON: {error}") from None
            except PayloadError as error:
                raise ValueError(str(error)) from None

        return encode

    def _schema(self, subject: str) -> tuple[int, PayloadCodec]:
        if self.file is not None:
            body = schema_body(self.file, self.kind)
            found = self.registry.ask("POST", f"{subject_path(subject)}/versions", body)
            path = f"/schemas/ids/{found['id']}"
        else:
            found = self.registry.ask("GET", version_path(subject, "latest"))
            path = version_path(subject, "latest")
        known = self.registry.ask("GET", path, format="serialized")
        if known["schemaType"] != TYPES[self.kind or ""]:
            raise CliError(
                f"the schema of {subject} is of type {known['schemaType']}, not {self.kind}"
            )
        return found["id"], self.registry.codec(known, self.message)

    def decoder(self) -> ValueDecoder | None:
        """Return what decodes values to JSON by the schemas that they name, if that is wanted."""
        return None if self.kind is None else ValueDecoder(self.registry)


class ValueDecoder:
    """Decodes values by the schemas that they name; other values stay as they are.

    A topic may hold values without schema, such as those of another producer: they must not end the
    reading of the rest. The first value of each reason is reported on stderr, and their number at
    the end.
    """

    def __init__(self, registry: RegistryClient) -> None:
        self._registry = registry
        self._codecs: dict[int | str, PayloadCodec | str] = {}
        self._reported: set[str] = set()
        self._undecoded = 0

    def decode(self, entry: Entry) -> Entry:
        """Return a record with its value as JSON, or as it is."""
        from barnabas.registry.payloads.payload_codecs import PayloadError
        from barnabas.registry.payloads.wire_framing import FramingError, split_payload

        if entry.value is None:
            return entry
        try:
            found = split_payload(entry.value, entry.headers)
            codec = self._codec(found.guid or found.schema_id or 0)
            if isinstance(codec, str):
                return self._undecodable(entry, codec)
            value = codec.decode(found.data)
        except (FramingError, PayloadError) as error:
            return self._undecodable(entry, str(error))
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return entry._replace(value=text.encode())

    def report(self) -> None:
        """Write the number of values that were not decoded to stderr, if there are any."""
        if self._undecoded:
            values = "1 value was" if self._undecoded == 1 else f"{self._undecoded} values were"
            shown = "is shown as it is" if self._undecoded == 1 else "are shown as they are"
            click.echo(f"barnabas: {values} not decoded and {shown}", err=True)

    def _undecodable(self, entry: Entry, reason: str) -> Entry:
        self._undecoded += 1
        if reason not in self._reported and len(self._reported) < _REASONS_MAX:
            self._reported.add(reason)
            place = f"{entry.topic}-{entry.partition} offset {entry.offset}"
            click.echo(f"barnabas: {place} is not decoded: {reason}", err=True)
        return entry

    def _codec(self, name: int | str) -> PayloadCodec | str:
        """Return the codec of a schema, or why there is none."""
        if name not in self._codecs:
            self._codecs[name] = self._found(name)
        return self._codecs[name]

    def _found(self, name: int | str) -> PayloadCodec | str:
        kind = "ids" if isinstance(name, int) else "guids"
        try:
            schema = self._registry.ask("GET", f"/schemas/{kind}/{name}", format="serialized")
            return self._registry.codec(schema)
        except RegistryRefusalError as error:
            if error.status != _NOT_FOUND:
                raise
            return str(error)
        except UnusableSchemaError as error:
            return str(error)


def value_format_option(*, with_schema: bool) -> Callable[..., Any]:
    """Add the argument `value_format`; `with_schema` adds the options to choose a schema."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @registry_options
        @functools.wraps(command)
        def wrapped(
            *arguments: Any,
            registry: RegistryClient,
            value_format: str | None,
            value_schema: Path | None = None,
            message: str | None = None,
            **options: Any,
        ) -> Any:
            found = ValueFormat(value_format, registry, value_schema, message)
            return command(*arguments, value_format=found, **options)

        found: Any = click.option(
            "--value-format",
            type=click.Choice(list(TYPES)),
            help="Values are JSON here, and this with a schema in Kafka.",
        )(wrapped)
        if with_schema:
            found = click.option("--message", help="The Protobuf message. [default: the first]")(
                found
            )
            found = click.option(
                "--value-schema",
                type=click.Path(dir_okay=False, path_type=Path),
                help="A schema to register. [default: the latest of TOPIC-value]",
            )(found)
        return found

    return decorate
