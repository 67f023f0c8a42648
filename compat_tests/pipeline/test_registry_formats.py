"""Our Protobuf and JSON Schema converters and confluent-kafka's serializers with one registry."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from barnabas.pipeline.connect.registry_client import open_registry
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import Schema, Struct, Type
from barnabas.pipeline.data.converters.json_schema_converter import JsonSchemaConverter
from barnabas.pipeline.data.converters.protobuf_converter import ProtobufConverter
from barnabas.pipeline.data.java_values import EpochMillis

pytest.importorskip("starlette")
pytest.importorskip("confluent_kafka.schema_registry", reason="confluent-kafka has no extras here")
pytest.importorskip("google.protobuf")
pytest.importorskip("google.type.date_pb2")
pytest.importorskip("jsonschema")
pytest.importorskip("httpx")

from confluent_kafka.schema_registry import Schema as RegisteredSchema
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, timestamp_pb2
from google.protobuf.message_factory import GetMessageClass
from google.type import date_pb2

from tests.registry.live_registry import live_registry

ROW = s.struct_schema(
    [
        ("id", s.INT64),
        ("name", s.OPTIONAL_STRING),
        ("small", s.INT16),
        ("price", s.decimal_schema(2)),
        ("day", s.DATE),
        ("at", s.TIMESTAMP),
        ("tags", s.array_schema(s.STRING)),
        ("stock", s.map_schema(s.STRING, s.INT32)),
        ("inner", s.struct_schema([("x", s.BOOLEAN)], name="shop.Inner", optional=True)),
    ],
    name="shop.Row",
)
INNER = s.struct_schema([("x", s.BOOLEAN)], name="shop.Inner", optional=True)
VALUE = Struct.of(
    ROW,
    {
        "id": 5,
        "name": "Ada",
        "small": -3,
        "price": Decimal("12.50"),
        "day": EpochMillis(86_400_000),
        "at": EpochMillis(1_500),
        "tags": ["a", "b"],
        "stock": {"pen": 4},
        "inner": Struct.of(INNER, {"x": True}),
    },
)


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[str]:
    with live_registry(bootstrap, "_schemas_of_formats") as url:
        yield url


def configured(made: Any, registry: str, **props: str) -> Any:
    own = {name.replace("__", "."): value for name, value in props.items()}
    made.open_lookup = open_registry
    made.configure({"schema.registry.url": registry, **own}, is_key=False)
    return made


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def file_of(name: str, message: str, fields: list[tuple[str, int, Any]], *imports: str) -> Any:
    """Return a file with one message; a field's type is a number, or the name of a message."""
    file = descriptor_pb2.FileDescriptorProto(name=name, package="shop", syntax="proto3")
    file.dependency.extend(imports)
    made = file.message_type.add(name=message)
    for field, number, kind in fields:
        added = made.field.add(name=field, number=number, label=1)
        if isinstance(kind, str):
            added.type, added.type_name = 11, kind
        else:
            added.type = kind
    return file


def message_class(*files: Any) -> Any:
    """Return the class of the first message of the last file."""
    pool: Any = descriptor_pool.DescriptorPool()
    for module in (timestamp_pb2, date_pb2):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        pool.Add(file)
    for file in files:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(f"shop.{files[-1].message_type[0].name}"))


def test_protobuf_of_the_serializer_is_read_with_its_references(registry: str) -> None:
    customer = file_of("customer.proto", "Customer", [("name", 1, 9)])
    order = file_of(
        "order.proto",
        "Order",
        [
            ("id", 1, 3),
            ("customer", 2, ".shop.Customer"),
            ("at", 3, ".google.protobuf.Timestamp"),
            ("day", 4, ".google.type.Date"),
        ],
        "customer.proto",
        "google/protobuf/timestamp.proto",
        "google/type/date.proto",
    )
    made = message_class(customer, order)
    message = made(id=7)
    message.customer.name = "Ada"
    message.at.seconds = 3
    message.day.year, message.day.month, message.day.day = 1970, 1, 2
    client = SchemaRegistryClient({"url": registry})
    serialize = ProtobufSerializer(made, client, {"use.deprecated.format": False})
    data = serialize(message, context("orders"))
    schema, value = configured(ProtobufConverter(), registry).to_connect("orders", data)
    assert schema is not None
    assert [field.schema.type for field in schema.fields] == [
        Type.INT64, Type.STRUCT, Type.INT64, Type.INT32,
    ]  # fmt: skip
    assert value.get("id") == 7
    assert value.get("customer").get("name") == "Ada"
    assert (value.get("at"), value.get("day")) == (EpochMillis(3_000), EpochMillis(86_400_000))


