"""Apache Kafka's Connect classes in one JVM, driven by lines of JSON (see ConnectPeer.java).

The functions here write our schemas, values and records in the peer's form, and bring both sides
to one form for comparison: maps in the order of their keys, numbers by value.
"""

import math
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from barnabas.pipeline.data.connect_schema import Schema, Struct, Type
from barnabas.pipeline.data.java_values import EpochMillis, Float32, Int8, Int16, Int32, narrowed
from barnabas.pipeline.data.records import ConnectRecord, SinkRecord
from compat_tests import jars
from compat_tests.pipeline.jvm_peer import JvmPeer

SOURCE = Path(__file__).with_name("ConnectPeer.java")
OPTIONS = ["-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US", "-Xss4m"]
_TAGS = {Type.INT8: "i8", Type.INT16: "i16", Type.INT32: "i32"}
_NARROW = {Int8: "i8", Int16: "i16", Int32: "i32"}


class ConnectPeer(JvmPeer):
    """The JVM; it runs one call at a time."""

    def __init__(self) -> None:
        super().__init__(SOURCE, [*jars.LOG_OPTIONS, *OPTIONS])

    def call(self, op: str, cases: Sequence[Any], **more: Any) -> list[Any]:
        """Return the answer to each case; one answer if the class could not be configured."""
        return self.ask({"op": op, "cases": list(cases), **more})


def schema_json(schema: Schema | None) -> Any:
    if schema is None:
        return None
    return {
        "type": schema.type.value,
        "optional": schema.optional,
        "name": schema.name,
        "version": schema.version,
        "doc": schema.doc,
        "parameters": None if schema.parameters is None else dict(schema.parameters),
        "default": value_json(schema.default, schema),
        "fields": [[field.name, schema_json(field.schema)] for field in schema.fields],
        "keys": schema_json(schema.key_schema),
        "values": schema_json(schema.value_schema),
    }


def value_json(value: Any, schema: Schema | None = None) -> Any:
    """Return a value in the peer's form; with a schema it has the width of a plain number."""
    match value:
        case None:
            return None
        case bool():
            return ["bool", value]
        case int():
            plain = "i64" if schema is None else _TAGS.get(schema.type, "i64")
            return [_NARROW.get(type(value), plain), int(value)]
        case float():
            return ["f32" if isinstance(value, Float32) else "f64", _float_text(value)]
        case str():
            return ["str", value]
        case bytes():
            return ["bytes", b64encode(value).decode()]
        case Decimal():
            sign, digits, exponent = value.as_tuple()
            assert isinstance(exponent, int)
            return ["dec", [str(int(Decimal((sign, digits, 0)))), -exponent]]
        case EpochMillis():
            return ["date", value.ms]
        case list():
            inner = schema.value_schema if schema is not None else None
            return ["list", [value_json(each, inner) for each in value]]
        case dict():
            keys = schema.key_schema if schema is not None else None
            values = schema.value_schema if schema is not None else None
            entries = [[value_json(k, keys), value_json(v, values)] for k, v in value.items()]
            return ["map", entries]
        case Struct():
            fields = zip(value.schema.fields, value.values, strict=True)
            return ["struct", [value_json(each, field.schema) for field, each in fields]]
        case _:
            raise AssertionError(f"no form for {value!r}")


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float.__repr__(value)


def record_json(record: ConnectRecord | None) -> Any:
    if record is None:
        return None
    return {
        "topic": record.topic,
        "partition": record.partition,
        "timestamp": record.timestamp_ms,
        "offset": record.offset if isinstance(record, SinkRecord) else None,
        "key_schema": schema_json(record.key_schema),
        "key": value_json(record.key, record.key_schema),
        "value_schema": schema_json(record.value_schema),
        "value": value_json(record.value, record.value_schema),
        "headers": [
            [each.name, schema_json(each.schema), value_json(each.value, each.schema)]
            for each in record.headers
        ],
    }


def bytes_json(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def json_bytes(answer: str | None) -> bytes | None:
    return None if answer is None else b64decode(answer)


def normal(node: Any) -> Any:
    """Return an answer in a form that is equal for equal values."""
    if isinstance(node, dict):
        return {key: normal(value) for key, value in node.items() if key != "offset"}
    if not isinstance(node, list):
        return node
    match node:
        case ["f32", str(text)]:
            return ["f32", repr(narrowed(float(text.replace("Infinity", "inf"))))]
        case ["f64", str(text)]:
            return ["f64", repr(float(text.replace("Infinity", "inf")))]
        case ["map", list(entries)]:
            return ["map", sorted((normal(entry) for entry in entries), key=repr)]
        case _:
            return [normal(each) for each in node]


def is_error(answer: Any) -> bool:
    return isinstance(answer, Mapping) and "error" in answer
