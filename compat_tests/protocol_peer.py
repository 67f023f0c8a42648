"""Kafka's own message classes in one JVM, driven through a pipe (see ProtocolPeer.java)."""

import base64
import json
import re
import struct
import subprocess
from pathlib import Path
from typing import Any

from barnabas.protocol.codec.layout import Layout, WireField, layout_of
from barnabas.protocol.fields import Kind
from barnabas.protocol.messages_base import Message, Struct, is_default
from compat_tests import jars

SOURCE = Path(__file__).with_name("ProtocolPeer.java")


class KafkaRefusedError(Exception):
    """Kafka's classes raised an exception for their input."""


class ProtocolPeer:
    """The JVM; it runs one call at a time. Messages have Kafka's names ("FetchRequestData")."""

    def __init__(self) -> None:
        options = [*jars.TOOL_OPTIONS, *jars.archive_options(), *jars.LOG_OPTIONS]
        command = ["java", *options, "-cp", jars.classpath()]
        self.process = subprocess.Popen(
            [*command, str(SOURCE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.names = {name.removesuffix("Data"): name for name in self._names()}

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def decode(self, message: type[Message], version: int, data: bytes) -> tuple[Any, bytes]:
        """Return what Kafka decodes, as its JSON, and the bytes that it encodes from that."""
        self._ask(b"D", self._name(message), version, data)
        return json.loads(self._payload()), self._payload()

    def encode(self, message: type[Message], version: int, value: Any) -> bytes:
        """Return the bytes that Kafka encodes from a message given as its JSON."""
        self._ask(b"E", self._name(message), version, json.dumps(value).encode())
        return self._payload()

    def has(self, message: type[Message]) -> bool:
        return message.__name__.removesuffix("Data") in self.names

    def _name(self, message: type[Message]) -> str:
        return self.names[message.__name__.removesuffix("Data")]

    def _names(self) -> list[str]:
        self._ask(b"N", "", 0, b"")
        return self._payload().decode().split("\n")

    def _ask(self, operation: bytes, name: str, version: int, payload: bytes) -> None:
        written = name.encode()
        head = struct.pack(">H", len(written)) + written + struct.pack(">hi", version, len(payload))
        assert self.process.stdin is not None
        self.process.stdin.write(operation + head + payload)
        self.process.stdin.flush()
        if self._read(1) != b"\0":
            raise KafkaRefusedError(self._payload().decode())

    def _payload(self) -> bytes:
        return self._read(struct.unpack(">i", self._read(4))[0])

    def _read(self, size: int) -> bytes:
        assert self.process.stdout is not None
        data = self.process.stdout.read(size)
        if len(data) != size:
            raise AssertionError(f"the JVM ended with status {self.process.wait(60)}")
        return data


def camel(name: str) -> str:
    """Return Kafka's JSON name of a field: "topic_id" is "topicId"."""
    joined = re.sub(r"_(.)", lambda match: match[1].upper(), name)
    return re.sub(r"^kraft(?=[A-Z])", "kRaft", joined)


def as_json(message: Message, version: int, *, records_as_size: bool = False) -> dict[str, Any]:
    """Return the message as Kafka's JSON converters print it; default tagged fields are omitted.

    The converters read record batches from base64, but write only their size.
    """
    return _AsJson(records_as_size).struct(layout_of(type(message), version), message)


class _AsJson:
    def __init__(self, records_as_size: bool) -> None:
        self.records_as_size = records_as_size

    def struct(self, layout: Layout, value: Struct) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        for field in (*layout.fields, *layout.tagged):
            held = getattr(value, field.name)
            if field.field.tag is not None and is_default(value, field.field, held):
                continue
            name = camel(field.name)
            if field.kind is Kind.RECORDS and self.records_as_size and held is not None:
                shown[f"{name}SizeInBytes"] = len(held)
            else:
                shown[name] = self.field(field, held)
        return shown

    def field(self, field: WireField, value: Any) -> Any:
        if value is None:
            return None
        if field.kind is Kind.ARRAY:
            if field.struct is not None:
                return [self.struct(field.struct, element) for element in value]
            return [_plain(field.field.element, element) for element in value]
        if field.struct is not None:
            return self.struct(field.struct, value)
        return _plain(field.kind, value)


def _plain(kind: Kind | None, value: Any) -> Any:
    if kind is Kind.UUID:
        return str(value)
    if kind in (Kind.BYTES, Kind.RECORDS):
        return base64.b64encode(value).decode()
    return value
