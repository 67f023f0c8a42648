"""Kafka 4.3's description of its messages, and a description of our declarations in the same form.

The oracle was read from Apache Kafka's classes by reflection. It is data that the package never
imports. `describe` describes our declarations, and `differences` compares the two.
"""

import gzip
import importlib
import json
import pkgutil
from functools import cache
from pathlib import Path
from typing import Any

import barnabas.protocol.messages
import barnabas.protocol.records
from barnabas.protocol.codec.layout import Layout, WireField, layout_of
from barnabas.protocol.fields import FIXED_CODES, Kind
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import Uuid

_PATH = Path(__file__).parent.parent / "data" / "kafka-4.3.0-messages.json.gz"


@cache
def facts() -> dict[str, Any]:
    return json.loads(gzip.decompress(_PATH.read_bytes()))


@cache
def all_messages() -> dict[str, type[Message]]:
    """Every declared message by name."""
    found: dict[str, type[Message]] = {}
    for package in (barnabas.protocol.messages, barnabas.protocol.records):
        for info in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{info.name}")
            for value in vars(module).values():
                if (
                    isinstance(value, type)
                    and issubclass(value, Message)
                    and value.__module__ == module.__name__
                ):
                    assert value.__name__ not in found, f"{value.__name__} is declared twice"
                    found[value.__name__] = value
    return found


def versions_of(message: type[Message]) -> range:
    return range(message.VERSIONS.low, message.VERSIONS.high + 1)


def describe(message: type[Message]) -> dict[str, Any]:
    """Return our declaration of a message, version by version, in the oracle's words."""
    number = message.API_KEY if message.API_KEY >= 0 else message.RECORD_TYPE
    flexible = [v for v in versions_of(message) if message.FLEXIBLE.has(v)]
    return {
        "apiKey": number,
        "versions": list(message.VERSIONS),
        "flexible": flexible,
        "schemas": {str(v): _schema(layout_of(message, v)) for v in versions_of(message)},
    }


def expected(name: str) -> dict[str, Any]:
    """Return the oracle's description of a message, with one schema for each version."""
    fact = facts()["messages"][name]
    return {
        "apiKey": fact["apiKey"],
        "versions": fact["versions"],
        "flexible": versions_in(fact["flexible_versions"]),
        "schemas": {
            str(version): schema
            for span, schema in fact["schemas"].items()
            for version in versions_in(span)
        },
    }


def versions_in(span: str) -> list[int]:
    """Parse the versions in "3-13", "4" or "none"."""
    if span == "none":
        return []
    low, _, high = span.partition("-")
    return list(range(int(low), int(high or low) + 1))


def _schema(layout: Layout) -> list[dict[str, Any]]:
    fields = [_field(field) for field in layout.fields]
    if layout.flexible:
        tagged = [
            {**_field(field), "tag": field.field.tag, "name": field.name} for field in layout.tagged
        ]
        fields.append({"name": "_tagged_fields", "type": "TAGGED_FIELDS", "fields": tagged})
    return fields


def _field(field: WireField) -> dict[str, Any]:
    described: dict[str, Any] = {"name": field.name, "type": _type(field)}
    if field.kind is Kind.ARRAY:
        element = field.field.element
        assert element is not None
        described["of"] = ("COMPACT_" if field.compact else "") + "STRING"
        if element is not Kind.STRING:
            described["of"] = element.name
    if field.struct is not None:
        described["struct"] = field.field.struct
        described["fields"] = _schema(field.struct)
    if field.nullable:
        described["nullable"] = True
        if field.kind is Kind.STRUCT:
            described["null_marker"] = (
                {"type": "UNSIGNED_VARINT", "null": 0, "present": 1}
                if field.field.varint_marker
                else {"type": "INT8", "null": -1, "present": 1}
            )
    described["default"] = _default(field)
    return described


def _type(field: WireField) -> str:
    if field.kind is Kind.UINT32:
        return "UNSIGNED_INT32"
    if field.kind in FIXED_CODES or field.kind is Kind.STRUCT:
        return field.kind.name
    name = field.kind.name
    if field.nullable and field.kind is not Kind.ARRAY:
        name = f"NULLABLE_{name}"
    return f"COMPACT_{name}" if field.compact else name


def _default(field: WireField) -> Any:
    default = field.field.default
    if default == ():
        return [] if field.kind is Kind.ARRAY else {}
    if isinstance(default, Uuid):
        return str(default)
    if isinstance(default, bytes):
        return default.hex()
    return default


def differences(theirs: Any, ours: Any, path: str = "") -> list[str]:
    """Return the differences of two descriptions, one line each."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return [
            line
            for key in sorted({*theirs, *ours} - {"accessor"})
            for line in (
                differences(theirs[key], ours[key], f"{path}.{key}")
                if key in theirs and key in ours
                else [f"{path}.{key}: only {'Kafka' if key in theirs else 'Barnabas'} has it"]
            )
        ]
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        return [
            line
            for index, (their, our) in enumerate(zip(theirs, ours, strict=True))
            for line in differences(their, our, f"{path}[{index}]")
        ]
    if theirs == ours and type(theirs) is type(ours):
        return []
    return [f"{path}: Kafka has {theirs!r:.120}, Barnabas {ours!r:.120}"]
