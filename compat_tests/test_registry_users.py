"""Confluent's registry client with basic credentials of a Kafka user, whose ACLs decide."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from compat_tests.registry_instances import RegistryInstance
from tests.secured_node import SecuredNode, add_users, allow, secured_node

pytestmark = pytest.mark.barnabas_only

AVRO = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}'
OTHER = '{"type": "record", "name": "Order", "fields": []}'


@pytest.fixture(scope="module")
def node() -> Iterator[SecuredNode]:
    with secured_node() as found:
        add_users(found, "registry", "producer", "consumer", "other")
        allow(found, "registry", "broker:kafka-cluster", "DESCRIBE")
        allow(found, "registry", "group:schema-registry", "READ")
        rights = ("CREATE", "READ", "WRITE", "DESCRIBE_CONFIGS")
        allow(found, "registry", "topic:_schemas", *rights)
        allow(found, "producer", "topic:orders", "WRITE")
        allow(found, "consumer", "topic:orders", "READ")
        yield found


@pytest.fixture(scope="module")
def url(node: SecuredNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run `barnabas registry` with a file for Java's tools, which also says how it authorizes."""
    directory = tmp_path_factory.mktemp("registry")
    file: Path = directory / "client.properties"
    jaas = 'ScramLoginModule required username="registry" password="registry-secret";'
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.scram.{jaas}\n"
        "barnabas.http.auth=kafka\nbarnabas.registry.authorize=true\n"
    )
    instance = RegistryInstance(node.sasl, directory, "--command-config", str(file))
    instance.start()
    try:
        instance.wait_ready()
        yield instance.url
    finally:
        instance.kill()


def client(url: str, user: str, password: str = "") -> SchemaRegistryClient:
    secret = password or f"{user}-secret"
    return SchemaRegistryClient({"url": url, "basic.auth.user.info": f"{user}:{secret}"})


def test_producer_writes_and_consumer_reads_with_their_own_rights(url: str) -> None:
    producer, consumer, other = (client(url, name) for name in ("producer", "consumer", "other"))
    context = SerializationContext("orders", MessageField.VALUE)
    data = AvroSerializer(producer, AVRO)({"id": 7}, context)
    assert AvroDeserializer(consumer)(data, context) == {"id": 7}
    for refused in (
        lambda: consumer.register_schema("orders-value", Schema(OTHER, "AVRO")),
        lambda: producer.set_compatibility(subject_name="orders-value", level="NONE"),
        lambda: producer.delete_subject("orders-value"),
        lambda: other.get_latest_version("orders-value"),
    ):
        with pytest.raises(SchemaRegistryError) as caught:
            refused()
        assert (caught.value.http_status_code, caught.value.error_code) == (403, 40301)
    with pytest.raises(SchemaRegistryError) as caught:
        AvroDeserializer(other)(data, context)
    assert (caught.value.http_status_code, caught.value.error_code) == (404, 40403)
    assert consumer.get_subjects() == ["orders-value"]
    assert other.get_subjects() == []
    with pytest.raises(SchemaRegistryError) as caught:
        client(url, "consumer", "wrong").get_subjects()
    assert (caught.value.http_status_code, caught.value.error_code) == (401, 40101)
