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
    "io.confluent.connect.avro.AvroConverter": (f"{_DATA}.converters.avro_converter:AvroConverter"),
    "io.confluent.connect.json.JsonSchemaConverter": (
        f"{_DATA}.converters.json_schema_converter:JsonSchemaConverter"
    ),
    "io.confluent.connect.protobuf.ProtobufConverter": (
        f"{_DATA}.converters.protobuf_converter:ProtobufConverter"
    ),
    "org.apache.kafka.connect.json.JsonConverter": (
        f"{_DATA}.converters.json_converter:JsonConverter"
    ),
    "org.apache.kafka.connect.storage.StringConverter": (
        f"{_DATA}.converters.primitive_converters:StringConverter"
    ),
}

_KEY_OR_VALUE: Final = {
    "Cast": "cast_transform",
    "ExtractField": "field_transforms",
    "Flatten": "flatten_transform",
    "HeaderFrom": "header_transforms",
    "HoistField": "field_transforms",
    "InsertField": "insert_transform",
    "MaskField": "mask_transform",
    "ReplaceField": "replace_transform",
    "SetSchemaMetadata": "metadata_transform",
    "TimestampConverter": "timestamp_transform",
}
_WHOLE_RECORD: Final = {
    "DropHeaders": "header_transforms",
    "Filter": "routing_transforms",
    "InsertHeader": "header_transforms",
    "RegexRouter": "routing_transforms",
    "TimestampRouter": "routing_transforms",
    "ValueToKey": "field_transforms",
}
_TRANSFORMATIONS: Final = {
    f"org.apache.kafka.connect.transforms.{name}": f"{_DATA}.transforms.{module}:{name}"
    for name, module in _WHOLE_RECORD.items()
} | {
    f"org.apache.kafka.connect.transforms.{name}${side}": (
        f"{_DATA}.transforms.{module}:{name}{side}"
    )
    for name, module in _KEY_OR_VALUE.items()
    for side in ("Key", "Value")
}

_PREDICATES: Final = {
    f"org.apache.kafka.connect.transforms.predicates.{name}": f"{_DATA}.record_predicates:{name}"
    for name in ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")
}

_SIMPLE_HEADERS: Final = {
    "org.apache.kafka.connect.storage.SimpleHeaderConverter": (
        f"{_DATA}.converters.header_literals:SimpleHeaderConverter"
    )
}

_MIRROR_MAKER: Final = {
    f"org.apache.kafka.connect.mirror.{name}": (
        f"barnabas.pipeline.mirror.mirrormaker.connectors:{name}"
    )
    for name in ("MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector")
}

_SOURCES: Final = _MIRROR_MAKER | {
    "barnabas.DatagenSource": f"{_CONNECTORS}.datagen_source:DatagenSourceConnector",
    "barnabas.SparkSource": f"{_CONNECTORS}.spark_source:SparkSourceConnector",
    "io.confluent.connect.jdbc.JdbcSourceConnector": (
        f"{_CONNECTORS}.jdbc_source:JdbcSourceConnector"
    ),
    "org.apache.kafka.connect.file.FileStreamSourceConnector": (
        f"{_CONNECTORS}.file_stream_source:FileStreamSourceConnector"
    ),
}

_SINKS: Final = {
    "io.confluent.connect.jdbc.JdbcSinkConnector": f"{_CONNECTORS}.jdbc_sink:JdbcSinkConnector",
    "org.apache.kafka.connect.file.FileStreamSinkConnector": (
        f"{_CONNECTORS}.file_stream_sink:FileStreamSinkConnector"
    ),
    "barnabas.SparkSink": f"{_CONNECTORS}.spark_sink:SparkSinkConnector",
    "barnabas.MirrorConnector": "barnabas.pipeline.mirror.flow_connector:MirrorConnector",
    "barnabas.TopicCopyConnector": "barnabas.pipeline.jobs.topic_copy:TopicCopyConnector",
    "barnabas.ViewConnector": "barnabas.pipeline.views.view_connector:ViewConnector",
    "barnabas.sql.Query": "barnabas.pipeline.sql.hosting.query_connector:QueryConnector",
}

BUILTIN_PLUGINS: Final[tuple[Plugin, ...]] = (
    *_rows(PluginKind.SOURCE, _SOURCES),
    *_rows(PluginKind.SINK, _SINKS),
    *_rows(PluginKind.TRANSFORMATION, _TRANSFORMATIONS),
    *_rows(PluginKind.PREDICATE, _PREDICATES),
    *_rows(PluginKind.CONVERTER, _CONVERTERS),
    *_rows(PluginKind.HEADER_CONVERTER, _CONVERTERS | _SIMPLE_HEADERS),
)
"""Class names to the place of the class, "module:attribute"."""
