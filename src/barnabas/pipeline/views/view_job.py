"""A view as a job of the runner: planned, started, watched and stopped like any other.

Keys and values are decoded by the converters of the job's configuration. What a client asks for
by HTTP is a key as text: `TextKeys` turns it into the bytes of the topic's keys.
"""

import base64
import binascii
import json
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import attrs

from barnabas.client import AuthenticationError, ClientConfig
from barnabas.config import ConfigError
from barnabas.pipeline.connect.plugin_registry import PluginRegistry, plugin_registry
from barnabas.pipeline.connect.record_chain import build_converter
from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.data.converters.converter_base import BaseConverter
from barnabas.pipeline.data.converters.json_converter import JsonConverter
from barnabas.pipeline.data.converters.primitive_converters import (
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
    StringConverter,
)
from barnabas.pipeline.definitions.config_types import ConfigValueError
from barnabas.pipeline.delivery.plan.job_plan import JobFailure, JobPlan, JobProgress, PartitionLag
from barnabas.pipeline.delivery.plan.task_failures import JobStartError
from barnabas.pipeline.views.live_view import LiveView, ViewSpec
from barnabas.pipeline.views.view_codecs import CODECS
from barnabas.pipeline.views.view_connector import view_keys, view_retention, view_topic
from barnabas.pipeline.views.view_feed import ViewTopicError
from barnabas.pipeline.views.view_store import ViewStoreError
from barnabas.protocol.errors import KafkaError

_PERMANENT: Final = (ConfigError, ViewTopicError, AuthenticationError)
_NUMBERS: Final[dict[type[BaseConverter], str]] = {
    ShortConverter: "short",
    IntegerConverter: "integer",
    LongConverter: "long",
    FloatConverter: "float",
    DoubleConverter: "double",
}


@attrs.frozen
class ConverterCodec:
    """Values that a converter reads, as JSON shows them. Views do not write."""

    converter: BaseConverter
    topic: str
    _json: JsonConverter = attrs.field(factory=JsonConverter, init=False)

    def __attrs_post_init__(self) -> None:
        self._json.configure({"schemas.enable": "false"}, is_key=False)

    def decode(self, data: bytes) -> Any:
        """Return the value of bytes, of types that JSON has. Raises ValueError."""
        try:
            schema, value = self.converter.to_connect(self.topic, data)
            written = self._json.from_connect(self.topic, schema, value)
        except ConnectError as error:
            raise ValueError(f"{data!r} of topic {self.topic} cannot be read: {error}") from error
        return None if written is None else json.loads(written)

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a key as text. Raises ValueError."""
        return key_bytes(self.converter, str(value))


def key_bytes(converter: BaseConverter, text: str) -> bytes:
    """Return the bytes of a key that a client wrote as text. Raises ValueError.

    Text stands for itself, numbers are decimal, bytes are in base64, and JSON is as in the topic.
    """
    kind = type(converter)
    if kind in _NUMBERS:
        number = float(text) if kind in (FloatConverter, DoubleConverter) else int(text)
        return CODECS[_NUMBERS[kind]].encode(number)
    if kind is ByteArrayConverter:
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise ValueError(f"{text!r} is not base64: {error}") from None
    return text.encode()


class ViewJob:
    """A running view."""

    def __init__(self, plan: JobPlan, view: LiveView) -> None:
        self.view = view
        self._plan = plan

    @property
    def plan(self) -> JobPlan:
        """Return the plan that it was started with."""
        return self._plan

    def is_running(self) -> bool:
        """True until the job was stopped or failed."""
        return self.view.is_running()

    def progress(self) -> JobProgress:
        """Return the totals up to now."""
        figures, topic = self.view.figures, self.view.spec.topic
        lag = [
            PartitionLag(topic, partition, position, figures.ends.get(partition, position))
            for partition, position in sorted(figures.positions.items())
        ]
        return JobProgress(
            records=figures.records,
            written=figures.records - figures.null_keys,
            batches=figures.batches,
            lag=tuple(lag),
            lag_s=max(0, figures.updated_ms - figures.oldest_ms) / 1000,
            topic_ids={topic: figures.topic_id},
            updated_ms=figures.updated_ms,
        )

    def failure(self) -> JobFailure | None:
        """Return why the view ended by itself, or None."""
        error = self.view.failure
        if error is None:
            return None
        is_permanent = isinstance(error, _PERMANENT) or (
            isinstance(error, KafkaError) and not error.code.retriable
        )
        return JobFailure(str(error), is_permanent)

    def stop(self, timeout_s: float = 30.0) -> None:
        """Close the view; its rows stay for the next start."""
        del timeout_s
        self.view.close()


def start(plan: JobPlan, directory: Path, registry: PluginRegistry | None = None) -> ViewJob:
    """Start the view of a plan. Raises JobStartError."""
    try:
        spec = view_spec(plan, directory, registry or plugin_registry())
        client = {**plan.client_properties, "bootstrap.servers": plan.bootstrap}
        view = LiveView(spec, ClientConfig.from_properties(client))
    except (ConfigValueError, ConfigError) as error:
        raise JobStartError(JobFailure(str(error), is_permanent=True)) from error
    except (ViewStoreError, OSError) as error:
        raise JobStartError(JobFailure(str(error), is_permanent=False)) from error
    view.start()
    return ViewJob(plan, view)


def view_spec(plan: JobPlan, directory: Path, registry: PluginRegistry) -> ViewSpec:
    """Return what a plan's view reads and where it keeps its rows. Raises ConfigValueError."""
    topic = view_topic(plan.properties)
    key = build_converter(plan.properties, "key", registry)
    _check_key(plan, key)
    return ViewSpec(
        topic,
        directory / f"{quote(plan.name, safe='')}.sqlite",
        ConverterCodec(key, topic),
        ConverterCodec(build_converter(plan.properties, "value", registry), topic),
        view_keys(plan.properties),
        view_retention(plan.properties),
    )


def _check_key(plan: JobPlan, converter: BaseConverter) -> None:
    """Raise ConfigValueError for keys that no text in a path stands for."""
    has_schemas = plan.properties.get("key.converter.schemas.enable", "true").lower() != "false"
    is_json = isinstance(converter, JsonConverter) and not has_schemas
    if is_json or isinstance(converter, StringConverter | ByteArrayConverter):
        return
    if type(converter) not in _NUMBERS:
        raise ConfigValueError.of(
            "key.converter",
            plan.properties.get("key.converter"),
            "A view looks up keys of StringConverter, ByteArrayConverter, converters of numbers, "
            "and JsonConverter with key.converter.schemas.enable=false",
        )
