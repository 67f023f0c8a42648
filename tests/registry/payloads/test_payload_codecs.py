"""Codecs of values: JSON to bytes and back, evolution, faults."""

import base64
import json
from typing import Any

import pytest

from barnabas.registry.payloads.payload_codecs import (
    PayloadError,
    PayloadSchema,
    codec_of,
)

pytest.importorskip("fastavro")

RECORD = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "a", "type": "string"},
        {"name": "b", "type": ["null", "bytes"], "default": None},
        {"name": "c", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
        {"name": "d", "type": {"type": "map", "values": "ext.E"}, "default": {}},
    ],
}
ENUM = {"type": "enum", "name": "E", "namespace": "ext", "symbols": ["X", "Y"]}


def avro(schema: Any, *references: Any) -> PayloadSchema:
    named = tuple((f"r{at}", json.dumps(each)) for at, each in enumerate(references))
    return PayloadSchema("AVRO", json.dumps(schema), named)


def test_avro_value_survives_encoding() -> None:
    codec = codec_of(avro(RECORD, ENUM))
    value = {"a": "x", "b": "\x00ÿ", "c": 17, "d": {"k": "Y"}}
    assert codec.decode(codec.encode(value)) == value


def test_avro_value_is_read_with_a_newer_schema() -> None:
    old = codec_of(avro(RECORD, ENUM))
    fields = [RECORD["fields"][0], {"name": "z", "type": "int", "default": 4}]  # type: ignore[index]
    new = codec_of(avro({**RECORD, "fields": fields}))
    data = old.encode({"a": "x", "b": None, "c": 1, "d": {}})
    assert new.decode_written(data, old) == {"a": "x", "z": 4}
    broken = codec_of(avro({**RECORD, "fields": [{"name": "z", "type": "int"}]}))
    with pytest.raises(PayloadError):
        broken.decode_written(data, old)


@pytest.mark.parametrize("data", [b"", b"\x02", b"\xff" * 20, b"\x02x\x00\x00\x00more"])
def test_damaged_avro_value_is_refused(data: bytes) -> None:
    with pytest.raises(PayloadError, match=r"does not match the schema|bytes after the value"):
        codec_of(avro(RECORD, ENUM)).decode(data)


def test_json_value_is_checked_with_references() -> None:
    base = json.dumps({"type": "string", "maxLength": 3})
    schema = json.dumps({"properties": {"a": {"$ref": "base.json"}}, "required": ["a"]})
    codec = codec_of(PayloadSchema("JSON", schema, (("base.json", base),)))
    assert codec.decode(codec.encode({"a": "xyz"})) == {"a": "xyz"}
    for value in ({}, {"a": "long text"}):
        with pytest.raises(PayloadError):
            codec.encode(value)


def protobuf_text() -> str:
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name="x", package="p", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    outer = file.message_type.add(name="Outer")
    outer.field.add(name="s", number=1, type=9, label=1)
    inner = outer.nested_type.add(name="Inner")
    inner.field.add(name="n", number=1, type=5, label=1)
    inner.field.add(name="t", number=2, type=11, label=1, type_name=".google.protobuf.Timestamp")
    return base64.b64encode(file.SerializeToString()).decode()


def test_protobuf_value_of_a_nested_message_survives_encoding() -> None:
    pytest.importorskip("google.protobuf")
    schema = PayloadSchema("PROTOBUF", protobuf_text())
    codec = codec_of(schema, "p.Outer.Inner")
    value = {"n": 5, "t": "2026-01-01T00:00:00Z"}
    data = codec.encode(value)
    assert data.startswith(b"\x04\x00\x00")
    assert codec.decode(data) == value
    assert codec_of(schema).decode(codec_of(schema).encode({"s": "x"})) == {"s": "x"}
    with pytest.raises(PayloadError):
        codec.decode(b"\x08\x02")


NODE = {
    "type": "record",
    "name": "Node",
    "namespace": "n",
    "fields": [
        {"name": "value", "type": ["null", "string", "int"]},
        {"name": "next", "type": ["null", "Node"], "default": None},
    ],
}


def test_avro_union_takes_branches_named_as_in_avros_json() -> None:
    codec = codec_of(avro(NODE))
    tagged = {"value": {"string": "a"}, "next": {"n.Node": {"value": {"int": 3}}}}
    plain = {"value": "a", "next": {"value": 3, "next": None}}
    assert codec.encode(tagged) == codec.encode(plain)
    assert codec.decode(codec.encode(tagged)) == plain


@pytest.mark.parametrize(
    ("value", "branch"),
    [
        ("A", 0),
        ({"E": "A"}, 1),
        ({"bytes": "A"}, 2),
        ({"array": [1]}, 3),
        ({"map": {"a": {"string": "b"}}}, 4),
        ({"x": 1}, 4),
    ],
)
def test_avro_union_value_has_its_branch(value: Any, branch: int) -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["A"]}
    array, entries = {"type": "array", "items": "int"}, {"type": "map", "values": ["int", "string"]}
    codec = codec_of(avro(["string", enum, "bytes", array, entries]))
    assert codec.encode(value)[0] == 2 * branch


def test_avro_union_without_a_fitting_branch_is_refused() -> None:
    with pytest.raises(PayloadError, match="fits no branch"):
        codec_of(avro(["null", "int"])).encode({"string": "a"})
