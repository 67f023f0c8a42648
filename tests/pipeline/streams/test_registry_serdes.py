"""Protobuf and JSON Schema of streams: values as Spark takes them, in the bytes of Connect."""

import datetime
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings

pytest.importorskip("pyarrow")
pytest.importorskip("google.protobuf")
pytest.importorskip("jsonschema")

from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import Schema, Struct
from barnabas.pipeline.data.converters.json_schema_converter import JsonSchemaConverter
from barnabas.pipeline.data.converters.protobuf_converter import ProtobufConverter
from barnabas.pipeline.data.java_values import EpochMillis
from barnabas.pipeline.data.registered_schemas import RegisteredSchema
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.rows.spark_columns import ROWS, fitting, spark_type
from barnabas.pipeline.streams import registry_serdes
from barnabas.pipeline.streams.avro_serde import SubjectAvro
from barnabas.pipeline.streams.json_schema_serde import SubjectJsonSchema
from barnabas.pipeline.streams.protobuf_serde import SubjectProtobuf
from barnabas.pipeline.streams.python_serdes import decoder, encoder
from barnabas.pipeline.streams.row_values import of_row
from tests.pipeline.data.memory_registry import Registry, configured
from tests.pipeline.data.random_values import rows

ORDER = """
    syntax = "proto3";
    package shop;
    import "google/protobuf/timestamp.proto";
    import "google/protobuf/wrappers.proto";
    message Order {
      int64 id = 1;
      optional string name = 2;
      map<string, int64> stock = 3;
      map<int32, Customer> customers = 4;
      google.protobuf.Timestamp at = 5;
      google.protobuf.StringValue note = 6;
      oneof payment { string card = 7; Customer account = 8; }
      Kind kind = 9;
      repeated int32 lines = 10;
      message Part { bool large = 1; }
      Part part = 11;
    }
    message Customer { string name = 1; }
    enum Kind { SMALL = 0; BIG = 1; }
"""
FULL = {
    "payment": {"card": None, "account": {"name": "Ada"}},
    "id": 7,
    "name": "x",
    "stock": {"pen": 4},
    "customers": {3: {"name": "Bo"}},
    "at": datetime.datetime(2026, 11, 22, 19, 0, 0, 5000, tzinfo=datetime.UTC),
    "note": "n",
    "kind": "BIG",
    "lines": [1, 2],
    "part": {"large": True},
}
PERSON = {
    "type": "object",
    "title": "Person",
    "required": ["id", "state"],
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "state": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "kind": {"enum": ["A", "B"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}


@contextmanager
def known(registry: Registry) -> Iterator[None]:
    """Let serdes ask this registry."""
    with patch.object(registry_serdes, "registry_client", lambda urls: registry):
        yield


def framed(schema_id: int, data: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + data


def registry_of(*schemas: tuple[str, str]) -> Registry:
    registry = Registry()
    for kind, text in schemas:
        registry.schemas.append(("t-value", RegisteredSchema(kind, text)))
    return registry


def protobuf(registry: Registry, schema_id: int = 1, message: str | None = None) -> SubjectProtobuf:
    return SubjectProtobuf("", "t-value", schema_id, registry.schema_of(schema_id), message)


def json_schema(registry: Registry, *, validate: bool = False) -> SubjectJsonSchema:
    return SubjectJsonSchema("", "t-value", 1, registry.schema_of(1), validate)


@settings(deadline=None, max_examples=150)
@given(rows())
def test_row_of_spark_becomes_the_value_that_it_was_made_of(row: tuple[Schema, Struct]) -> None:
    schema, value = row
    assert of_row(schema)(fitting(spark_type(schema), form=ROWS)(value)) == value


@settings(deadline=None, max_examples=150)
@given(rows(nulls_in_arrays=False))
def test_protobuf_of_connect_is_read_and_written_again(row: tuple[Schema, Struct]) -> None:
    schema, value = row
    registry = Registry()
    converter = configured(ProtobufConverter(), registry, optional__for__nullables="true")
    data = converter.from_connect("t", schema, value)
    assert data is not None
    serde = protobuf(registry)
    with known(registry):
        again = serde.dump(serde.load(data))
    assert converter.to_connect("t", again) == converter.to_connect("t", data)


@settings(deadline=None, max_examples=150)
@given(rows())
def test_json_of_connect_is_read_and_written_again(row: tuple[Schema, Struct]) -> None:
    schema, value = row
    registry = Registry()
    converter = configured(JsonSchemaConverter(), registry)
    data = converter.from_connect("t", schema, value)
    assert data is not None
    serde = json_schema(registry)
    with known(registry):
        again = serde.dump(serde.load(data))
    assert converter.to_connect("t", again) == converter.to_connect("t", data)


def test_protobuf_types_are_those_of_spark() -> None:
    registry = registry_of(("PROTOBUF", ORDER))
    serde = protobuf(registry)
    with known(registry):
        assert serde.load(serde.dump(FULL)) == FULL
        empty = serde.load(serde.dump({}))
    assert {name for name, value in empty.items() if value is None} == {
        "payment", "name", "at", "note", "part",
    }  # fmt: skip
    assert (empty["id"], empty["kind"], empty["stock"]) == (0, "SMALL", {})


def test_protobuf_of_another_schema_is_read_by_field_numbers() -> None:
    older = 'syntax = "proto3"; package shop; message Order { int64 number = 1; int32 gone = 99; }'
    registry = registry_of(("PROTOBUF", ORDER), ("PROTOBUF", older))
    data = protobuf(registry, 2).dump({"number": 7, "gone": 5})
    with known(registry):
        found = protobuf(registry).load(data)
    assert (found["id"], found["name"]) == (7, None)


def test_protobuf_message_is_chosen_by_its_name() -> None:
    registry = registry_of(("PROTOBUF", ORDER))
    customer, part = (protobuf(registry, 1, f"shop.{name}") for name in ("Customer", "Order.Part"))
    with known(registry):
        assert customer.dump({"name": "A"}) == framed(1, b"\x02\x02\x0a\x01A")
        assert part.dump({"large": True}) == framed(1, b"\x04\x00\x00\x08\x01")
        assert part.load(part.dump({"large": True})) == {"large": True}
        with pytest.raises(DataError, match=r"a message shop\.Customer, not shop\.Order"):
            protobuf(registry).load(customer.dump({"name": "A"}))
    with pytest.raises(DataError, match=r"no message Order; its messages: shop\.Order, shop\.Orde"):
        protobuf(registry, 1, "Order").dump({})


def test_protobuf_wrapper_as_the_message_is_its_value() -> None:
    text = 'syntax = "proto3"; package google.protobuf; message Int64Value { int64 value = 1; }'
    registry = registry_of(("PROTOBUF", text))
    serde = protobuf(registry)
    with known(registry):
        assert serde.load(serde.dump(5)) == 5


BAD_PROTOBUF = [
    (b"text", "no schema id"),
    (b"", "no schema id"),
    (framed(2, b"\x00"), "schema is one of JSON"),
    (framed(9, b"\x00"), "Schema 9 not found"),
    (framed(1, b""), "cut short"),
    (framed(1, b"\x02\x08\x00"), r"no message at \[4\]"),
    (framed(1, b"\x00\xff\xff"), "corrupt|Error parsing"),
    (framed(1, b"\x00\x2a\x02\x08"), "corrupt|Error parsing|truncated"),
]


@pytest.mark.parametrize(("data", "reason"), BAD_PROTOBUF)
def test_data_that_is_not_protobuf_is_refused(data: bytes, reason: str) -> None:
    registry = registry_of(("PROTOBUF", ORDER), ("JSON", json.dumps(PERSON)))
    with known(registry):
        value, error = decoder(protobuf(registry).load)(data)
    assert value is None
    assert re.search(reason, str(error))


UNWRITABLE = [
    ({"zz": 1}, "the value has the column zz"),
    ({"id": "7"}, r"value\.id: java.lang.String '7'"),
    ({"id": True}, r"value\.id: java.lang.Boolean"),
    ({"lines": [2**40]}, r"value\.lines\[\]"),
    ({"lines": [None]}, "field lines has a null in it"),
    ({"stock": {"a": None}}, "field stock has a null in it"),
    ({"kind": "HUGE"}, "no symbol HUGE"),
    ({"at": "yesterday"}, r"value\.at: str 'yesterday'"),
    ({"part": 5}, r"value\.part: int 5"),
    (5, "the value: int 5"),
]


@pytest.mark.parametrize(("value", "reason"), UNWRITABLE)
def test_value_that_is_not_of_the_message_ends_the_query(value: Any, reason: str) -> None:
    registry = registry_of(("PROTOBUF", ORDER))
    encode = encoder(protobuf(registry).dump, "Protobuf of subject t-value")
    with pytest.raises(TaskFailureError, match=reason) as info:
        encode(value)
    assert info.value.failure.is_permanent
    assert "Protobuf of subject t-value" in info.value.failure.message
    assert encode(None) is None


def test_json_leaves_out_what_is_null_and_not_required() -> None:
    registry = registry_of(("JSON", json.dumps(PERSON)))
    for serde in (json_schema(registry), json_schema(registry, validate=True)):
        with known(registry):
            data = serde.dump({"id": 1})
            assert data == framed(1, b'{"id":1,"state":null}')
            expected = {"id": 1, "name": None, "state": None, "kind": None, "tags": None}
            assert serde.load(data) == expected
            with pytest.raises(DataError, match='"id"'):
                serde.dump({"state": "x"})


def test_json_keeps_logical_types() -> None:
    row = s.struct_schema([("price", s.decimal_schema(2)), ("day", s.DATE)], name="Row")
    registry = Registry()
    converter = configured(JsonSchemaConverter(), registry)
    value = Struct(row, [Decimal("1.50"), EpochMillis(86_400_000)])
    data = converter.from_connect("t", row, value)
    assert data is not None
    serde = json_schema(registry)
    with known(registry):
        found = serde.load(data)
        assert found == {"price": Decimal("1.50"), "day": datetime.date(1970, 1, 2)}
        assert serde.dump(found) == framed(1, b'{"price":1.50,"day":1}')


BAD_JSON = [
    (b"{}", "no schema id", None),
    (framed(1, b"{"), "property name", None),
    (framed(1, b"\xff"), "utf-8", None),
    (framed(1, b"[]"), "does not fit", "is not of type"),
    (framed(1, b'{"id": "7", "state": null}'), "field id", "is not of type"),
    (framed(1, b'{"id": NaN}'), "NaN is not JSON", None),
    (framed(1, b"{}"), "field id: Invalid null", "required property"),
    (framed(2, b"{}"), "schema is one of PROTOBUF", None),
]


@pytest.mark.parametrize(("data", "reason", "of_validation"), BAD_JSON)
def test_data_that_is_not_of_the_json_schema_is_refused(
    data: bytes, reason: str, of_validation: str | None
) -> None:
    registry = registry_of(("JSON", json.dumps(PERSON)), ("PROTOBUF", ORDER))
    with known(registry):
        plain = decoder(json_schema(registry).load)(data)
        checked = decoder(json_schema(registry, validate=True).load)(data)
    assert plain[0] is checked[0] is None
    assert reason in str(plain[1])
    assert (of_validation or reason) in str(checked[1])


def test_json_is_checked_beyond_its_types_when_that_is_wanted() -> None:
    registry = registry_of(("JSON", json.dumps(PERSON)))
    data = framed(1, b'{"id": 1, "state": "x", "kind": "C", "more": 5}')
    with known(registry):
        assert json_schema(registry).load(data)["kind"] == "C"
        checked = json_schema(registry, validate=True)
        with pytest.raises(DataError, match="'C' is not one of"):
            checked.load(data)
        with pytest.raises(DataError, match="'C' is not one of"):
            checked.dump({"id": 1, "state": "x", "kind": "C"})


def test_times_without_a_zone_are_those_of_the_host() -> None:
    row = s.struct_schema([("at", s.TIMESTAMP), ("day", s.DATE)])
    naive = datetime.datetime(2026, 11, 22, 12, 0)
    found = of_row(row)({"at": naive, "day": naive.date()})
    assert found.values[0] == EpochMillis(int(naive.timestamp() * 1000))
    with pytest.raises(DataError, match="is not a date"):
        of_row(row)({"day": naive})


def test_avro_writes_defaults_for_null_where_the_type_has_none() -> None:
    part = {
        "type": "record",
        "name": "shop.Part",
        "fields": [{"name": "votes", "type": "long", "default": 10}],
    }
    order = {
        "type": "record",
        "name": "shop.Order",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "part", "type": part},
            {"name": "parts", "type": {"type": "array", "items": ["null", "Part"]}},
            {"name": "named", "type": {"type": "map", "values": "Part"}},
            {"name": "note", "type": ["string", "null"], "default": "none"},
        ],
    }
    serde = SubjectAvro("", "t-value", 1, RegisteredSchema("AVRO", json.dumps(order)))
    empty = {"votes": None}
    row = {"id": 1, "part": empty, "parts": [empty, None], "named": {"a": empty}, "note": None}
    filled = {"votes": 10}
    expected = {"part": filled, "parts": [filled, None], "named": {"a": filled}, "note": None}
    assert serde.decoded(serde.schema, serde.encoded(row)) == {"id": 1, **expected}
    with pytest.raises(TypeError):
        serde.encoded({**row, "id": None})
