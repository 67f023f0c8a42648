"""Protobuf, JSON Schema and Avro of apps: a real registry, and confluent-kafka's serializers."""

import datetime
import decimal
import json
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from compat_tests import spark as setup

pytest.importorskip("starlette")
pytest.importorskip("confluent_kafka.schema_registry", reason="confluent-kafka has no extras here")
pytest.importorskip("fastavro")
pytest.importorskip("google.protobuf")
pytest.importorskip("jsonschema")
pytest.importorskip("httpx")

from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass

from barnabas import streams as ks
from barnabas.pipeline.streams.serdes import SerdeContext
from compat_tests.pipeline.conftest import eventually
from compat_tests.pipeline.killed_job import read_committed
from tests.registry.live_registry import live_registry

pytestmark = [
    setup.needed,
    pytest.mark.timeout(300),
]

TEXT, LONG = 9, 3  # types of Protobuf's fields


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[str]:
    with live_registry(bootstrap, "_schemas_of_app_serdes") as url:
        yield url


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def message_class(*fields: tuple[str, int, int]) -> Any:
    """Return the class of the message shop.Order with these fields."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    for name, number, kind in fields:
        order.field.add(name=name, number=number, label=1, type=kind)
    pool: Any = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


OLD_PROTOBUF = message_class(("id", 1, LONG))
NEW_PROTOBUF = message_class(("id", 1, LONG), ("name", 2, TEXT))
OLD_JSON = {
    "title": "Order",
    "type": "object",
    "additionalProperties": False,
    "required": ["id"],
    "properties": {"id": {"type": "integer"}},
}
NEW_JSON = {**OLD_JSON, "properties": {**OLD_JSON["properties"], "name": {"type": "string"}}}
OLD_AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NEW_AVRO = {
    **OLD_AVRO,
    "fields": [*OLD_AVRO["fields"], {"name": "name", "type": "string", "default": ""}],
}


@attrs.frozen
class Format:
    """A format with confluent-kafka's clients of it."""

    serde: Callable[..., ks.Serde]
    write_old: Callable[[SchemaRegistryClient, SerializationContext, int], bytes]
    write_new: Callable[[SchemaRegistryClient, SerializationContext, int, str], bytes]
    read: Callable[[SchemaRegistryClient, SerializationContext, bytes], Any]
    missing: str | None
    """The name in a record of the older schema."""


def protobuf(made: Any, client: SchemaRegistryClient, at: SerializationContext) -> bytes:
    serialize = ProtobufSerializer(type(made), client, {"use.deprecated.format": False})
    data = serialize(made, at)
    assert data is not None
    return data


def read_protobuf(client: SchemaRegistryClient, at: SerializationContext, data: bytes) -> Any:
    options = {"use.deprecated.format": False}
    message: Any = ProtobufDeserializer(NEW_PROTOBUF, options, client)(data, at)
    return {"id": message.id, "name": message.name}


FORMATS = {
    "protobuf": Format(
        ks.Protobuf,
        lambda client, at, n: protobuf(OLD_PROTOBUF(id=n), client, at),
        lambda client, at, n, name: protobuf(NEW_PROTOBUF(id=n, name=name), client, at),
        read_protobuf,
        "",
    ),
    "json": Format(
        ks.JsonSchema,
        lambda client, at, n: JSONSerializer(json.dumps(OLD_JSON), client)({"id": n}, at),
        lambda client, at, n, name: JSONSerializer(json.dumps(NEW_JSON), client)(
            {"id": n, "name": name}, at
        ),
        lambda client, at, data: JSONDeserializer(None, schema_registry_client=client)(data, at),
        None,
    ),
    "avro": Format(
        ks.Avro,
        lambda client, at, n: AvroSerializer(client, json.dumps(OLD_AVRO))({"id": n}, at),
        lambda client, at, n, name: AvroSerializer(client, json.dumps(NEW_AVRO))(
            {"id": n, "name": name}, at
        ),
        lambda client, at, data: AvroDeserializer(client)(data, at),
        "",
    ),
}


