"""The record chain: converters and transformations of one job, applied to its records.

A chain is built in Spark's worker from the job's properties and kept there. It has three ways:

    sink_record     bytes of a topic -> data, transformed, for a sink task
    output          data of a source task -> transformed, bytes for a topic
    copied          bytes of a topic -> data, transformed -> bytes for a topic

Each returns None for a record that a transformation dropped, and raises RecordFailureError with
the stage that failed. What follows from a failure is `error_handling`'s matter.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import attrs

from barnabas.pipeline.connect.error_handling import RecordFailureError, RetryPolicy, Stage
from barnabas.pipeline.connect.plugin_api import (
    Converter,
    HeaderConverter,
    Predicate,
    Transformation,
)
from barnabas.pipeline.connect.plugin_registry import (
    PluginKind,
    PluginNotFoundError,
    PluginRegistry,
    plugin_registry,
)
from barnabas.pipeline.data.connect_errors import DataError, RetriableError
from barnabas.pipeline.data.converters.registry_base import RegistryConverter
from barnabas.pipeline.data.records import (
    ConnectRecord,
    Header,
    OutputRecord,
    RawHeaders,
    RawRecord,
    SinkRecord,
    SourceRecord,
)
from barnabas.pipeline.definitions.config_types import ConfigValueError

DEFAULT_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
DEFAULT_HEADER_CONVERTER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_NO_TIMESTAMP: Final = -1
_CHANGED: Final = object()
_HeaderBytes = Mapping[int, tuple[object, bytes | None]]
"""The value and the bytes of headers, by the identity of the header."""
_NONE_KEPT: Final[_HeaderBytes] = {}

T = TypeVar("T")


@attrs.frozen
class TransformationStage:
    """A transformation, and the predicate under which it applies."""

    transformation: Transformation
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return the transformed record, None when it is dropped."""
        if self.predicate is not None and self.predicate.test(record) is self.negate:
            return record
        return self.transformation.apply(record)


