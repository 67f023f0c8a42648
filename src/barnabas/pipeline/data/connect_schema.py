"""Schemas and structs.

Schemas are immutable and compared by content. Transformations derive a schema from each schema that
they meet, so comparing a schema with itself and hashing it again must cost nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any, ClassVar, Final

import attrs

from barnabas.pipeline.data.connect_errors import DataError, SchemaBuilderError
from barnabas.pipeline.data.java_values import (
    EpochMillis,
    Float32,
    Int8,
    Int16,
    Int32,
    java_class_name,
)


class Type(StrEnum):
    """The type of a schema."""

    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FLOAT32 = "FLOAT32"
    FLOAT64 = "FLOAT64"
    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    BYTES = "BYTES"
    ARRAY = "ARRAY"
    MAP = "MAP"
    STRUCT = "STRUCT"


DECIMAL_NAME: Final = "org.apache.kafka.connect.data.Decimal"
DATE_NAME: Final = "org.apache.kafka.connect.data.Date"
TIME_NAME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP_NAME: Final = "org.apache.kafka.connect.data.Timestamp"
SCALE_PARAMETER: Final = "scale"


@attrs.frozen(slots=True)
class Field:
    """A field of a struct's schema."""

    name: str
    index: int
    schema: "Schema"


@attrs.frozen(slots=True, eq=False)
class Schema:
    """The type of a value, and its description."""

    type: Type
    optional: bool = False
    default: Any = None
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] | None = None
    fields: tuple[Field, ...] = ()
    key_schema: "Schema | None" = None
    value_schema: "Schema | None" = None
    _fields_by_name: dict[str, Field] = attrs.field(init=False, repr=False)
    _hash: int = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Compute what every record needs."""
        object.__setattr__(self, "_fields_by_name", {field.name: field for field in self.fields})
        identity = (
            self.type,
            self.optional,
            self.name,
            self.version,
            self.doc,
            self.fields,
            self.key_schema,
            self.value_schema,
        )
        object.__setattr__(self, "_hash", hash(identity))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Schema) or self._hash != other._hash:
            return False
        return (
            self.type is other.type
            and self.optional == other.optional
            and self.name == other.name
            and self.version == other.version
            and self.doc == other.doc
            # 0.0 and -0.0 are equal in Python, and so are decimals of different scales.
            and repr(self.default) == repr(other.default)
            and self.fields == other.fields
            and self.key_schema == other.key_schema
            and self.value_schema == other.value_schema
            and self.parameters == other.parameters
        )

    def __str__(self) -> str:
        """Return the text that Java's errors show."""
        shown = self.type if self.name is None else f"{self.name}:{self.type}"
        return f"Schema{{{shown}}}"

    def field(self, name: str) -> Field | None:
        """Return a field by its name. Raises DataError when this is not a struct's schema."""
        if self.type is not Type.STRUCT:
            raise DataError("Cannot look up fields on non-struct type")
        return self._fields_by_name.get(name)


class Struct:
    """A value of a struct's schema."""

    __slots__ = ("schema", "values")
    java_class: ClassVar[str] = "org.apache.kafka.connect.data.Struct"

    def __init__(self, schema: Schema, values: list[Any] | None = None) -> None:
        """Take the values in the order of the fields; they are not checked."""
        if schema.type is not Type.STRUCT:
            raise DataError(f"Not a struct schema: {schema}")
        self.schema = schema
        self.values = [None] * len(schema.fields) if values is None else values

    @classmethod
    def of(cls, schema: Schema, values: Mapping[str, Any]) -> "Struct":
        """Return a struct with checked values; fields without a value are null."""
        struct = cls(schema)
        for name, value in values.items():
            struct.put(name, value)
        struct.validate()
        return struct

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct):
            return NotImplemented
        return self.schema == other.schema and self.values == other.values

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        shown = ",".join(
            f"{field.name}={value!r}"
            for field, value in zip(self.schema.fields, self.values, strict=True)
            if value is not None
        )
        return f"Struct{{{shown}}}"

    def _field(self, name: str) -> Field:
        field = self.schema.field(name)
        if field is None:
            raise DataError(f"{name} is not a valid field name")
        return field

    def get(self, name: str) -> Any:
        """Return a field's value, its default when it is null. Raises DataError."""
        return self.value_of(self._field(name))

    def value_of(self, field: Field) -> Any:
        """Return a field's value, its default when it is null."""
        value = self.values[field.index]
        return field.schema.default if value is None else value

    def get_without_default(self, name: str) -> Any:
        """Return a field's value. Raises DataError."""
        return self.values[self._field(name).index]

    def put(self, name: str, value: Any) -> None:
        """Set a field's value. Raises DataError when it does not fit the schema."""
        field = self._field(name)
        check_value(field.schema, value, f'field: "{name}"')
        self.values[field.index] = value

    def validate(self) -> None:
        """Raise DataError when a value does not fit its field."""
        for field, value in zip(self.schema.fields, self.values, strict=True):
            schema = field.schema
            if value is None and (schema.optional or schema.default is not None):
                continue
            check_value(schema, value, f'field: "{field.name}"')


