"""confluent-kafka's serializers against our registry: Avro, JSON Schema and Protobuf."""

import asyncio
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.registry_instances import RegistryInstance, instances

pytest.importorskip("starlette")
pytest.importorskip("confluent_kafka.schema_registry", reason="confluent-kafka has no extras here")
pytest.importorskip("fastavro")
pytest.importorskip("httpx")

from confluent_kafka.schema_registry import (
    AsyncSchemaRegistryClient,
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    ServerConfig,
    dual_schema_id_deserializer,
    header_schema_id_serializer,
)
from confluent_kafka.serialization import (
    MessageField,
    SerializationContext,
    SerializationError,
)

USER = {
    "type": "record",
    "name": "User",
    "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": "int", "default": 0}],
}
VALUE = {"name": "Ada Lovelace", "age": 36}


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[RegistryInstance]:
    name = f"_schemas_{random.randrange(1 << 40)}"
    with instances(bootstrap, 1, "--topic", name, "--group", name) as (found,):
        yield found


@pytest.fixture
def client(registry: RegistryInstance) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


@pytest.fixture
def topic() -> str:
    return f"topic-{random.randrange(1 << 40)}"


def context(topic: str, headers: list[Any] | None = None) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, headers)


def test_avro_values_survive_and_register_under_the_topic(
    client: SchemaRegistryClient, topic: str
) -> None:
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

    data = AvroSerializer(client, json.dumps(USER))(VALUE, context(topic))
    assert data is not None
    assert data[0] == 0
    assert AvroDeserializer(client)(data, context(topic)) == VALUE
    latest = client.get_latest_version(f"{topic}-value")
    assert latest.schema_id == int.from_bytes(data[1:5], "big")
    assert client.get_subjects().count(f"{topic}-value") == 1


def test_avro_value_is_read_with_the_latest_version(
    client: SchemaRegistryClient, topic: str
) -> None:
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

    data = AvroSerializer(client, json.dumps(USER))(VALUE, context(topic))
    fields = [*USER["fields"], {"name": "mail", "type": ["null", "string"], "default": None}]
    newer = Schema(json.dumps({**USER, "fields": fields}), "AVRO")
    client.register_schema(f"{topic}-value", newer)
    settings = {"use.latest.version": True}
    read = AvroDeserializer(client, conf=settings)
    assert read(data, context(topic)) == {**VALUE, "mail": None}


def test_header_with_the_guid_names_the_schema(client: SchemaRegistryClient, topic: str) -> None:
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

    headers: list[Any] = []
    write = AvroSerializer(
        client, json.dumps(USER), conf={"schema.id.serializer": header_schema_id_serializer}
    )
    data = write(VALUE, context(topic, headers))
    assert headers
    read = AvroDeserializer(client, conf={"schema.id.deserializer": dual_schema_id_deserializer})
    assert read(data, context(topic, headers)) == VALUE


def test_incompatible_schema_is_refused_with_the_field(
    client: SchemaRegistryClient, topic: str
) -> None:
    subject = f"{topic}-value"
    client.register_schema(subject, Schema(json.dumps(USER), "AVRO"))
    fields = [*USER["fields"], {"name": "must", "type": "string"}]
    broken = Schema(json.dumps({**USER, "fields": fields}), "AVRO")
    assert not client.test_compatibility(subject, broken)
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema(subject, broken)
    assert refused.value.http_status_code == 409
    assert refused.value.error_code == 40901
    assert "must" in str(refused.value)


def test_references_metadata_rules_and_configuration_are_kept(
    client: SchemaRegistryClient, topic: str
) -> None:
    client.register_schema(f"{topic}-user", Schema(json.dumps(USER), "AVRO"))
    order = {"type": "record", "name": "Order", "fields": [{"name": "by", "type": "User"}]}
    reference = SchemaReference("User", f"{topic}-user", 1)
    rule = Rule(
        "check", None, RuleKind.CONDITION, RuleMode.WRITE, "CEL", None, None, "true", None, None,
        False,
    )  # fmt: skip
    schema = Schema(
        json.dumps(order),
        "AVRO",
        [reference],
        Metadata(None, MetadataProperties({"owner": "me"}), None),
        RuleSet(None, [rule]),
    )
    schema_id = client.register_schema(f"{topic}-value", schema)
    client.clear_caches()
    found = client.get_schema(schema_id)
    assert found.references == [reference]
    assert found.metadata.properties.properties == {"owner": "me"}
    assert [each.name for each in found.rule_set.domain_rules] == ["check"]
    assert client.lookup_schema(f"{topic}-value", schema).schema_id == schema_id
    client.set_config(f"{topic}-value", ServerConfig(ConfigCompatibilityLevel.FULL))
    assert client.get_config(f"{topic}-value").compatibility_level == "FULL"
    assert client.get_latest_with_metadata(f"{topic}-value", {"owner": "me"}).version == 1
    with pytest.raises(SchemaRegistryError) as refused:
        client.delete_subject(f"{topic}-user")
    assert refused.value.error_code == 42206
    assert client.delete_subject(f"{topic}-value") == [1]