class RecordChain:
    """The converters and transformations of one job. `clock` returns seconds."""

    def __init__(
        self,
        key_converter: Converter,
        value_converter: Converter,
        header_converter: HeaderConverter,
        stages: tuple[TransformationStage, ...] = (),
        retries: RetryPolicy | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._key = key_converter
        self._value = value_converter
        self._headers = header_converter
        self._stages = tuple((stage.apply, _class_name(stage.transformation)) for stage in stages)
        self._retries = retries or RetryPolicy()
        self._clock = clock
        self._sleep = sleep

    def sink_record(self, raw: RawRecord) -> SinkRecord | None:
        """Return a record of a topic as data, transformed. Raises RecordFailureError."""
        return self._transformed_sink(self._converted(raw))

    def _converted(self, raw: RawRecord) -> SinkRecord:
        topic = raw.topic
        try:
            key_schema, key = self._key.to_connect(topic, raw.key)
        except Exception as error:
            key_schema, key = self._again(
                error, Stage.KEY_CONVERTER, self._key, lambda: self._key.to_connect(topic, raw.key)
            )
        try:
            value_schema, value = self._value.to_connect(topic, raw.value)
        except Exception as error:
            value_schema, value = self._again(
                error,
                Stage.VALUE_CONVERTER,
                self._value,
                lambda: self._value.to_connect(topic, raw.value),
            )
        headers = self._to_headers(raw) if raw.headers else ()
        timestamp_ms = _checked_timestamp(raw.timestamp_ms)
        return SinkRecord(
            topic,
            raw.partition,
            timestamp_ms,
            key_schema,
            key,
            value_schema,
            value,
            headers,
            raw.offset,
            raw.timestamp_type,
            (topic, raw.partition, raw.offset),
        )

    def _transformed_sink(self, record: SinkRecord) -> SinkRecord | None:
        transformed = self.transformed(record)
        if transformed is None or isinstance(transformed, SinkRecord):
            return transformed
        raise RecordFailureError(
            Stage.TRANSFORMATION,
            type(transformed).__name__,
            DataError("a transformation of a sink returned a record that is not a sink's"),
        )

    def output(self, record: SourceRecord) -> OutputRecord | None:
        """Return a source's record as bytes, transformed. Raises RecordFailureError."""
        transformed = self.transformed(record)
        return None if transformed is None else self._written(transformed)

    def copied(self, raw: RawRecord, target_topic: str | None = None) -> OutputRecord | None:
        """Return a record for another topic, transformed. Raises RecordFailureError.

        It goes to `target_topic` unless a transformation changed its topic. The producer chooses
        the partition by the key. Headers that no transformation replaced keep their bytes, which a
        converter may write otherwise: `007` is the number 7 to SimpleHeaderConverter.
        """
        converted = self._converted(raw)
        kept = _bytes_of(converted, raw) if raw.headers else _NONE_KEPT
        record = self._transformed_sink(converted)
        if record is None:
            return None
        output = self._written(record, kept)
        output.partition = None
        if target_topic is not None and output.topic == raw.topic:
            output.topic = target_topic
        return output

    def transformed(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return a record after all transformations. Raises RecordFailureError."""
        current = record
        for apply, class_name in self._stages:
            try:
                changed = apply(current)
            except Exception as error:
                previous = current
                changed = self._again(
                    error,
                    Stage.TRANSFORMATION,
                    class_name,
                    lambda: apply(previous),  # noqa: B023
                )
            if changed is None:
                return None
            current = changed
        return current

    def _written(self, record: ConnectRecord, kept: _HeaderBytes = _NONE_KEPT) -> OutputRecord:
        """Return a record as bytes; `kept` has those of headers that may be unchanged."""
        topic = record.topic
        headers = self._from_headers(record, kept) if record.headers else ()
        try:
            key = self._key.from_connect(topic, record.key_schema, record.key)
        except Exception as error:
            key = self._again(
                error,
                Stage.KEY_CONVERTER,
                self._key,
                lambda: self._key.from_connect(topic, record.key_schema, record.key),
            )
        try:
            value = self._value.from_connect(topic, record.value_schema, record.value)
        except Exception as error:
            value = self._again(
                error,
                Stage.VALUE_CONVERTER,
                self._value,
                lambda: self._value.from_connect(topic, record.value_schema, record.value),
            )
        timestamp_ms = _checked_timestamp(record.timestamp_ms)
        return OutputRecord(topic, record.partition, timestamp_ms, key, value, headers)

    def _to_headers(self, raw: RawRecord) -> tuple[Header, ...]:
        def convert() -> tuple[Header, ...]:
            read = self._headers.to_connect_header
            return tuple(Header(name, *read(raw.topic, name, data)) for name, data in raw.headers)

        return self._run(Stage.HEADER_CONVERTER, self._headers, convert)

    def _from_headers(self, record: ConnectRecord, kept: _HeaderBytes) -> RawHeaders:
        write = self._headers.from_connect_header

        def written(header: Header) -> bytes | None:
            value, data = kept.get(id(header), (_CHANGED, None))
            if value is header.value:
                return data
            return write(record.topic, header.name, header.schema, header.value)

        def convert() -> RawHeaders:
            return tuple((each.name, written(each)) for each in record.headers)

        return self._run(Stage.HEADER_CONVERTER, self._headers, convert)

    def _run(self, stage: Stage, plugin: object, operation: Callable[[], T]) -> T:
        try:
            return operation()
        except Exception as error:
            return self._again(error, stage, plugin, operation)

    def _again(
        self, error: Exception, stage: Stage, plugin: object, operation: Callable[[], T]
    ) -> T:
        """Return the result of a later attempt if the error is retriable.

        Raises RecordFailureError when it is not, or when the time for retries is over.
        """
        started = self._clock()
        attempt = 1
        while isinstance(error, RetriableError):
            pause_ms = self._retries.pause_ms(attempt, (self._clock() - started) * 1000)
            if pause_ms is None:
                break
            self._sleep(pause_ms / 1000)
            attempt += 1
            try:
                return operation()
            except Exception as failed:
                error = failed
        class_name = plugin if isinstance(plugin, str) else _class_name(plugin)
        raise RecordFailureError(stage, class_name, error)


def _bytes_of(converted: SinkRecord, raw: RawRecord) -> _HeaderBytes:
    pairs = zip(converted.headers, raw.headers, strict=True)
    return {id(header): (header.value, data) for header, (_, data) in pairs}


def _checked_timestamp(timestamp_ms: int | None) -> int | None:
    if timestamp_ms is None or timestamp_ms >= 0:
        return timestamp_ms
    if timestamp_ms == _NO_TIMESTAMP:
        return None
    raise RecordFailureError(
        Stage.KAFKA_CONSUME,
        "org.apache.kafka.connect.data.Timestamp",
        DataError(f"Invalid record timestamp {timestamp_ms}"),
    )


def _class_name(plugin: object) -> str:
    name: object = getattr(plugin, "java_class", None)
    kind = type(plugin)
    return name if isinstance(name, str) else f"{kind.__module__}.{kind.__qualname__}"


def build_record_chain(
    props: Mapping[str, str],
    registry: PluginRegistry | None = None,
    retries: RetryPolicy | None = None,
) -> RecordChain:
    """Return the chain of a job's properties. Raises ConfigValueError."""
    builder = _ChainBuilder(props, registry or plugin_registry())
    key: Converter = builder.converter("key")
    value: Converter = builder.converter("value")
    return RecordChain(key, value, builder.header_converter(), builder.stages(), retries)


def build_converter(props: Mapping[str, str], side: str, registry: PluginRegistry) -> Any:
    """Return the converter of a job's keys or values (`key`, `value`). Raises ConfigValueError."""
    return _ChainBuilder(props, registry).converter(side)


def _give_registry(converter: object) -> None:
    """Have a converter with a schema registry call it: converters make no connections."""
    if isinstance(converter, RegistryConverter):
        from barnabas.pipeline.connect.registry_client import open_registry

        converter.open_lookup = open_registry


class _ChainBuilder:
    def __init__(self, props: Mapping[str, str], registry: PluginRegistry) -> None:
        self._props = props
        self._registry = registry

    def converter(self, side: str) -> Converter:
        name = f"{side}.converter"
        converter: Converter = self._plugin(name, PluginKind.CONVERTER, DEFAULT_CONVERTER)
        _give_registry(converter)
        converter.configure(self._under(f"{name}."), is_key=side == "key")
        return converter

    def header_converter(self) -> HeaderConverter:
        name = "header.converter"
        converter: HeaderConverter = self._plugin(
            name, PluginKind.HEADER_CONVERTER, DEFAULT_HEADER_CONVERTER
        )
        _give_registry(converter)
        converter.configure_headers(self._under(f"{name}."))
        return converter

    def stages(self) -> tuple[TransformationStage, ...]:
        """Return the transformations in the order of the property `transforms`."""
        predicates = {alias: self._predicate(alias) for alias in self._names("predicates")}
        return tuple(self._stage(alias, predicates) for alias in self._names("transforms"))

    def _stage(self, alias: str, predicates: Mapping[str, Predicate]) -> TransformationStage:
        prefix = f"transforms.{alias}."
        transformation: Transformation = self._plugin(
            f"{prefix}type", PluginKind.TRANSFORMATION, None
        )
        props = self._under(prefix)
        transformation.configure(props)
        name = props.get("predicate", "").strip()
        negate = props.get("negate", "false").strip().lower() == "true"
        if not name:
            return TransformationStage(transformation)
        if name not in predicates:
            raise ConfigValueError.of(
                f"{prefix}predicate", name, f"Predicate {name} is not among the predicates"
            )
        return TransformationStage(transformation, predicates[name], negate)

    def _predicate(self, alias: str) -> Predicate:
        prefix = f"predicates.{alias}."
        predicate: Predicate = self._plugin(f"{prefix}type", PluginKind.PREDICATE, None)
        predicate.configure(self._under(prefix))
        return predicate

    def _names(self, name: str) -> list[str]:
        return [alias for text in self._props.get(name, "").split(",") if (alias := text.strip())]

    def _under(self, prefix: str) -> dict[str, str]:
        return {
            name.removeprefix(prefix): value
            for name, value in self._props.items()
            if name.startswith(prefix)
        }

    def _plugin(self, name: str, kind: PluginKind, default: str | None) -> Any:
        class_name = self._props.get(name, default)
        if class_name is None:
            raise ConfigValueError(
                f'Missing required configuration "{name}" which has no default value.'
            )
        try:
            return self._registry.find(class_name.strip(), kind).load()()
        except PluginNotFoundError as error:
            raise ConfigValueError.of(name, class_name, str(error)) from error