_INTEGERS: Final = (int, Int8, Int16, Int32)
_FITTING: Final[Mapping[Type, tuple[type, ...]]] = {
    Type.INT8: _INTEGERS,
    Type.INT16: _INTEGERS,
    Type.INT32: _INTEGERS,
    Type.INT64: _INTEGERS,
    Type.FLOAT32: (Float32,),
    Type.FLOAT64: (float,),
    Type.BOOLEAN: (bool,),
    Type.STRING: (str,),
    Type.BYTES: (bytes,),
    Type.ARRAY: (list,),
    Type.MAP: (dict,),
    Type.STRUCT: (Struct,),
}
_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_FITTING_LOGICAL: Final[Mapping[str, tuple[type, ...]]] = {
    DECIMAL_NAME: (Decimal,),
    DATE_NAME: (EpochMillis,),
    TIME_NAME: (EpochMillis,),
    TIMESTAMP_NAME: (EpochMillis,),
}

_SCHEMALESS_TYPES: Final[Mapping[type, Type]] = {
    bool: Type.BOOLEAN,
    Int8: Type.INT8,
    Int16: Type.INT16,
    Int32: Type.INT32,
    int: Type.INT64,
    Float32: Type.FLOAT32,
    float: Type.FLOAT64,
    str: Type.STRING,
    bytes: Type.BYTES,
    list: Type.ARRAY,
    dict: Type.MAP,
    Struct: Type.STRUCT,
}


def type_of_value(value: object) -> Type | None:
    """Return the type of a value without a schema, None for a value that needs one."""
    return _SCHEMALESS_TYPES.get(type(value))


_NUMBER_CLASSES: Final = {
    Type.INT8: "java.lang.Byte",
    Type.INT16: "java.lang.Short",
    Type.INT32: "java.lang.Integer",
}


def class_name(value: object, schema: Schema | None = None) -> str:
    """Return the name of Java's class of a value; the schema has the width of a number."""
    if schema is not None and schema.name not in _FITTING_LOGICAL and type(value) is int:
        return _NUMBER_CLASSES.get(schema.type, "java.lang.Long")
    return java_class_name(value)


def check_value(schema: Schema, value: Any, location: str = "value") -> None:
    """Raise DataError when a value does not fit a schema."""
    if value is None:
        if not schema.optional:
            raise DataError(
                f"Invalid value: null used for required {location}, schema type: {schema.type}"
            )
        return
    kind = schema.type
    fitting = _FITTING_LOGICAL.get(schema.name) if schema.name is not None else None
    if type(value) not in (fitting or _FITTING[kind]) or not _fits_width(kind, fitting, value):
        shown = "" if schema.name is None else f' "{schema.name}"'
        raise DataError(
            f"Invalid Java object for schema{shown} with type {kind}: "
            f"class {java_class_name(value)} for {location}"
        )
    if kind is Type.STRUCT:
        if value.schema != schema:
            raise DataError("Struct schemas do not match.")
        value.validate()
    elif kind is Type.ARRAY:
        _check_elements(schema.value_schema, value, f"element of array {location}")
    elif kind is Type.MAP:
        _check_elements(schema.key_schema, value, f"key of map {location}")
        _check_elements(schema.value_schema, value.values(), f"value of map {location}")


