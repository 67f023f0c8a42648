"""The base of converters with a schema registry: properties, framing, subjects, kept schemas.

A value is a zero byte, the id of its schema in four bytes, and the data. A format's converter says
how data of a registered schema is decoded, and which schema and data a value has.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Generic, TypeVar

import attrs

from barnabas.pipeline.data.connect_errors import DataError, RetriableError
from barnabas.pipeline.data.connect_schema import Schema, Type, check_value, type_of_value
from barnabas.pipeline.data.converters.converter_base import (
    CONVERTER_TYPE,
    BaseConverter,
    SchemaAndValue,
)
from barnabas.pipeline.data.registered_schemas import RegisteredSchema, SchemaLookup
from barnabas.pipeline.definitions.config_def import NO_DEFAULT, ConfigDef, ConfigKey, Importance
from barnabas.pipeline.definitions.config_types import (
    ConfigType,
    ConfigValueError,
    ParsedValue,
    Password,
)
from barnabas.pipeline.definitions.config_validators import InRange, OneOf

PREFIX_BYTES: Final = 5

_MEDIUM, _LOW = Importance.MEDIUM, Importance.LOW
_STRATEGIES: Final = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
_STRATEGY_PACKAGE: Final = "io.confluent.kafka.serializers.subject."

K = TypeVar("K")
V = TypeVar("V")


def registry_key(
    name: str,
    kind: ConfigType,
    default: Any,
    importance: Importance,
    documentation: str,
    validator: Any = None,
) -> ConfigKey:
    """Return a property of a converter with a registry."""
    return ConfigKey(
        name, kind, default, importance, documentation, validator=validator, display_name=name
    )


@attrs.frozen
class Refused:
    """Accepts only the value that changes nothing, for properties that have no effect here."""

    neutral: str = ""

    def __call__(self, name: str, value: ParsedValue) -> None:
        """Raise ConfigValueError for any other value."""
        if value is not None and str(value).lower() != self.neutral:
            reason = "this converter does not support the property; remove it"
            raise ConfigValueError.of(name, value, reason)


def refused_key(name: str, neutral: str = "") -> ConfigKey:
    """Return a property of Confluent's converter that this one refuses."""
    accepted = f", only {neutral} is accepted" if neutral else ""
    text = f"Not supported{accepted}."
    return registry_key(name, ConfigType.STRING, None, _LOW, text, Refused(neutral))


def _strategy(name: str, value: ParsedValue) -> None:
    OneOf(_STRATEGIES)(name, str(value).removeprefix(_STRATEGY_PACKAGE))


REGISTRY_KEYS: Final = (
    CONVERTER_TYPE,
    registry_key(
        "schema.registry.url",
        ConfigType.STRING,
        NO_DEFAULT,
        Importance.HIGH,
        "The addresses of the schema registry, separated by commas.",
    ),
    registry_key(
        "basic.auth.credentials.source",
        ConfigType.STRING,
        "URL",
        _MEDIUM,
        "USER_INFO takes user and password from basic.auth.user.info, URL from the address.",
        OneOf(("URL", "USER_INFO")),
    ),
    registry_key(
        "basic.auth.user.info",
        ConfigType.PASSWORD,
        None,
        _MEDIUM,
        "User and password for the registry, as user:password.",
    ),
    registry_key(
        "auto.register.schemas",
        ConfigType.BOOLEAN,
        True,
        _MEDIUM,
        "True when unknown schemas are registered.",
    ),
    registry_key(
        "normalize.schemas",
        ConfigType.BOOLEAN,
        False,
        _MEDIUM,
        "True when the registry brings schemas into their normal form.",
    ),
    *(
        registry_key(
            f"{side}.subject.name.strategy",
            ConfigType.STRING,
            "TopicNameStrategy",
            _MEDIUM,
            f"The subject of {side}s: TopicNameStrategy (TOPIC-{side}), RecordNameStrategy (the "
            "name of the schema) or TopicRecordNameStrategy (both).",
            _strategy,
        )
        for side in ("key", "value")
    ),
    refused_key("use.latest.version", "false"),
    refused_key("use.schema.id", "-1"),
    *(
        refused_key(name)
        for name in (
            "use.latest.with.metadata",
            "bearer.auth.credentials.source",
            "bearer.auth.token",
            "context.name.strategy",
            "proxy.host",
            "rule.executors",
            "schema.registry.ssl.truststore.location",
            "schema.registry.ssl.keystore.location",
        )
    ),
)


def cache_key(name: str) -> ConfigKey:
    """Return the property with the number of schemas that a converter keeps."""
    text = "The number of schemas that the converter keeps."
    return registry_key(name, ConfigType.INT, 1000, _LOW, text, InRange(1))


