"""Avro with a registry: schemas both ways, values both ways, and what the registry refuses."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.converters.avro_converter import AvroConverter
from barnabas.pipeline.data.converters.avro_schemas import AvroReader, avro_of
from barnabas.pipeline.data.java_values import EpochMillis, Float32
from barnabas.pipeline.data.registered_schemas import RegisteredSchema
from tests.pipeline.data.memory_registry import Registry, configured


def converter(registry: Registry, **props: str) -> AvroConverter:
    return configured(AvroConverter(), registry, **props)


ROW = s.struct_schema(
    [
        ("id", s.INT64),
        ("small", s.INT8),
        ("name", s.OPTIONAL_STRING),
        ("rate", s.FLOAT32),
        ("price", s.decimal_schema(2)),
        ("day", s.DATE),
        ("at", s.OPTIONAL_TIMESTAMP),
        ("tags", s.array_schema(s.STRING)),
        ("counts", s.map_schema(s.STRING, s.INT32)),
        ("by_id", s.map_schema(s.INT32, s.STRING)),
        ("inner", s.struct_schema([("x", s.BOOLEAN)], name="a.Inner", optional=True)),
        ("size", s.with_default(s.INT32, 7)),
    ],
    name="a.b.Row",
    version=3,
)


def row(number: int, name: str | None, data: bytes) -> s.Struct:
    inner = ROW.field("inner")
    assert inner is not None
    return s.Struct.of(
        ROW,
        {
            "id": number,
            "small": number % 100,
            "name": name,
            "rate": Float32(number / 3),
            "price": Decimal(number).scaleb(-2) if number else Decimal("0.00"),
            "day": EpochMillis(number % 1000 * 86_400_000),
            "at": EpochMillis(number) if name else None,
            "tags": [data.hex()],
            "counts": {"a": 1},
            "by_id": {5: "five"},
            "inner": s.Struct.of(inner.schema, {"x": True}) if name else None,
            "size": 1,
        },
    )


@settings(deadline=None)
@given(st.integers(0, 2**40), st.none() | st.text(max_size=3), st.binary(max_size=3))
def test_avro_value_survives(number: int, name: str | None, data: bytes):
    registry = Registry()
    writer, reader = converter(registry), converter(registry)
    value = row(number, name, data)
    schema, found = reader.to_connect("t", writer.from_connect("t", ROW, value))
    assert schema == ROW
    assert found == value
    assert registry.schemas[0][0] == "t-value"


def test_avro_data_begins_with_zero_and_id():
    data = converter(Registry()).from_connect("t", s.STRING, "ab")
    assert data == b"\x00\x00\x00\x00\x01\x04ab"


def test_avro_schema_of_primitives_has_confluents_properties():
    assert avro_of(s.INT8) == {"type": "int", "connect.type": "int8"}
    assert avro_of(s.OPTIONAL_DATE) == [
        "null",
        {
            "type": "int",
            "connect.name": "org.apache.kafka.connect.data.Date",
            "connect.version": 1,
            "logicalType": "date",
        },
    ]


def connect(avro: Any) -> s.Schema:
    return AvroReader({}).schema_of(json.dumps(avro))


def test_avro_plain_schemas_become_connects():
    assert connect(["null", "long"]) == s.OPTIONAL_INT64
    assert connect({"type": "long", "logicalType": "timestamp-millis"}) == s.TIMESTAMP
    decimal = connect({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})
    assert decimal == s.decimal_schema(2)
    enum = connect({"type": "enum", "name": "n.E", "symbols": ["A"]})
    assert enum.type is s.Type.STRING
    assert enum.parameters == {
        "io.confluent.connect.avro.Enum": "n.E",
        "io.confluent.connect.avro.Enum.A": "A",
    }


def test_avro_union_is_a_struct_with_one_field_set():
    registry = Registry()
    text = json.dumps({"type": "record", "name": "R", "fields": [
        {"name": "u", "type": ["null", "string", "int"]}]})  # fmt: skip
    registry.schemas.append(("t-value", RegisteredSchema("AVRO", text)))
    _, value = converter(registry).to_connect("t", b"\x00\x00\x00\x00\x01\x04\x0e")
    assert [value.get("u").get(name) for name in ("string", "int")] == [None, 7]


def test_avro_record_within_itself_is_refused():
    node = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    with pytest.raises(DataError, match="contains itself"):
        connect(node)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{}", "Unknown magic byte"),
        (b"\x00\x00\x00\x00\x09x", "Schema 9 not found"),
        (b"\x00\x00\x00\x00\x01\x09", "Failed to deserialize"),
    ],
)
def test_avro_unreadable_data_is_refused(data: bytes, message: str):
    registry = Registry()
    registry.schemas.append(("t-value", RegisteredSchema("AVRO", '"string"')))
    with pytest.raises(DataError, match=message):
        converter(registry).to_connect("t", data)


def test_avro_unknown_schema_is_refused_without_registration():
    with pytest.raises(DataError, match="Schema not found"):
        converter(Registry(), **{"auto.register.schemas": "false"}).from_connect("t", s.INT8, 1)


def test_avro_null_is_a_tombstone():
    avro = converter(Registry())
    assert avro.from_connect("t", s.OPTIONAL_INT8, None) is None
    assert avro.to_connect("t", None) == (None, None)