@pytest.fixture
def client(registry: str) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry})


@pytest.fixture
def app(engine, bootstrap, registry, unique, tmp_path) -> Iterator[Callable[[], ks.App]]:
    made: list[ks.App] = []

    def make() -> ks.App:
        name = unique("serdes")
        state = tmp_path / name
        found = ks.App.attach(engine.session, name, bootstrap, state=state, registry=registry)
        made.append(found)
        return found

    yield make
    for each in made:
        each.stop()


def send(bootstrap: str, topic: str, *values: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, value in enumerate(values):
        producer.produce(topic, value, str(number), partition=0)
    assert producer.flush(90) == 0


@pytest.mark.parametrize("name", ["protobuf", "json"])
def test_records_that_do_not_decode_have_the_outcome_of_on_error(
    name: str, app, topics, unique, bootstrap, client
) -> None:
    """Records of two schemas, a tombstone, and three that do not decode."""
    form = FORMATS[name]
    source, target, letters = topics.create("in"), topics.create("out"), topics.create("letters")
    at = context(source)
    good = [form.write_old(client, at, 1), form.write_new(client, at, 2, "Ada"), None]
    unknown_id = b"\x00\x00\x01\x86\x9f" + good[0][5:]
    bad = [b"text", unknown_id, good[1][:5] + b"\xff\xff\xff"]
    send(bootstrap, source, *good, *bad, form.write_new(client, at, 3, "Bo"))
    running = app()
    skipped = running.topic(source, value=form.serde(), on_error="skip")
    lettered = running.topic(
        source, value=form.serde(), on_error="dead-letter", dead_letters=letters
    )
    of_source = form.serde(f"{source}-value")
    renamed = lettered.map_values(id="id", name="upper(name)")
    running.write(skipped, target, value=of_source, name=unique("skipping"))
    running.write(renamed, target, value=of_source, name=unique("renaming"))
    with running:
        eventually(lambda: len(read_committed(bootstrap, target)) >= 8)
        eventually(lambda: len(read_committed(bootstrap, letters)) >= 3)
    written = read_committed(bootstrap, target)
    found = [None if each.value() is None else form.read(client, at, each.value())
             for each in written]  # fmt: skip
    assert len(found) == 8
    shown = sorted(str(each and (each["id"], each.get("name"))) for each in found)
    old = str((1, form.missing))
    assert shown == sorted([*[old] * 2, *["None"] * 2, "(2, 'Ada')", "(2, 'ADA')", "(3, 'Bo')",
                            "(3, 'BO')"])  # fmt: skip
    dead = read_committed(bootstrap, letters)
    assert [each.value() for each in dead] == bad
    reasons = [dict(each.headers())["__connect.errors.exception.message"].decode() for each in dead]
    assert "it has no schema id" in reasons[0]
    assert "not found" in reasons[1]
    failing = app()
    failing.write(failing.topic(source, value=form.serde()), topics.create("none"))
    with (
        pytest.raises(ks.StreamFailedError, match=f"record {source}-0@3: the value is not"),
        failing,
    ):
        failing.wait(120)


def test_value_that_the_schema_does_not_allow_ends_the_app(app, topics, bootstrap, client) -> None:
    form = FORMATS["protobuf"]
    source, target = topics.create("in"), topics.create("out")
    form.write_new(client, context(target), 1, "x")  # registers the schema of the results
    send(bootstrap, source, b"text")
    failing = app()
    texts = failing.topic(source, value=ks.String())
    failing.write(texts.map_values(id="value", name="value"), target, value=form.serde())
    expected = f"cannot be written as {form.serde.__name__} of subject {target}-value: .*Row"
    with pytest.raises(ks.StreamFailedError, match=expected), failing:
        failing.wait(120)
    assert read_committed(bootstrap, target) == []


FULL_AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "lines", "type": {"type": "array", "items": "int"}, "default": []},
        {
            "name": "at",
            "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
            "default": None,
        },
        {
            "name": "price",
            "type": [
                "null",
                {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            ],
            "default": None,
        },
    ],
}


