"""Avro of apps: a real registry, confluent-kafka's serializers, and Spark's types."""

import datetime
import decimal
import json
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests import spark as setup

pytest.importorskip("starlette")
pytest.importorskip("confluent_kafka.schema_registry", reason="confluent-kafka has no extras here")
pytest.importorskip("fastavro")
pytest.importorskip("httpx")

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from barnabas import streams as ks
from barnabas.pipeline.streams.serdes import SerdeContext
from tests.registry.live_registry import live_registry

pytestmark = [
    pytest.mark.skipif(setup.missing() is not None, reason=setup.missing() or ""),
    pytest.mark.timeout(240),
]

OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NEW = {
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


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[str]:
    with live_registry(bootstrap, "_schemas_of_streams") as url:
        yield url


def test_avro_of_two_schemas_is_read_and_written_for_other_clients(engine, registry) -> None:
    client = SchemaRegistryClient({"url": registry})
    context = SerializationContext("orders", MessageField.VALUE)
    old = AvroSerializer(client, json.dumps(OLD))({"id": 1}, context)
    at = datetime.datetime(2026, 11, 22, 16, 0, 0, 5000, tzinfo=datetime.UTC)
    full = {"id": 2, "name": "x", "lines": [1, 2], "at": at, "price": decimal.Decimal("1.50")}
    new = AvroSerializer(client, json.dumps(NEW))(full, context)
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
    assert AvroDeserializer(client)(bytes(found[1].bytes), context) == full
    assert [row.error is not None for row in found] == [False, False, False, True, True]
    assert (found[2].value, found[2].bytes) == (None, None)
    assert "it has no schema id" in found[3].error


def test_avro_that_spark_cannot_hold_is_refused_with_the_reason(registry) -> None:
    client = SchemaRegistryClient({"url": registry})

    def prepared(subject: str, **options: Any) -> Any:
        return ks.Avro(subject, **options).prepared(SerdeContext("t", "value", registry))

    with pytest.raises(ks.RegistrySchemaError, match="no schema of subject absent"):
        prepared("absent")
    with pytest.raises(ks.RegistrySchemaError, match="needs a registry"):
        ks.Avro().prepared(SerdeContext("t", "value"))
    client.register_schema("union", Schema('["int", "string"]', "AVRO"))
    with pytest.raises(ks.RegistrySchemaError, match="a union of 2 types"):
        prepared("union")
