"""JSON Schema with a registry: schemas both ways, values both ways, and what is refused."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings

from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import Schema, Struct, Type
from barnabas.pipeline.data.converters.json_schema_converter import JsonSchemaConverter
from barnabas.pipeline.data.registered_schemas import RegisteredSchema
from barnabas.pipeline.definitions.config_types import ConfigValueError
from tests.pipeline.data.memory_registry import Registry, configured
from tests.pipeline.data.random_values import rows

ENUM = "io.confluent.connect.json.Enum"
ONE_OF = "io.confluent.connect.json.OneOf"
ID = b"\x00\x00\x00\x00\x01"


def converter(registry: Registry, **props: str) -> JsonSchemaConverter:
    return configured(JsonSchemaConverter(), registry, **props)


def read(node: Any, value: Any, *references: tuple[str, Any], **props: str) -> Any:
    registry = Registry()
    texts = tuple((name, json.dumps(other)) for name, other in references)
    registry.schemas.append(("t-value", RegisteredSchema("JSON", json.dumps(node), texts)))
    return converter(registry, **props).to_connect("t", ID + json.dumps(value).encode())


def properties(**nodes: Any) -> dict[str, Any]:
    return {"type": "object", "title": "Row", "properties": nodes}


@settings(deadline=None, max_examples=200)
@given(rows())
def test_json_schema_value_survives(row: tuple[Schema, Struct]):
    schema, value = row
    for props in ({}, {"decimal__format": "NUMERIC", "json__fail__invalid__schema": "true"}):
        registry = Registry()
        writer, reader = converter(registry, **props), converter(registry, **props)
        if props and any("decimal" in str(f.schema.name).lower() for f in schema.fields):
            continue
        found, again = reader.to_connect("t", writer.from_connect("t", schema, value))
        assert found == schema
        assert again == value


def test_json_schema_decimals_have_two_forms():
    schema = s.struct_schema([("price", s.decimal_schema(2))], name="Row")
    value = Struct.of(schema, {"price": Decimal("-12.50")})
    for form, text in (("BASE64", b'{"price":"+x4="}'), ("NUMERIC", b'{"price":-12.50}')):
        registry = Registry()
        made = converter(registry, decimal__format=form)
        data = made.from_connect("t", schema, value)
        assert data == ID + text
        assert made.to_connect("t", data) == (schema, value)


def test_json_schema_of_a_struct_has_confluents_properties():
    schema = s.struct_schema(
        [("id", s.INT64), ("name", s.OPTIONAL_STRING), ("by", s.map_schema(s.INT32, s.STRING))],
        name="shop.Row",
        version=2,
    )
    registry = Registry()
    value = Struct.of(schema, {"id": 1, "name": None, "by": {5: "five"}})
    data = converter(registry, object__additional__properties="false").from_connect(
        "t", schema, value
    )
    assert data == ID + b'{"id":1,"name":null,"by":[{"key":5,"value":"five"}]}'
    key = {"type": "integer", "connect.type": "int32", "connect.index": 0}
    entry = {"key": key, "value": {"type": "string", "connect.index": 1}}
    assert json.loads(registry.schemas[0][1].text) == {
        "type": "object",
        "title": "shop.Row",
        "connect.version": 2,
        "additionalProperties": False,
        "properties": {
            "id": {"type": "integer", "connect.type": "int64", "connect.index": 0},
            "name": {"oneOf": [{"type": "null"}, {"type": "string"}], "connect.index": 1},
            "by": {
                "type": "array",
                "connect.type": "map",
                "items": {"type": "object", "properties": entry},
                "connect.index": 2,
            },
        },
    }


def test_json_schema_of_another_client_is_read():
    node = properties(
        count={"type": "integer"},
        rate={"type": "number", "default": 0.5},
        note={"type": ["string", "null"], "description": "free text"},
        tags={"type": "array", "items": {"type": "string"}},
        state={"enum": ["NEW", "PAID"]},
        level={"type": "integer", "enum": [1, 2]},
        attributes={
            "type": "object",
            "connect.type": "map",
            "additionalProperties": {"type": "boolean"},
        },
        customer={"$ref": "customer.json#/definitions/Customer"},
        other={"$ref": "#/properties/customer"},
    )
    customer = {
        "definitions": {"Customer": {**properties(name={"type": "string"}), "title": "Customer"}}
    }
    value = {
        "count": 3, "note": None, "tags": ["a"], "state": "PAID", "level": 2,
        "attributes": {"x": True}, "customer": {"name": "Ada"}, "other": {"name": "Bob"},
    }  # fmt: skip
    schema, found = read(node, value, ("customer.json", customer))
    assert schema.name == "Row"
    assert [(f.name, f.schema.type) for f in schema.fields] == [
        ("count", Type.INT64), ("rate", Type.FLOAT64), ("note", Type.STRING), ("tags", Type.ARRAY),
        ("state", Type.STRING), ("level", Type.INT64), ("attributes", Type.MAP),
        ("customer", Type.STRUCT), ("other", Type.STRUCT),
    ]  # fmt: skip
    assert found.values[:7] == [3, 0.5, None, ["a"], "PAID", 2, {"x": True}]
    assert [found.get(name).get("name") for name in ("customer", "other")] == ["Ada", "Bob"]
    assert schema.field("state").schema.parameters == {
        ENUM: "", f"{ENUM}.NEW": "NEW", f"{ENUM}.PAID": "PAID",
    }  # fmt: skip
    assert (schema.field("note").schema.optional, schema.field("note").schema.doc) == (
        True,
        "free text",
    )


def test_json_schema_choice_is_a_struct_with_one_field_set():
    node = properties(
        it={"oneOf": [{"type": "null"}, {"type": "integer"}, {"type": "string"},
                      properties(a={"type": "integer"}), properties(b={"type": "string"})]}
    )  # fmt: skip
    for value, place in ((5, 0), ("x", 1), ({"a": 1}, 2), ({"b": "y"}, 3)):
        schema, found = read(node, {"it": value})
        chosen = found.get("it")
        assert chosen.schema.name == ONE_OF
        assert [each is not None for each in chosen.values] == [n == place for n in range(4)]
        registry = Registry()
        again = converter(registry).from_connect("t", schema, found)
        assert converter(registry).to_connect("t", again) == (schema, found)
    assert read(node, {"it": None})[1].get("it") is None


def test_json_schema_all_of_is_one_struct():
    node = {
        "definitions": {"base": properties(id={"type": "integer"})},
        "allOf": [{"$ref": "#/definitions/base"}, properties(name={"type": "string"})],
        "title": "Both",
    }
    schema, value = read(node, {"id": 1, "name": "x"})
    assert (schema.name, value.values) == ("Both", [1, "x"])


def test_json_schema_property_that_is_not_required_may_be_optional():
    node = {**properties(a={"type": "string"}, b={"type": "string"}), "required": ["a"]}
    _, value = read(node, {"a": "x"}, use__optional__for__nonrequired="true")
    assert value.values == ["x", None]
    with pytest.raises(DataError, match="field b: Invalid null value for required STRING field"):
        read(node, {"a": "x"})


def test_json_schema_order_follows_connect_index():
    node = properties(
        z={"type": "string", "connect.index": 0}, a={"type": "string", "connect.index": 1}
    )
    schema, _ = read(node, {"a": "1", "z": "2"})
    assert [field.name for field in schema.fields] == ["z", "a"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{}", "Unknown magic byte"),
        (b"\x00\x00\x00\x00\x09{}", "schema 9: Schema 9 not found"),
        (ID, "schema 1: "),
        (ID + b'{"n": 1', "schema 1: "),
        (ID + b"\xff\xfe", "schema 1: "),
        (ID + b'{"n": "x"}', "schema 1: field n: .* of type STRING does not fit"),
        (ID + b'{"n": 1.5}', "schema 1: field n: .* of type NUMBER does not fit"),
        (ID + b'{"n": 300}', "schema 1: field n: .* does not fit"),
        (ID + b'{"n": true}', "schema 1: field n: .* of type BOOLEAN does not fit"),
        (ID + b'{"n": NaN}', "schema 1: NaN is not JSON"),
        (ID + b"[1]", "schema 1: .* of type ARRAY does not fit"),
    ],
)
def test_json_schema_unreadable_data_is_refused(data: bytes, message: str):
    registry = Registry()
    text = json.dumps(properties(n={"type": "integer", "connect.type": "int8"}))
    registry.schemas.append(("t-value", RegisteredSchema("JSON", text)))
    with pytest.raises(DataError, match=message):
        converter(registry).to_connect("t", data)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (True, "has no schema in Connect"),
        ({}, "has no schema in Connect"),
        ({"type": "array"}, "did not specify the items type"),
        (properties(a={"$ref": "gone.json"}), "gone.json, which is not a reference"),
        (properties(a={"$ref": "#/definitions/gone"}), "which does not exist"),
        (properties(a={"$ref": "http://127.0.0.1:1/x"}), "which is not a reference"),
        (properties(next={"$ref": "#"}), "contains itself"),
        ({"type": "integer", "connect.type": "int128"}, "unknown connect.type int128"),
    ],
)
def test_json_schema_that_cannot_be_used_is_refused(node: Any, message: str):
    with pytest.raises(DataError, match=f"schema 1: .*{message}"):
        read(node, {})


def test_json_schema_values_are_checked_on_request():
    node = properties(n={"type": "integer", "minimum": 5})
    assert read(node, {"n": 1})[1].values == [1]
    with pytest.raises(DataError, match="1 is less than the minimum of 5"):
        read(node, {"n": 1}, json__fail__invalid__schema="true")


def test_json_schema_property_without_effect_is_refused():
    with pytest.raises(ConfigValueError, match="does not support"):
        converter(Registry(), generalized__sum__type__support="true")


def test_json_schema_primitive_without_schema_is_written():
    registry = Registry()
    data = converter(registry).from_connect("t", None, "ab")
    assert converter(registry).to_connect("t", data) == (s.STRING, "ab")
    with pytest.raises(DataError, match="needs a schema"):
        converter(registry).from_connect("t", None, {"a": 1})


def test_json_schema_numbers_that_json_lacks_are_texts():
    made = converter(Registry())
    for number, text in ((float("inf"), b'"Infinity"'), (float("-inf"), b'"-Infinity"')):
        data = made.from_connect("t", s.FLOAT64, number)
        assert data == ID + text
        assert made.to_connect("t", data) == (s.FLOAT64, number)


def test_json_schema_null_is_a_tombstone():
    made = converter(Registry())
    assert made.from_connect("t", s.OPTIONAL_INT8, None) is None
    assert made.to_connect("t", None) == (None, None)
