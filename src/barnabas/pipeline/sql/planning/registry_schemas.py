"""The schemas that SQL registers for columns: Avro, Protobuf and JSON Schema, named as ksqlDB's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barnabas.pipeline.sql.catalog.source_values import Nulls, SourceColumn
    from barnabas.pipeline.sql.sql_types import SqlType

_RECORD: Final = "KsqlDataSourceSchema"
_NAMESPACE: Final = "io.confluent.ksql.avro_schemas"
_MESSAGE: Final = "ConnectDefault1"
_AVRO: Final[dict[str, Any]] = {
    "BOOLEAN": "boolean",
    "INTEGER": "int",
    "BIGINT": "long",
    "DOUBLE": "double",
    "STRING": "string",
    "BYTES": "bytes",
    "DATE": {"type": "int", "logicalType": "date"},
    "TIME": {"type": "int", "logicalType": "time-millis"},
    "TIMESTAMP": {"type": "long", "logicalType": "timestamp-millis"},
}
_PROTOBUF: Final = {
    "BOOLEAN": "bool",
    "INTEGER": "int32",
    "BIGINT": "int64",
    "DOUBLE": "double",
    "STRING": "string",
    "BYTES": "bytes",
    "DATE": "google.type.Date",
    "TIME": "google.type.TimeOfDay",
    "TIMESTAMP": "google.protobuf.Timestamp",
    "DECIMAL": "confluent.type.Decimal",
}
_WRAPPERS: Final = {
    "BOOLEAN": "google.protobuf.BoolValue",
    "INTEGER": "google.protobuf.Int32Value",
    "BIGINT": "google.protobuf.Int64Value",
    "DOUBLE": "google.protobuf.DoubleValue",
    "STRING": "google.protobuf.StringValue",
    "BYTES": "google.protobuf.BytesValue",
}
_IMPORTS: Final = {
    "DATE": "google/type/date.proto",
    "TIME": "google/type/timeofday.proto",
    "TIMESTAMP": "google/protobuf/timestamp.proto",
    "DECIMAL": "confluent/type/decimal.proto",
}
_JSON: Final[dict[str, dict[str, str]]] = {
    "BOOLEAN": {"type": "boolean"},
    "INTEGER": {"type": "integer", "connect.type": "int32"},
    "BIGINT": {"type": "integer", "connect.type": "int64"},
    "DOUBLE": {"type": "number", "connect.type": "float64"},
    "STRING": {"type": "string"},
    "BYTES": {"type": "string", "connect.type": "bytes"},
    "DATE": {
        "type": "integer",
        "title": "org.apache.kafka.connect.data.Date",
        "connect.type": "int32",
    },
    "TIME": {"type": "integer", "connect.type": "int32"},
    "TIMESTAMP": {
        "type": "integer",
        "title": "org.apache.kafka.connect.data.Timestamp",
        "connect.type": "int64",
    },
}


def avro_text(columns: Sequence[SourceColumn], *, is_wrapped: bool, name: str | None) -> str:
    """Return the Avro schema of columns: a record, or the type of the only column."""
    if not is_wrapped:
        return json.dumps(_nullable(columns[0].type, _RECORD))
    namespace, _, short = (name or f"{_NAMESPACE}.{_RECORD}").rpartition(".")
    record: dict[str, Any] = {"type": "record", "name": short}
    if namespace:
        record["namespace"] = namespace
    record["fields"] = _avro_fields([(each.name, each.type) for each in columns], short)
    return json.dumps(record)


def _avro_fields(fields: Sequence[tuple[str, SqlType]], record: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "type": _nullable(kind, f"{record}_{name}"), "default": None}
        for name, kind in fields
    ]


def _nullable(kind: SqlType, record: str) -> list[Any]:
    return ["null", _avro(kind, record)]


def _avro(kind: SqlType, record: str) -> Any:
    if kind.name == "DECIMAL":
        numbers = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **numbers}
    if kind.name == "ARRAY":
        return {"type": "array", "items": _nullable(kind.element, record)}
    if kind.name == "MAP":
        return {"type": "map", "values": _nullable(kind.element, record)}
    if kind.name == "STRUCT":
        return {"type": "record", "name": record, "fields": _avro_fields(kind.fields, record)}
    return _AVRO[kind.name]


def json_text(columns: Sequence[SourceColumn], *, is_wrapped: bool) -> str:
    """Return the JSON Schema of columns: an object, or the type of the only column."""
    if not is_wrapped:
        return json.dumps(_json(columns[0].type))
    return json.dumps(_json_object([(each.name, each.type) for each in columns]))


def _json_object(fields: Sequence[tuple[str, SqlType]]) -> dict[str, Any]:
    properties = {
        name: {"connect.index": index, "oneOf": [{"type": "null"}, _json(kind)]}
        for index, (name, kind) in enumerate(fields)
    }
    return {"type": "object", "properties": properties}


def _json(kind: SqlType) -> dict[str, Any]:
    if kind.name == "DECIMAL":
        parameters = {"scale": str(kind.scale), "connect.decimal.precision": str(kind.precision)}
        return {
            "type": "number",
            "title": "org.apache.kafka.connect.data.Decimal",
            "connect.type": "bytes",
            "connect.parameters": parameters,
        }
    if kind.name == "ARRAY":
        return {"type": "array", "items": {"oneOf": [{"type": "null"}, _json(kind.element)]}}
    if kind.name == "MAP":
        values = {"oneOf": [{"type": "null"}, _json(kind.element)]}
        return {"type": "object", "connect.type": "map", "additionalProperties": values}
    if kind.name == "STRUCT":
        return _json_object(kind.fields)
    return dict(_JSON[kind.name])


def protobuf_text(
    columns: Sequence[SourceColumn], name: str | None, nulls: Nulls | None = None
) -> str:
    """Return the Protobuf schema of columns: a file with one message.

    `nulls` says how a number, a text or a boolean can be NULL; by default it cannot.
    """
    fields = [(each.name, each.type) for each in columns]
    names = {name for _, kind in fields for name in _names(kind)}
    imports = {_IMPORTS[each] for each in names & set(_IMPORTS)}
    if nulls == "WRAPPER" and names & set(_WRAPPERS):
        imports.add("google/protobuf/wrappers.proto")
    if "DECIMAL" in names:
        imports.add("confluent/meta.proto")
    lines = ['syntax = "proto3";']
    package, _, short = (name or _MESSAGE).rpartition(".")
    if package:
        lines.append(f"package {package};")
    lines += [f'import "{each}";' for each in sorted(imports)]
    return "\n".join([*lines, *_message(fields, short, nulls)])


def _names(kind: SqlType) -> set[str]:
    found = {kind.name}
    for each in kind.inside:
        found |= _names(each)
    return found


def _message(
    fields: Sequence[tuple[str, SqlType]], name: str, nulls: Nulls | None
) -> Iterator[str]:
    yield f"message {name} {{"
    for index, (field, kind) in enumerate(fields, 1):
        inner = f"{name}_{field}"
        for struct in _structs(kind):
            yield from _message(struct.fields, inner, nulls)
        text = _nullable_field(kind, inner, nulls)
        yield f"  {text} {field} = {index}{_options(kind)};"
    yield "}"


def _nullable_field(kind: SqlType, inner: str, nulls: Nulls | None) -> str:
    if nulls is None or kind.name not in _WRAPPERS:
        return _field(kind, inner)
    return _WRAPPERS[kind.name] if nulls == "WRAPPER" else f"optional {_field(kind, inner)}"


def _structs(kind: SqlType) -> list[SqlType]:
    if kind.name == "STRUCT":
        return [kind]
    return [found for each in kind.elements for found in _structs(each)]


def _field(kind: SqlType, inner: str) -> str:
    if kind.name == "ARRAY":
        return f"repeated {_field(kind.element, inner)}"
    if kind.name == "MAP":
        return f"map<string, {_field(kind.element, inner)}>"
    return inner if kind.name == "STRUCT" else _PROTOBUF[kind.name]


def _options(kind: SqlType) -> str:
    if kind.name != "DECIMAL":
        return ""
    numbers = (("precision", kind.precision), ("scale", kind.scale))
    parameters = ", ".join(f'{{key: "{name}", value: "{each}"}}' for name, each in numbers)
    return f" [(confluent.field_meta) = {{params: [{parameters}]}}]"
