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
    registry_options,
    schema_body,
    subject_path,
    version_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.cli.record_formats import Entry
    from barnabas.registry.payloads.payload_codecs import PayloadCodec


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

    def decoder(self) -> Callable[[Entry], Entry]:
        """Return a function that decodes the value of a record to JSON, or leaves it as it is.

        The schema is the one that each value names.
        """
        if self.kind is None:
            return lambda entry: entry
        from barnabas.registry.payloads.payload_codecs import PayloadError
        from barnabas.registry.payloads.wire_framing import FramingError, split_payload

        codecs: dict[int | str, PayloadCodec] = {}

        def decode(entry: Entry) -> Entry:
            if entry.value is None:
                return entry
            try:
                found = split_payload(entry.value, entry.headers)
                name = found.guid or found.schema_id or 0
                if name not in codecs:
                    codecs[name] = self._codec(name)
                value = codecs[name].decode(found.data)
            except (FramingError, PayloadError) as error:
                place = f"{entry.topic}-{entry.partition} offset {entry.offset}"
                raise CliError(f"{place}: {error}") from None
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            return entry._replace(value=text.encode())

        return decode

    def _codec(self, name: int | str) -> PayloadCodec:
        kind = "ids" if isinstance(name, int) else "guids"
        return self.registry.codec(
            self.registry.ask("GET", f"/schemas/{kind}/{name}", format="serialized")
        )


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