class SchemaCache(Generic[K, V]):
    """Keeps what was computed for a number of schemas; the oldest goes first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._found: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """Return what is kept for a key, or None."""
        return self._found.get(key)

    def put(self, key: K, value: V) -> V:
        """Keep a value, and return it."""
        if len(self._found) >= self._size:
            del self._found[next(iter(self._found))]
        self._found[key] = value
        return value


@attrs.frozen
class Decoding:
    """A registered schema: the function from data to a schema and a value."""

    decode: Callable[[bytes], SchemaAndValue]


@attrs.frozen
class Encoding:
    """A schema to register, its name, and the function from checked values to data."""

    registered: RegisteredSchema
    name: str | None
    encode: Callable[[Any], bytes]


class RegistryConverter(BaseConverter):
    """Reads and writes values of one format; a subclass knows the format."""

    schema_type: ClassVar[str]
    format_name: ClassVar[str]
    """The name of the format in errors."""
    cache_property: ClassVar[str] = ""
    open_lookup: Callable[[Mapping[str, str]], SchemaLookup]
    """Opens the registry of a configuration; the one who makes a converter sets it."""

    @abstractmethod
    def decoding_of(self, registered: RegisteredSchema) -> Decoding:
        """Return how data of a registered schema is decoded. Raises DataError."""

    @abstractmethod
    def encoding_of(self, schema: Schema) -> Encoding:
        """Return how values of a schema are encoded. Raises DataError."""

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties; the registry is called with the first value."""
        self._side = str(values["converter.type"])
        self._registers = values["auto.register.schemas"] is True
        strategy = values.get(f"{self._side}.subject.name.strategy", _STRATEGIES[0])
        self._strategy = str(strategy).removeprefix(_STRATEGY_PACKAGE)
        user_info = values["basic.auth.user.info"]
        self._registry = self.open_lookup(
            {
                "schema.registry.url": str(values["schema.registry.url"]),
                "basic.auth.user.info": user_info.value if isinstance(user_info, Password) else "",
                "normalize.schemas": "true" if values["normalize.schemas"] is True else "",
            }
        )
        size = values.get(self.cache_property, 1000)
        kept = size if isinstance(size, int) else 1000
        self._decodings: SchemaCache[int, Decoding] = SchemaCache(kept)
        self._encodings: SchemaCache[tuple[str, Schema], tuple[bytes, Encoding]] = SchemaCache(kept)

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the schema and the value of data. Raises DataError, RetriableError."""
        if data is None:
            return None, None
        failure = f"Failed to deserialize data for topic {topic} to {self.format_name}: "
        if len(data) < PREFIX_BYTES or data[0] != 0:
            raise DataError(f"{failure}Unknown magic byte!")
        schema_id = int.from_bytes(data[1:PREFIX_BYTES], "big")
        try:
            decoding = self._decodings.get(schema_id) or self._decodings.put(
                schema_id, self._decoding(schema_id)
            )
            return decoding.decode(data[PREFIX_BYTES:])
        except RetriableError:
            raise
        except Exception as error:  # libraries of formats have no common type of their errors
            raise DataError(f"{failure}schema {schema_id}: {_reason(error)}") from error

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the data of a value. Raises DataError, RetriableError."""
        if value is None and (schema is None or schema.optional):
            return None
        known = self._inferred(value) if schema is None else schema
        check_value(known, value)
        try:
            prefix, encoding = self._encoding(topic, known)
            return prefix + encoding.encode(value)
        except RetriableError:
            raise
        except Exception as error:  # libraries of formats have no common type of their errors
            failure = f"Failed to serialize {self.format_name} data from topic {topic} : "
            raise DataError(failure + _reason(error)) from error

    def _decoding(self, schema_id: int) -> Decoding:
        registered = self._registry.schema_of(schema_id)
        if registered.schema_type != self.schema_type:
            raise DataError(f"the schema is of type {registered.schema_type}")
        return self.decoding_of(registered)

    def _encoding(self, topic: str, schema: Schema) -> tuple[bytes, Encoding]:
        found = self._encodings.get((topic, schema))
        if found is None:
            encoding = self.encoding_of(schema)
            subject = self._subject(topic, encoding.name)
            registered = encoding.registered
            schema_id = self._registry.id_of(subject, registered, registers=self._registers)
            prefix = b"\x00" + schema_id.to_bytes(4, "big")
            found = self._encodings.put((topic, schema), (prefix, encoding))
        return found

    def _subject(self, topic: str, name: str | None) -> str:
        if self._strategy == "TopicNameStrategy":
            return f"{topic}-{self._side}"
        if name is None:
            raise DataError(f"{self._strategy} needs a schema with a name")
        return name if self._strategy == "RecordNameStrategy" else f"{topic}-{name}"

    def _inferred(self, value: Any) -> Schema:
        """Return the schema of a primitive value. Raises DataError for any other."""
        kind = type_of_value(value)
        if kind is None or kind in (Type.ARRAY, Type.MAP, Type.STRUCT):
            name = self.java_class.rpartition(".")[2]
            raise DataError(f"{name} needs a schema for values other than primitive ones")
        return Schema(kind)


def _reason(error: Exception) -> str:
    """Return a library's error as text; some of them have only a type."""
    return str(error) or type(error).__name__


def registry_definition(*keys: ConfigKey) -> ConfigDef:
    """Return the properties of a converter with a registry: the common ones, and its own."""
    return ConfigDef([*REGISTRY_KEYS, *keys])
