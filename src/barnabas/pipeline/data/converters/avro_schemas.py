"""Avro's schemas and Connect's, each from the other, with the properties that Confluent adds.

`connect.name`, `connect.version`, `connect.doc`, `connect.parameters` and `connect.type` keep what
Avro lacks. A union with null is an optional schema; any other union is a struct with a field for
each branch, of which one is set.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, cast

import attrs

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import (
    DATE_NAME,
    DECIMAL_NAME,
    TIME_NAME,
    TIMESTAMP_NAME,
    Field,
    Schema,
    Type,
    array_schema,
    map_schema,
    struct_schema,
)
from barnabas.pipeline.data.logical_types import scale_of

DEFAULT_NAME: Final = "io.confluent.connect.avro.ConnectDefault"
UNION_NAME: Final = "io.confluent.connect.avro.Union"
ENUM: Final = "io.confluent.connect.avro.Enum"
MAP_ENTRY: Final = "io.confluent.connect.avro.MapEntry"
_PRECISION: Final = 64

_PRIMITIVES: Final[Mapping[Type, Any]] = {
    Type.INT8: {"type": "int", "connect.type": "int8"},
    Type.INT16: {"type": "int", "connect.type": "int16"},
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_FROM_PRIMITIVES: Final[Mapping[str, Type]] = {
    "int": Type.INT32,
    "long": Type.INT64,
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "boolean": Type.BOOLEAN,
    "string": Type.STRING,
    "bytes": Type.BYTES,
    "fixed": Type.BYTES,
    "enum": Type.STRING,
}
_LOGICAL: Final = {
    DATE_NAME: "date",
    TIME_NAME: "time-millis",
    TIMESTAMP_NAME: "timestamp-millis",
    DECIMAL_NAME: "decimal",
}
_FROM_LOGICAL: Final = {avro: name for name, avro in _LOGICAL.items()}
_NARROW: Final = {"int8": Type.INT8, "int16": Type.INT16}


def avro_of(schema: Schema) -> Any:
    """Return the Avro schema of a Connect schema. Raises DataError."""
    return _with_null(_avro(schema), schema)


def _with_null(avro: Any, schema: Schema) -> Any:
    if not schema.optional:
        return avro
    return [avro, "null"] if schema.default is not None else ["null", avro]


def _avro(schema: Schema) -> Any:
    if schema.type is Type.STRUCT:
        return _record(schema)
    if schema.type is Type.ARRAY:
        avro: Any = {"type": "array", "items": avro_of(_part(schema.value_schema))}
    elif schema.type is Type.MAP:
        avro = _map(schema)
    else:
        avro = _PRIMITIVES[schema.type]
    described = _described(schema)
    if schema.name in _LOGICAL:
        described["logicalType"] = _LOGICAL[schema.name]
        if schema.name == DECIMAL_NAME:
            described |= {"scale": scale_of(schema), "precision": _PRECISION}
    if not described:
        return avro
    bare = cast("dict[str, Any]", avro) if isinstance(avro, dict) else {"type": avro}
    return {**bare, **described}


def _described(schema: Schema) -> dict[str, Any]:
    found = {
        "connect.name": schema.name,
        "connect.version": schema.version,
        "connect.doc": schema.doc,
        "connect.parameters": None if schema.parameters is None else dict(schema.parameters),
    }
    return {name: value for name, value in found.items() if value is not None}


def _map(schema: Schema) -> Any:
    keys, values = _part(schema.key_schema), _part(schema.value_schema)
    if keys.type is Type.STRING and not keys.optional:
        return {"type": "map", "values": avro_of(values)}
    namespace, _, name = MAP_ENTRY.rpartition(".")
    entry = {
        "type": "record",
        "name": name,
        "namespace": namespace,
        "fields": [
            {"name": "key", "type": avro_of(keys)},
            {"name": "value", "type": avro_of(values)},
        ],
    }
    return {"type": "array", "items": entry}


def _record(schema: Schema) -> Any:
    namespace, _, name = (schema.name or DEFAULT_NAME).rpartition(".")
    fields = [_field(field) for field in schema.fields]
    record = {"type": "record", "name": name, "fields": fields}
    if namespace:
        record["namespace"] = namespace
    return record | _described(schema)


def _field(field: Field) -> dict[str, Any]:
    from barnabas.pipeline.data.converters.avro_values import avro_default

    described: dict[str, Any] = {"name": field.name, "type": avro_of(field.schema)}
    if field.schema.default is not None:
        described["default"] = avro_default(field.schema)
    elif field.schema.optional:
        described["default"] = None
    return described


def _part(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("an array or a map without the schema of its elements has no Avro schema")
    return schema


class AvroReader:
    """Connect's schemas of one Avro document, whose named types may refer to each other."""

    def __init__(self, references: Mapping[str, str]) -> None:
        self._named: dict[str, Any] = {}
        for text in references.values():
            self._collect(json.loads(text), "")

    def schema_of(self, text: str) -> Schema:
        """Return the Connect schema of an Avro schema. Raises DataError."""
        document = json.loads(text)
        self._collect(document, "")
        return self.connect(document, "", ())

    def _collect(self, node: Any, namespace: str) -> None:
        """Remember the named types of a document."""
        if isinstance(node, list):
            for branch in cast("list[Any]", node):
                self._collect(branch, namespace)
            return
        if not isinstance(node, dict):
            return
        avro = cast("dict[str, Any]", node)
        if avro.get("type") in ("record", "error", "enum", "fixed"):
            name = full_name(avro, namespace)
            self._named[name] = avro
            namespace = name.rpartition(".")[0]
            for field in avro.get("fields") or ():
                self._collect(field["type"], namespace)
            return
        for key in ("type", "items", "values"):
            self._collect(avro.get(key), namespace)

    def connect(self, node: Any, namespace: str, outer: tuple[str, ...]) -> Schema:
        """Return the Connect schema of a node. Raises DataError."""
        if isinstance(node, list):
            return self._union(cast("list[Any]", node), namespace, outer)
        if isinstance(node, str):
            if node in _FROM_PRIMITIVES and node not in ("fixed", "enum"):
                return Schema(_FROM_PRIMITIVES[node])
            named = self._named.get(node) or self._named.get(f"{namespace}.{node}")
            if named is None:
                raise DataError(f"Avro's type {node} is not known")
            return self.connect(named, namespace, outer)
        avro = cast("dict[str, Any]", node)
        kind = avro["type"]
        if not isinstance(kind, str) or (kind not in _FROM_PRIMITIVES and kind not in _COMPOSITE):
            return self.connect(kind, namespace, outer)
        if kind in ("record", "error"):
            return self._record(avro, namespace, outer)
        if kind == "array":
            return self._array(avro, namespace, outer)
        if kind == "map":
            values = self.connect(avro["values"], namespace, outer)
            return _named(map_schema(Schema(Type.STRING), values), avro)
        return _primitive(avro, kind, namespace)

    def _union(self, branches: list[Any], namespace: str, outer: tuple[str, ...]) -> Schema:
        others = [branch for branch in branches if branch != "null"]
        is_optional = len(others) < len(branches)
        if len(others) == 1:
            found = self.connect(others[0], namespace, outer)
            return attrs.evolve(found, optional=True) if is_optional else found
        fields: list[tuple[str, Schema]] = []
        for branch in others:
            schema = attrs.evolve(self.connect(branch, namespace, outer), optional=True)
            fields.append((branch_name(branch), schema))
        return struct_schema(fields, name=UNION_NAME, optional=is_optional)

    def _array(self, avro: dict[str, Any], namespace: str, outer: tuple[str, ...]) -> Schema:
        found = cast("dict[str, Any]", avro["items"]) if isinstance(avro["items"], dict) else {}
        if found.get("type") == "record" and full_name(found, namespace) == MAP_ENTRY:
            key, value = (self.connect(f["type"], namespace, outer) for f in found["fields"])
            return _named(map_schema(key, value), avro)
        return _named(array_schema(self.connect(avro["items"], namespace, outer)), avro)

    def _record(self, avro: dict[str, Any], namespace: str, outer: tuple[str, ...]) -> Schema:
        from barnabas.pipeline.data.converters.avro_values import connect_default

        name = full_name(avro, namespace)
        if name in outer:
            raise DataError(f"the record {name} contains itself, which Connect cannot express")
        inner = name.rpartition(".")[0]
        fields: list[tuple[str, Schema]] = []
        for field in avro["fields"]:
            schema = self.connect(field["type"], inner, (*outer, name))
            if field.get("doc") and schema.doc is None:
                schema = attrs.evolve(schema, doc=field["doc"])
            if field.get("default") is not None:
                schema = attrs.evolve(schema, default=connect_default(schema, field["default"]))
            fields.append((str(field["name"]), schema))
        found = _named(struct_schema(fields), avro)
        if found.name is None and name != DEFAULT_NAME:
            found = attrs.evolve(found, name=name)
        return found if found.doc or not avro.get("doc") else attrs.evolve(found, doc=avro["doc"])