def _fits_width(kind: Type, fitting: tuple[type, ...] | None, value: Any) -> bool:
    bits = None if fitting else _BITS.get(kind)
    return bits is None or -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def _check_elements(schema: Schema | None, values: Iterable[Any], location: str) -> None:
    if schema is None:
        raise DataError(f"No schema defined for {location}")
    for value in values:
        check_value(schema, value, location)


def struct_schema(
    fields: Sequence[tuple[str, Schema]], like: Schema | None = None, **changes: Any
) -> Schema:
    """Return a struct's schema, with name, version, doc and parameters `like` another schema.

    Raises SchemaBuilderError when a name is empty or occurs twice.
    """
    seen: set[str] = set()
    for name, _ in fields:
        if not name:
            raise SchemaBuilderError("fieldName cannot be null.")
        if name in seen:
            raise SchemaBuilderError(
                f"Cannot create field because of field name duplication {name}"
            )
        seen.add(name)
    built = tuple(Field(name, index, schema) for index, (name, schema) in enumerate(fields))
    if like is None:
        return Schema(Type.STRUCT, fields=built, **changes)
    return Schema(
        Type.STRUCT,
        name=like.name,
        version=like.version,
        doc=like.doc,
        parameters=like.parameters or None,
        fields=built,
        **changes,
    )


def array_schema(value_schema: Schema | None, *, optional: bool = False) -> Schema:
    """Return the schema of an array; an array of nulls only has the element schema None."""
    return Schema(Type.ARRAY, optional, value_schema=value_schema)


def map_schema(
    key_schema: Schema | None, value_schema: Schema | None, *, optional: bool = False
) -> Schema:
    """Return the schema of a map."""
    return Schema(Type.MAP, optional, key_schema=key_schema, value_schema=value_schema)


def with_default(schema: Schema, default: Any) -> Schema:
    """Return a schema with a default. Raises SchemaBuilderError when it does not fit."""
    try:
        check_value(schema, default)
    except DataError as error:
        raise SchemaBuilderError("Invalid default value") from error
    return attrs.evolve(schema, default=default)


def decimal_schema(scale: int, *, optional: bool = False) -> Schema:
    """Return the schema of decimals with a number of digits after the point."""
    parameters = {SCALE_PARAMETER: str(scale)}
    return Schema(Type.BYTES, optional, name=DECIMAL_NAME, version=1, parameters=parameters)


INT8: Final = Schema(Type.INT8)
INT16: Final = Schema(Type.INT16)
INT32: Final = Schema(Type.INT32)
INT64: Final = Schema(Type.INT64)
FLOAT32: Final = Schema(Type.FLOAT32)
FLOAT64: Final = Schema(Type.FLOAT64)
BOOLEAN: Final = Schema(Type.BOOLEAN)
STRING: Final = Schema(Type.STRING)
BYTES: Final = Schema(Type.BYTES)
OPTIONAL_INT8: Final = Schema(Type.INT8, True)
OPTIONAL_INT16: Final = Schema(Type.INT16, True)
OPTIONAL_INT32: Final = Schema(Type.INT32, True)
OPTIONAL_INT64: Final = Schema(Type.INT64, True)
OPTIONAL_FLOAT32: Final = Schema(Type.FLOAT32, True)
OPTIONAL_FLOAT64: Final = Schema(Type.FLOAT64, True)
OPTIONAL_BOOLEAN: Final = Schema(Type.BOOLEAN, True)
OPTIONAL_STRING: Final = Schema(Type.STRING, True)
OPTIONAL_BYTES: Final = Schema(Type.BYTES, True)
DATE: Final = Schema(Type.INT32, name=DATE_NAME, version=1)
TIME: Final = Schema(Type.INT32, name=TIME_NAME, version=1)
TIMESTAMP: Final = Schema(Type.INT64, name=TIMESTAMP_NAME, version=1)
OPTIONAL_DATE: Final = Schema(Type.INT32, True, name=DATE_NAME, version=1)
OPTIONAL_TIME: Final = Schema(Type.INT32, True, name=TIME_NAME, version=1)
OPTIONAL_TIMESTAMP: Final = Schema(Type.INT64, True, name=TIMESTAMP_NAME, version=1)
