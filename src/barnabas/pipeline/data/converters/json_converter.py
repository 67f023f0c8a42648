"""JSON with and without schemas.

With schemas a value is `{"schema": .., "payload": ..}`. Its schema is nearly always that of the
value before, byte for byte, so the converter compares the beginning of the value with beginnings
that it has seen and parses the payload alone.
"""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, cast

import attrs

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import Schema
from barnabas.pipeline.data.converters.converter_base import (
    CONVERTER_TYPE,
    BaseConverter,
    SchemaAndValue,
)
from barnabas.pipeline.data.converters.json_readers import (
    Reader,
    needs_exact_decimals,
    reader_of,
)
from barnabas.pipeline.data.converters.json_schemas import schema_of, schema_text
from barnabas.pipeline.data.converters.json_writers import (
    JsonStyle,
    Writer,
    float_text,
    writer_of,
)
from barnabas.pipeline.data.java_values import java_class_name
from barnabas.pipeline.definitions.config_def import ConfigDef, ConfigKey, Importance, Width
from barnabas.pipeline.definitions.config_types import ConfigType, ParsedValue
from barnabas.pipeline.definitions.config_validators import OneOf

_BEGINNINGS_MAX: Final = 8
_ENVELOPE_START: Final = '{"schema":'
_PAYLOAD_START: Final = ',"payload":'
_SCHEMA: Final = re.compile(r'\{\s*"schema"\s*:\s*')
_PAYLOAD: Final = re.compile(r'\s*,\s*"payload"\s*:')
_LEADING_ZEROS: Final = re.compile(r'("(?:[^"\\]|\\.)*")|(?<![0-9.eE+-])(-?)0+(?=[0-9])', re.S)
_NO_ENVELOPE: Final = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain '
    "additional fields. If you are trying to deserialize plain JSON data, set schemas.enable=false "
    "in your converter configuration."
)
_UNREADABLE: Final = "Converting byte[] to Kafka Connect data failed due to serialization error: "
_UNWRITABLE: Final = "Converting Kafka Connect data to byte[] failed due to serialization error: "


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _default(value: Any) -> Any:
    """Return what JSON can hold in place of a value. Raises DataError."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    raise DataError(
        f"Java class class {java_class_name(value)} does not have corresponding schema type."
    )


def _exact(text: str) -> Decimal:
    """Return a fraction; Java's BigDecimal has no negative zero."""
    return Decimal(text) or Decimal(text).copy_abs()


def _rounded(text: str) -> float:
    """Return a fraction as a double; a text of zero digits is never negative, as in `_exact`."""
    return float(text) or float(_exact(text))


_PLAIN: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=_rounded)
_EXACT: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=_exact)
_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_default
)


def schemaless_text(value: Any) -> str:
    """Return a value without a schema as JSON. Raises DataError."""
    try:
        return _ENCODER.encode(value)
    except ValueError:
        return _ENCODER.encode(_finite(value))


def _finite(value: Any) -> Any:
    """Return a value with texts for NaN and infinities."""
    if isinstance(value, float):
        shown = float_text(value)
        return shown.strip('"') if shown.startswith('"') else value
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [_finite(each) for each in cast("list[Any]", value)]
    return value


def _parsed(text: str, decoder: json.JSONDecoder) -> Any:
    """Return the first JSON value of a text, None when it is empty; leading zeros are accepted."""
    start = len(text) - len(text.lstrip(" \t\r\n"))
    if start == len(text):
        return None
    try:
        return decoder.decode(text)
    except ValueError:
        repaired = _LEADING_ZEROS.sub(lambda found: found[1] or found[2], text)
        return decoder.raw_decode(repaired, start)[0]


@attrs.frozen
class _Readable:
    """A schema, its reader, and the decoder of JSON that its values need."""

    schema: Schema | None
    read: Reader
    decoder: json.JSONDecoder