def test_cel_rule_of_the_registry_stops_a_bad_value(
    client: SchemaRegistryClient, topic: str
) -> None:
    pytest.importorskip("celpy", reason="confluent-kafka's rules extra is not installed")
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.schema_registry.rules.cel.cel_executor import CelExecutor

    CelExecutor.register()
    rule = Rule(
        "adult", None, RuleKind.CONDITION, RuleMode.WRITE, "CEL", None, None,
        "message.age > 17", None, None, False,
    )  # fmt: skip
    schema = Schema(json.dumps(USER), "AVRO", [], None, RuleSet(None, [rule]))
    client.register_schema(f"{topic}-value", schema)
    settings = {"auto.register.schemas": False, "use.latest.version": True}
    write = AvroSerializer(client, conf=settings)
    assert write(VALUE, context(topic))
    with pytest.raises(SerializationError):
        write({"name": "Tim", "age": 5}, context(topic))


def test_json_values_survive_and_are_checked(client: SchemaRegistryClient, topic: str) -> None:
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer

    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "User",
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name"],
    }
    write = JSONSerializer(json.dumps(schema), client)
    data = write(VALUE, context(topic))
    read = JSONDeserializer(None, schema_registry_client=client)
    assert read(data, context(topic)) == VALUE
    with pytest.raises(SerializationError):
        write({"age": 1}, context(topic))


def order_class() -> Any:
    """Return a message class with a nested message, an import and a map."""
    from google.protobuf import descriptor_pb2, descriptor_pool, timestamp_pb2
    from google.protobuf.message_factory import GetMessageClass

    pool = descriptor_pool.Default()
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append(timestamp_pb2.DESCRIPTOR.name)
    file.message_type.add(name="Unused").field.add(name="x", number=1, type=9, label=1)
    order = file.message_type.add(name="Order")
    order.field.add(name="name", number=1, type=9, label=1)
    order.field.add(name="lines", number=2, type=11, label=3, type_name=".shop.Order.Line")
    order.field.add(name="at", number=3, type=11, label=1, type_name=".google.protobuf.Timestamp")
    line = order.nested_type.add(name="Line")
    line.field.add(name="count", number=1, type=5, label=1)
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_protobuf_values_survive_with_one_client_for_both_ways(
    client: SchemaRegistryClient, topic: str
) -> None:
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

    kind = order_class()
    message = kind(name="Ada", lines=[{"count": 3}])
    message.at.seconds = 17
    settings = {"use.deprecated.format": False}
    for _ in range(2):  # the second time from the caches of the client
        write = ProtobufSerializer(kind, client, settings)
        data = write(message, context(topic))
        assert data is not None
        assert data[5:7] == b"\x02\x02"  # the second message of the file
        read = ProtobufDeserializer(kind, settings, schema_registry_client=client)
        assert read(data, context(topic)) == message
    assert "message Order" in client.get_latest_version(f"{topic}-value").schema.schema_str


def test_async_client_registers_and_reads(registry: RegistryInstance, topic: str) -> None:
    from confluent_kafka.schema_registry.avro import AsyncAvroDeserializer, AsyncAvroSerializer

    async def both_ways() -> Any:
        client = AsyncSchemaRegistryClient({"url": registry.url})
        write = await AsyncAvroSerializer(client, json.dumps(USER))
        data = await write(VALUE, context(topic))
        read = await AsyncAvroDeserializer(client)
        return await read(data, context(topic))

    assert asyncio.run(both_ways()) == VALUE


def test_contexts_and_import_keep_ids(client: SchemaRegistryClient, topic: str) -> None:
    subject = f":.ctx-{topic}:s"
    schema = Schema(json.dumps(USER), "AVRO")
    assert client.register_schema(subject, schema) == 1
    client.clear_caches()
    assert client.get_schema(1, subject).schema_str == json.dumps(USER, separators=(",", ":"))