def test_avro_types_are_those_of_spark(engine, registry, client) -> None:
    at_orders = context("orders")
    old = AvroSerializer(client, json.dumps(OLD_AVRO))({"id": 1}, at_orders)
    at = datetime.datetime(2026, 11, 22, 16, 0, 0, 5000, tzinfo=datetime.UTC)
    full = {"id": 2, "name": "x", "lines": [1, 2], "at": at, "price": decimal.Decimal("1.50")}
    new = AvroSerializer(client, json.dumps(FULL_AVRO))(full, at_orders)
    serde = ks.Avro().prepared(SerdeContext("orders", "value", registry))
    frame = engine.session.createDataFrame(
        [(0, old), (1, new), (2, None), (3, b"text"), (4, b"\0\0\0\0\1")], "n INT, raw BINARY"
    )
    parsed = frame.withColumn("parsed", serde.parse(frame["raw"]))
    value = serde.value(parsed["parsed"])
    error = serde.error(parsed["raw"], parsed["parsed"])
    rows = parsed.select(
        "n", value.alias("value"), error.alias("error"), serde.encode(value).alias("bytes")
    ).sort("n")
    assert rows.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,name:string,lines:array<int>,at:timestamp,price:decimal(9,2)>"
    )
    found = rows.collect()
    assert found[0].value.asDict() == {
        "id": 1, "name": None, "lines": [], "at": None, "price": None
    }  # fmt: skip
    assert found[1].value.price == decimal.Decimal("1.50")
    assert AvroDeserializer(client)(bytes(found[1].bytes), at_orders) == full
    assert [row.error is not None for row in found] == [False, False, False, True, True]
    assert (found[2].value, found[2].bytes) == (None, None)
    assert "it has no schema id" in found[3].error


RICH_PROTOBUF = """
    syntax = "proto3";
    import "google/protobuf/timestamp.proto";
    import "google/type/date.proto";
    message Row {
      google.protobuf.Timestamp at = 1;
      google.type.Date day = 2;
      map<string, Part> parts = 3;
      oneof one { string text = 4; bytes raw = 5; }
      repeated float numbers = 6;
      message Part { optional int32 n = 1; }
    }
"""
RICH_JSON = {
    "type": "object",
    "properties": {
        "at": {"type": "integer", "title": "org.apache.kafka.connect.data.Timestamp"},
        "day": {
            "type": "integer",
            "title": "org.apache.kafka.connect.data.Date",
            "connect.type": "int32",
        },
        "parts": {
            "type": "object",
            "connect.type": "map",
            "additionalProperties": {"type": "object", "properties": {"n": {"type": "integer"}}},
        },
        "raw": {"type": "string", "connect.type": "bytes"},
        "numbers": {"type": "array", "items": {"type": "number"}},
    },
}
AT = datetime.datetime(2026, 11, 22, 16, 0, 0, 5000, tzinfo=datetime.UTC)
RICH = {
    "at": AT,
    "day": datetime.date(1969, 12, 31),
    "parts": {"a": {"n": 1}, "b": {"n": None}},
    "numbers": [0.5, -1.25],
}