def test_protobuf_of_the_converter_is_read_by_the_deserializer(registry: str) -> None:
    ours = configured(ProtobufConverter(), registry, optional__for__nullables="true")
    data = ours.from_connect("rows", ROW, VALUE)
    again = configured(ProtobufConverter(), registry, optional__for__nullables="true")
    _, found = again.to_connect("rows", data)
    assert found.values[:8] == VALUE.values[:8]
    assert found.get("inner").get("x") is True
    theirs = file_of("row.proto", "Row", [("id", 1, 3), ("name", 2, 9), ("small", 3, 5)])
    client = SchemaRegistryClient({"url": registry})
    read = ProtobufDeserializer(message_class(theirs), {"use.deprecated.format": False}, client)
    message = read(data, context("rows"))
    assert (message.id, message.name, message.small) == (5, "Ada", -3)


def test_protobuf_schema_of_the_converter_is_registered_once(registry: str) -> None:
    for _ in range(2):
        ours = configured(ProtobufConverter(), registry)
        ours.from_connect("once", ROW, VALUE)
    client = SchemaRegistryClient({"url": registry})
    assert client.get_versions("once-value") == [1]


@pytest.mark.parametrize("value", ["text", 5, 0.5, True, b"\x00"])
def test_protobuf_primitive_is_registered_and_read(registry: str, value: Any) -> None:
    topic = f"primitive-{type(value).__name__}"
    data = configured(ProtobufConverter(), registry).from_connect(topic, None, value)
    assert configured(ProtobufConverter(), registry).to_connect(topic, data)[1] == value


def test_json_of_the_serializer_is_read_with_its_references(registry: str) -> None:
    client = SchemaRegistryClient({"url": registry})
    customer = {"type": "object", "title": "Customer", "properties": {"name": {"type": "string"}}}
    client.register_schema("customer", RegisteredSchema(json.dumps(customer), "JSON"))
    order = {
        "type": "object",
        "title": "Order",
        "properties": {"id": {"type": "integer"}, "customer": {"$ref": "customer.json"}},
    }
    reference = SchemaReference("customer.json", "customer", 1)
    registered = RegisteredSchema(json.dumps(order), "JSON", [reference])
    serialize = JSONSerializer(registered, client)
    data = serialize({"id": 7, "customer": {"name": "Ada"}}, context("json-orders"))
    schema, value = configured(JsonSchemaConverter(), registry).to_connect("json-orders", data)
    assert (schema and schema.name, value.get("id")) == ("Order", 7)
    assert value.get("customer").get("name") == "Ada"


def test_json_of_the_converter_is_read_by_the_deserializer(registry: str) -> None:
    ours = configured(JsonSchemaConverter(), registry, decimal__format="NUMERIC")
    data = ours.from_connect("json-rows", ROW, VALUE)
    again = configured(JsonSchemaConverter(), registry).to_connect("json-rows", data)
    assert again == (ROW, VALUE)
    client = SchemaRegistryClient({"url": registry})
    read = JSONDeserializer(None, schema_registry_client=client)
    assert read(data, context("json-rows")) == {
        "id": 5, "name": "Ada", "small": -3, "price": 12.5, "day": 1, "at": 1500,
        "tags": ["a", "b"], "stock": {"pen": 4}, "inner": {"x": True},
    }  # fmt: skip


@pytest.mark.parametrize("kind", [ProtobufConverter, JsonSchemaConverter])
def test_incompatible_schema_of_a_converter_is_refused(registry: str, kind: Any) -> None:
    def row(schema: Schema) -> tuple[Schema, Struct]:
        found = s.struct_schema([("n", schema)], name="Row")
        return found, Struct(found, ["text" if schema is s.STRING else 5])

    ours, topic = configured(kind(), registry), f"grown-{kind.schema_type}"
    ours.from_connect(topic, *row(s.STRING))
    with pytest.raises(DataError, match="incompatible"):
        ours.from_connect(topic, *row(s.INT64))


@pytest.mark.parametrize("kind", [ProtobufConverter, JsonSchemaConverter])
def test_unknown_id_is_refused_with_the_id(registry: str, kind: Any) -> None:
    with pytest.raises(DataError, match=r"schema 12345: .*not found"):
        configured(kind(), registry).to_connect("t", b"\x00" + (12345).to_bytes(4, "big") + b"\x00")