class JsonConverter(BaseConverter):
    """Reads and writes JSON."""

    java_class = "org.apache.kafka.connect.json.JsonConverter"
    definition = ConfigDef(
        [
            CONVERTER_TYPE,
            ConfigKey(
                "schemas.enable",
                ConfigType.BOOLEAN,
                True,
                Importance.HIGH,
                "True when each key and value carries its schema.",
                group="Schemas",
                order_in_group=0,
                width=Width.MEDIUM,
                display_name="Enable Schemas",
            ),
            ConfigKey(
                "schemas.cache.size",
                ConfigType.INT,
                1000,
                Importance.HIGH,
                "The number of schemas that the converter keeps.",
                group="Schemas",
                order_in_group=1,
                width=Width.MEDIUM,
                display_name="Schema Cache Size",
            ),
            ConfigKey(
                "schema.content",
                ConfigType.STRING,
                None,
                Importance.HIGH,
                "A schema for all records that are read, in place of schemas in the records. It "
                "applies to sinks, when schemas.enable is true.",
                group="Schemas",
                order_in_group=2,
                width=Width.MEDIUM,
                display_name="Schema Content",
            ),
            ConfigKey(
                "decimal.format",
                ConfigType.STRING,
                "BASE64",
                Importance.LOW,
                "The form of decimals: BASE64 of their bytes, or NUMERIC.",
                validator=OneOf(("BASE64", "NUMERIC"), ignores_case=True),
                group="Serialization",
                order_in_group=0,
                width=Width.MEDIUM,
                display_name="Decimal Format",
            ),
            ConfigKey(
                "replace.null.with.default",
                ConfigType.BOOLEAN,
                True,
                Importance.LOW,
                "True when null is replaced by the default of its field.",
                group="Serialization",
                order_in_group=1,
                width=Width.MEDIUM,
                display_name="Replace null with default",
            ),
        ]
    )

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties. Raises DataError when the configured schema is not valid."""
        self._has_schemas = values["schemas.enable"] is True
        self._cache_size = cast(int, values["schemas.cache.size"])
        self._style = JsonStyle(
            replaces_null=values["replace.null.with.default"] is True,
            has_numeric_decimals=str(values["decimal.format"]).upper() == "NUMERIC",
        )
        self._beginnings: dict[bytes, _Readable] = {}
        self._readable: dict[str, _Readable] = {}
        self._writers: dict[Schema | None, tuple[str, Writer]] = {}
        self._fixed: _Readable | None = None
        if content := values["schema.content"]:
            try:
                self._fixed = self._readable_of(_parsed(str(content), _PLAIN))
            except ValueError as error:
                raise DataError(
                    "Failed to parse schema in converter config due to serialization error: "
                ) from error

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the schema and the value of JSON. Raises DataError."""
        if data is None:
            return None, None
        try:
            if not self._has_schemas:
                return None, _without_schema(data)
            if self._fixed is not None:
                return self._payload(self._fixed, data.decode())
            return self._with_schema(data)
        except (ValueError, RecursionError) as error:
            raise DataError(_UNREADABLE) from error

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the JSON of a value. Raises DataError."""
        if schema is None and value is None:
            return None
        try:
            if schema is None and not self._has_schemas:
                return schemaless_text(value).encode()
            prefix, write = self._writer(schema)
            if self._has_schemas:
                return f"{prefix}{write(value)}}}".encode()
            return write(value).encode()
        except (ValueError, RecursionError) as error:
            raise DataError(_UNWRITABLE) from error

    def _with_schema(self, data: bytes) -> SchemaAndValue:
        for beginning, readable in self._beginnings.items():
            if data.startswith(beginning) and data.endswith(b"}"):
                try:
                    payload = readable.decoder.decode(data[len(beginning) : -1].decode())
                except ValueError:
                    break
                return readable.schema, readable.read(payload)
        text = data.decode("utf-8-sig")
        if start := _SCHEMA.match(text):
            self._learn(text, start.end())
        envelope = _parsed(text, _PLAIN)
        if not isinstance(envelope, dict) or envelope.keys() != {"schema", "payload"}:
            raise DataError(_NO_ENVELOPE)
        members = cast("dict[str, Any]", envelope)
        readable = self._readable_of(members["schema"])
        if readable.decoder is _EXACT:
            members = _parsed(text, _EXACT)
        return readable.schema, readable.read(members["payload"])

    def _learn(self, text: str, start: int) -> None:
        """Remember the beginning of a value, whose schema is at `start`, up to its payload."""
        node, end = _PLAIN.raw_decode(text, start)
        payload = _PAYLOAD.match(text, end)
        if payload is None:
            return
        beginning = text[: payload.end()].encode()
        if len(self._beginnings) >= _BEGINNINGS_MAX:
            del self._beginnings[next(iter(self._beginnings))]
        self._beginnings[beginning] = self._readable_of(node)

    def _readable_of(self, node: Any) -> _Readable:
        """Return the reader of a schema and its JSON decoder; the same object for equal schemas."""
        key = json.dumps(node)
        found = self._readable.get(key)
        if found is None:
            replaces_null = self._style.replaces_null
            schema = schema_of(node, replaces_null=replaces_null)
            if schema is None:
                found = _Readable(None, lambda value: value, _PLAIN)
            else:
                decoder = _EXACT if needs_exact_decimals(schema) else _PLAIN
                found = _Readable(schema, reader_of(schema, replaces_null=replaces_null), decoder)
            if len(self._readable) >= self._cache_size:
                self._readable.clear()
            self._readable[key] = found
        return found

    def _payload(self, readable: _Readable, text: str) -> SchemaAndValue:
        return readable.schema, readable.read(_parsed(text, readable.decoder))

    def _writer(self, schema: Schema | None) -> tuple[str, Writer]:
        """Return the text before a payload, and the writer of payloads."""
        found = self._writers.get(schema)
        if found is None:
            prefix = f"{_ENVELOPE_START}{schema_text(schema, self._style)}{_PAYLOAD_START}"
            write = schemaless_text if schema is None else writer_of(schema, self._style)
            found = prefix, write
            if len(self._writers) >= self._cache_size:
                self._writers.clear()
            self._writers[schema] = found
        return found


def _without_schema(data: bytes) -> Any:
    text = data.decode("utf-8-sig") if data[:1] == b"\xef" else data.decode()
    try:
        return _PLAIN.decode(text)
    except ValueError:
        return _parsed(text, _PLAIN)