@pytest.mark.parametrize(
    ("serde", "value", "columns"),
    [
        (
            ks.Protobuf("rich", schema=RICH_PROTOBUF),
            {**RICH, "one": {"text": None, "raw": b"\x00"}},
            "struct<one:struct<text:string,raw:binary>,at:timestamp,day:date,"
            "parts:map<string,struct<n:int>>,numbers:array<float>>",
        ),
        (
            ks.JsonSchema("rich-json", schema=json.dumps(RICH_JSON)),
            {**RICH, "raw": b"\x00"},
            "struct<at:timestamp,day:date,parts:map<string,struct<n:bigint>>,raw:binary,"
            "numbers:array<double>>",
        ),
    ],
    ids=["protobuf", "json"],
)
def test_types_of_the_registry_are_those_of_spark(
    engine, registry, serde: ks.Serde, value: Any, columns: str
) -> None:
    prepared: Any = serde.prepared(SerdeContext("t", "value", registry))
    rows = [(0, prepared.dump(value)), (1, prepared.dump({})), (2, None)]
    frame = engine.session.createDataFrame(rows, "n INT, raw BINARY")
    parsed = frame.withColumn("parsed", prepared.parse(frame["raw"]))
    found = parsed.withColumn("value", prepared.value(parsed["parsed"]))
    assert found.schema["value"].dataType.simpleString() == columns
    sql = ["unix_millis(value.at)", "CAST(value.day AS STRING)", "value.parts['a'].n"]
    (shown,) = found.filter("n = 0").selectExpr(*sql).collect()
    assert tuple(shown) == (int(AT.timestamp() * 1000), "1969-12-31", 1)
    encoded = found.select("n", prepared.encode(found["value"]).alias("again")).sort("n").collect()
    assert [each.again is None for each in encoded] == [False, False, True]
    assert prepared.load(bytes(encoded[0].again)) == value
    assert prepared.load(bytes(encoded[1].again)) == prepared.load(rows[1][1])


LOOP = 'syntax = "proto3"; message Node { Node next = 1; }'
TWO = 'syntax = "proto3"; package shop; message A { int64 n = 1; } message B { string s = 1; }'


def test_schema_that_spark_cannot_hold_is_refused_with_the_reason(registry, client) -> None:
    def prepared(serde: ks.Serde, url: str = registry) -> Any:
        return serde.prepared(SerdeContext("t", "value", url))

    for name, form in FORMATS.items():
        with pytest.raises(ks.RegistrySchemaError, match="no schema of subject absent"):
            prepared(form.serde("absent"))
        with pytest.raises(ks.RegistrySchemaError, match=r"subject t-value needs a registry: App"):
            prepared(form.serde(), "")
        kind = {"protobuf": "AVRO", "json": "PROTOBUF", "avro": "JSON"}[name]
        text = {"AVRO": '"string"', "PROTOBUF": TWO, "JSON": '{"type": "string"}'}[kind]
        client.register_schema(f"other-{name}", Schema(text, kind))
        with pytest.raises(ks.RegistrySchemaError, match=f"has a schema of {kind}, not "):
            prepared(form.serde(f"other-{name}"))
    client.register_schema("loop", Schema(LOOP, "PROTOBUF"))
    with pytest.raises(ks.RegistrySchemaError, match="subject loop: the message Node contains its"):
        prepared(ks.Protobuf("loop"))
    client.register_schema("union", Schema('["int", "string"]', "AVRO"))
    with pytest.raises(ks.RegistrySchemaError, match="subject union: a union of 2 types"):
        prepared(ks.Avro("union"))
    with pytest.raises(ks.RegistrySchemaError, match=r"no message C; its messages: shop\.A, shop"):
        prepared(ks.Protobuf("other-json", message="C"))
    with pytest.raises(ks.RegistrySchemaError, match="JSON Schema"):
        prepared(ks.JsonSchema("any", schema='{"type": "null"}'))


def test_schema_that_is_given_is_registered_for_its_subject(registry, client) -> None:
    at = SerdeContext("made", "key", registry)
    serde: Any = ks.Protobuf(schema=TWO, message="shop.B").prepared(at)
    found = client.get_latest_version("made-key")
    assert (found.schema.schema_type, found.version) == ("PROTOBUF", 1)
    prefix = b"\x00" + found.schema_id.to_bytes(4, "big")
    assert serde.dump({"s": "x"}) == prefix + b"\x02\x02\n\x01x"
    again: Any = ks.Protobuf(message="shop.B").prepared(at)
    assert again.schema_id == found.schema_id
