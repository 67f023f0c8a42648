"""The plug-ins of barnabas: one row for each, under the class name of Java's plug-in."""

from typing import Final

from barnabas import __version__
from barnabas.pipeline.connect.plugin_registry import Plugin, PluginKind

_DATA: Final = "barnabas.pipeline.data"
_CONNECTORS: Final = "barnabas.pipeline.connect.connectors"


def _rows(kind: PluginKind, targets: dict[str, str]) -> tuple[Plugin, ...]:
    return tuple(Plugin(kind, name, target, __version__) for name, target in targets.items())


_CONVERTERS: Final = {
    f"org.apache.kafka.connect.converters.{name}": f"{_DATA}.converters.primitive_converters:{name}"
    for name in (
        "BooleanConverter",
        "ByteArrayConverter",
        "DoubleConverter",
        "FloatConverter",
        "IntegerConverter",
        "LongConverter",
        "ShortConverter",
    )
} | {
    "org.apache.kafka.connect.json.JsonConverter": (
        f"{_DATA}.converters.json_converter:JsonConverter"
    ),
    "org.apache.kafka.connect.storage.StringConverter": (
        f"{_DATA}.converters.primitive_converters:StringConverter"
    ),
}

_SIMPLE_HEADERS: Final = {
    "org.apache.kafka.connect.storage.SimpleHeaderConverter": (
        f"{_DATA}.converters.header_literals:SimpleHeaderConverter"
    )
}

_SOURCES: Final = {
    "org.apache.kafka.connect.file.FileStreamSourceConnector": (
        f"{_CONNECTORS}.file_stream_source:FileStreamSourceConnector"
    ),
}

_SINKS: Final = {
    "org.apache.kafka.connect.file.FileStreamSinkConnector": (
        f"{_CONNECTORS}.file_stream_sink:FileStreamSinkConnector"
    ),
    "barnabas.TopicCopyConnector": "barnabas.pipeline.jobs.topic_copy:TopicCopyConnector",
}

BUILTIN_PLUGINS: Final[tuple[Plugin, ...]] = (
    *_rows(PluginKind.SOURCE, _SOURCES),
    *_rows(PluginKind.SINK, _SINKS),
    *_rows(PluginKind.TRANSFORMATION, {}),
    *_rows(PluginKind.PREDICATE, {}),
    *_rows(PluginKind.CONVERTER, _CONVERTERS),
    *_rows(PluginKind.HEADER_CONVERTER, _CONVERTERS | _SIMPLE_HEADERS),
)
"""Class names to the place of the class, "module:attribute"."""
