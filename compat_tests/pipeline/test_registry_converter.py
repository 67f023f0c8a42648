"""Our Avro converter and confluent-kafka's serializers with one schema registry."""

import json
from collections.abc import Iterator

import pytest

from barnabas.pipeline.connect.registry_client import open_registry
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.converters.avro_converter import AvroConverter

pytest.importorskip("starlette")
pytest.importorskip("confluent_kafka.schema_registry", reason="confluent-kafka has no extras here")
pytest.importorskip("fastavro")
pytest.importorskip("httpx")

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.registry.live_registry import live_registry

ROW = s.struct_schema([("id", s.INT64), ("name", s.OPTIONAL_STRING)], name="shop.Row")


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[str]:
    with live_registry(bootstrap, "_schemas_of_converters") as url:
        yield url


def converter(registry: str) -> AvroConverter:
    made = AvroConverter()
    made.open_lookup = open_registry
    made.configure({"schema.registry.url": registry}, is_key=False)
    return made


def test_avro_converter_and_serializers_read_each_other(registry: str) -> None:
    ours, client = converter(registry), SchemaRegistryClient({"url": registry})
    context = SerializationContext("rows", MessageField.VALUE)
    data = ours.from_connect("rows", ROW, s.Struct.of(ROW, {"id": 5, "name": "Ada"}))
    assert data is not None
    assert AvroDeserializer(client)(data, context) == {"id": 5, "name": "Ada"}
    latest = client.get_latest_version("rows-value").schema.schema_str
    written = AvroSerializer(client, latest)({"id": 6, "name": None}, context)
    schema, value = converter(registry).to_connect("rows", written)
    assert schema == ROW
    assert value.values == [6, None]


def test_avro_converter_incompatible_schema_is_refused(registry: str) -> None:
    ours = converter(registry)
    ours.from_connect("grown", s.STRING, "text")
    with pytest.raises(DataError, match="incompatible"):
        ours.from_connect("grown", s.INT32, 5)


def test_avro_converter_schema_of_another_client_is_read(registry: str) -> None:
    client = SchemaRegistryClient({"url": registry})
    text = json.dumps({"type": "record", "name": "U", "fields": [{"name": "n", "type": "int"}]})
    context = SerializationContext("users", MessageField.VALUE)
    written = AvroSerializer(client, text)({"n": 7}, context)
    schema, value = converter(registry).to_connect("users", written)
    assert (schema and schema.name, value.get("n")) == ("U", 7)