_COMPOSITE: Final = frozenset({"record", "error", "array", "map"})


def full_name(avro: Mapping[str, Any], namespace: str) -> str:
    """Return the name of a named type with its namespace."""
    name = str(avro["name"])
    own = avro.get("namespace", namespace)
    return name if "." in name or not own else f"{own}.{name}"


def branch_name(branch: Any) -> str:
    """Return the name of a union's branch: of the type, or the simple name of a named type."""
    if not isinstance(branch, dict):
        return str(branch).rpartition(".")[2]
    avro = cast("dict[str, Any]", branch)
    return str(avro.get("name", avro["type"])).rpartition(".")[2]


def _primitive(avro: dict[str, Any], kind: str, namespace: str) -> Schema:
    narrow = _NARROW.get(str(avro.get("connect.type")))
    schema = _named(Schema(narrow or _FROM_PRIMITIVES[kind]), avro)
    if kind == "enum":
        symbols = {f"{ENUM}.{symbol}": str(symbol) for symbol in avro["symbols"]}
        return attrs.evolve(schema, parameters={ENUM: full_name(avro, namespace), **symbols})
    logical = _FROM_LOGICAL.get(str(avro.get("logicalType")))
    if logical is None or schema.name is not None:
        return schema
    parameters = schema.parameters
    if logical == DECIMAL_NAME:
        parameters = {**(parameters or {}), "scale": str(avro.get("scale", 0))}
    return attrs.evolve(schema, name=logical, version=1, parameters=parameters)


def _named(schema: Schema, avro: Mapping[str, Any]) -> Schema:
    """Return a schema with what `connect.*` says about it."""
    parameters = avro.get("connect.parameters")
    return attrs.evolve(
        schema,
        name=avro.get("connect.name"),
        version=avro.get("connect.version"),
        doc=avro.get("connect.doc"),
        parameters=None if parameters is None else dict(parameters),
    )
