"""The schemas of a case in a registry, and keys and values of its records by these schemas."""

from __future__ import annotations

import base64
import datetime
import decimal
import itertools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import httpx

from barnabas.pipeline.sql.planning.sql_serdes import key_serde, value_serde
from barnabas.pipeline.streams.registry_serdes import registry_client
from barnabas.pipeline.streams.serdes import SerdeContext

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from barnabas.pipeline.sql.catalog.source_values import Source
    from barnabas.pipeline.streams.registry_serdes import SubjectSerde

SCHEMA_FORMATS: Final = ("AVRO", "PROTOBUF", "PROTOBUF_NOSR", "JSON_SR")
"""The formats whose records have a schema."""

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)
_TYPES: Final = {"JSON_SR": "JSON"}
_numbers: Iterator[int] = itertools.count(1)


def _no_serdes() -> dict[tuple[str, str], SubjectSerde]:
    return {}


@dataclass
class CaseSchemas:
    """A context of a registry for one case, so that cases have their own subjects and ids."""

    registry: str
    _serdes: dict[tuple[str, str], SubjectSerde] = field(default_factory=_no_serdes)

    @classmethod
    def of(cls, registry: str, topics: tuple[Mapping[str, Any], ...]) -> CaseSchemas:
        """Return a new context that has the schemas of topics."""
        return cls.registered(f"{registry}/contexts/.case{next(_numbers)}", topics)

    @classmethod
    def registered(cls, registry: str, topics: tuple[Mapping[str, Any], ...]) -> CaseSchemas:
        """Register the schemas of topics in a registry, or in a context of one."""
        registry_client.cache_clear()  # an id may have been another schema's in an earlier case
        found = cls(registry)
        given = [each for topic in topics for each in _schemas_of(topic)]
        with httpx.Client(base_url=found.registry, timeout=10) as client:
            client.put("/config", json={"compatibility": "NONE"}).raise_for_status()
            is_import = any("id" in body for _, body, _ in given)
            if is_import:
                client.put("/mode", json={"mode": "IMPORT"}).raise_for_status()
            ids = itertools.count(1)
            for subject, body, references in given:
                for each in references:
                    _register(client, each["name"], each, ids if is_import else None)
                _register(client, subject, body, ids if is_import else None)
            if is_import:
                client.put("/mode", json={"mode": "READWRITE"}).raise_for_status()
        return found

    def encoded(self, value: Any, source: Source, side: str) -> bytes:
        """Return a key or a value of a case as bytes."""
        serde = self._serde(source, side)
        return serde.dump(_of_json(value, serde.data_type()))

    def decoded(self, data: bytes, source: Source, side: str) -> Any:
        """Return the key or the value of a case that bytes have."""
        serde = self._serde(source, side)
        return _to_json(serde.load(data), serde.data_type())

    def _serde(self, source: Source, side: str) -> SubjectSerde:
        found = self._serdes.get((source.name, side))
        if found is None:
            columns = key_serde(source, with_window=False) if side == "key" else value_serde(source)
            prepared: Any = columns.prepared(SerdeContext(source.topic, side, self.registry))
            found = self._serdes[source.name, side] = prepared.inner
        return found


def _schemas_of(topic: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], Any]]:
    for side in ("key", "value"):
        schema = topic.get(f"{side}Schema", topic.get("schema") if side == "value" else None)
        if schema is None:
            continue
        form = topic.get(f"{side}Format", topic.get("format"))
        references = [
            {"name": each["name"], **_body(each["schema"], each.get("format"))}
            for each in topic.get(f"{side}SchemaReferences", ())
        ]
        body = _body(schema, form)
        if references:
            body["references"] = [
                {"name": each["name"], "subject": each["name"], "version": 1} for each in references
            ]
        if topic.get(f"{side}SchemaId") is not None:
            body["id"] = topic[f"{side}SchemaId"]
        yield f"{topic['name']}-{side}", body, references


def _body(schema: Any, form: str | None) -> dict[str, Any]:
    is_text = isinstance(schema, str) and ("message" in schema or "syntax" in schema)
    name = (form or ("PROTOBUF" if is_text else "AVRO")).upper()
    text = schema if is_text else json.dumps(schema, default=float)
    return {"schema": text, "schemaType": _TYPES.get(name, name)}


def _register(
    client: httpx.Client, subject: str, body: dict[str, Any], ids: Iterator[int] | None
) -> None:
    given = {name: each for name, each in body.items() if name != "name"}
    if ids is not None:
        given = {"id": next(ids), "version": 1, **given}
    client.post(f"/subjects/{subject}/versions", json=given).raise_for_status()


def _of_json(value: Any, kind: Any) -> Any:
    """Return the value that serdes take for JSON."""
    if value is None:
        return None
    match type(kind).__name__:
        case "StructType":
            given = {name.upper(): each for name, each in cast("dict[str, Any]", value).items()}
            exact = cast("dict[str, Any]", value)
            return {
                each.name: _of_json(
                    exact.get(each.name, given.get(each.name.upper())), each.dataType
                )
                for each in kind.fields
            }
        case "ArrayType":
            return [_of_json(each, kind.elementType) for each in value]
        case "MapType":
            return {
                name: _of_json(each, kind.valueType)
                for name, each in cast("dict[str, Any]", value).items()
            }
        case "DecimalType":
            step = decimal.Decimal(1).scaleb(-kind.scale)
            return decimal.Decimal(str(value)).quantize(step, context=decimal.Context(60))
        case "DateType":
            return (_EPOCH + datetime.timedelta(days=int(value))).date()
        case "TimestampType":
            return _EPOCH + int(value) * _MILLISECOND
        case "BinaryType":
            return base64.b64decode(value)
        case "FloatType" | "DoubleType":
            return float(value)
        case "IntegerType" | "LongType" | "ShortType" | "ByteType":
            return int(value)
        case "StringType":
            return value if isinstance(value, str) else json.dumps(value, default=str)
        case _:
            return value


def _to_json(value: Any, kind: Any) -> Any:
    """Return a value of serdes as JSON of the cases."""
    if value is None:
        return None
    match type(kind).__name__:
        case "StructType":
            row = cast("dict[str, Any]", value)
            return {each.name: _to_json(row[each.name], each.dataType) for each in kind.fields}
        case "ArrayType":
            return [_to_json(each, kind.elementType) for each in value]
        case "MapType":
            entries = cast("dict[Any, Any]", value)
            return {str(name): _to_json(each, kind.valueType) for name, each in entries.items()}
        case "DateType":
            return (value - _EPOCH.date()).days
        case "TimestampType":
            return (value - _EPOCH) // _MILLISECOND
        case "BinaryType":
            return base64.b64encode(value).decode()
        case _:
            return value
