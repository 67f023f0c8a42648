"""Spark's columns and Connect's schemas, each from the other, and the values between them.

Types are Spark's in their JSON form: `"long"`, `{"type": "array", ..}`. Values are those that Arrow
takes and gives: a date is the number of its day, a timestamp microseconds, a map a list of pairs.
`fitting` also makes the values of Spark's Python functions (`ROWS`).
"""

import datetime
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, cast

import attrs

from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data import logical_types
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import Schema, Struct, Type
from barnabas.pipeline.data.java_values import EpochMillis, Float32, java_class_name
from barnabas.pipeline.delivery.rows.arrow_library import pa

SparkType = str | dict[str, Any]
Convert = Callable[[Any], Any]

_PRECISION_MAX: Final = 38
_DECIMAL: Final = "decimal("
_SIMPLE: Final[Mapping[Type, str]] = {
    Type.INT8: "byte",
    Type.INT16: "short",
    Type.INT32: "integer",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "binary",
}
_LOGICAL: Final = {s.DATE_NAME: "date", s.TIME_NAME: "integer", s.TIMESTAMP_NAME: "timestamp"}
_BITS: Final = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_CLASSES: Final[Mapping[str, type]] = {"boolean": bool, "string": str, "binary": bytes}
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)


@attrs.frozen
class ValueForm:
    """The form of values that differs from one consumer to another."""

    date: Convert
    """Takes the number of a day."""
    timestamp: Convert
    """Takes microseconds since 1970."""
    map: Convert
    """Takes a list of pairs."""


def _same(value: Any) -> Any:
    return value


ARROW: Final = ValueForm(_same, _same, _same)
"""The values that Arrow's arrays take."""

ROWS: Final = ValueForm(
    lambda day: _EPOCH.date() + datetime.timedelta(day),
    lambda micros: _EPOCH + micros * _MICROSECOND,
    dict,
)
"""The values that Spark's Python functions return."""


def spark_type(schema: Schema) -> SparkType:
    """Return the type of a column for values of a schema. Raises DataError."""
    if schema.name == s.DECIMAL_NAME:
        scale = logical_types.scale_of(schema)
        if not 0 <= scale <= _PRECISION_MAX:
            raise DataError(f"a decimal of scale {scale} does not fit a column of Spark")
        return f"{_DECIMAL}{_PRECISION_MAX},{scale})"
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name]
    if schema.type is Type.STRUCT:
        fields = [_field(field.name, spark_type(field.schema)) for field in schema.fields]
        return {"type": "struct", "fields": fields}
    if schema.type is Type.ARRAY:
        element = spark_type(_part(schema.value_schema))
        return {"type": "array", "elementType": element, "containsNull": True}
    if schema.type is Type.MAP:
        return {
            "type": "map",
            "keyType": spark_type(_part(schema.key_schema)),
            "valueType": spark_type(_part(schema.value_schema)),
            "valueContainsNull": True,
        }
    return _SIMPLE[schema.type]


def _field(name: str, kind: SparkType) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def _part(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("an array or a map has no schema of its elements")
    return schema


def arrow_type(kind: SparkType) -> Any:
    """Return the Arrow type of a column."""
    if isinstance(kind, dict):
        if kind["type"] == "struct":
            fields = kind["fields"]
            return pa.struct([pa.field(each["name"], arrow_type(each["type"])) for each in fields])
        if kind["type"] == "array":
            return pa.list_(arrow_type(kind["elementType"]))
        return pa.map_(arrow_type(kind["keyType"]), arrow_type(kind["valueType"]))
    if kind.startswith(_DECIMAL):
        return pa.decimal128(*_precision_and_scale(kind))
    names = {"byte": "int8", "short": "int16", "integer": "int32", "long": "int64"}
    if kind == "timestamp":
        return pa.timestamp("us", tz="UTC")
    makers = {"float": "float32", "double": "float64", "boolean": "bool_", "date": "date32"}
    return getattr(pa, {**names, **makers}.get(kind, kind))()


def _precision_and_scale(kind: str) -> tuple[int, int]:
    precision, scale = kind.removeprefix(_DECIMAL).removesuffix(")").split(",")
    return int(precision), int(scale)


def check_columns(kind: SparkType) -> None:
    """Raise DataError for a type that values of Connect cannot have."""
    if isinstance(kind, str):
        is_known = kind in (*_SIMPLE.values(), "date", "timestamp") or kind.startswith(_DECIMAL)
        if not is_known:
            raise DataError(f"the type {kind} is not supported")
        return
    inner = [each["type"] for each in kind.get("fields", ())]
    inner += [kind[name] for name in ("elementType", "keyType", "valueType") if name in kind]
    for each in inner:
        check_columns(each)


def fitting(kind: SparkType, place: str = "the value", form: ValueForm = ARROW) -> Convert:
    """Return the conversion of Connect's values to a column's; it raises DataError."""
    convert = _nested(kind, place, form) if isinstance(kind, dict) else _plain(kind, place, form)
    return lambda value: None if value is None else convert(value)


def _refused(value: Any, kind: str, place: str) -> DataError:
    return DataError(f"{place}: {java_class_name(value)} {value!r}"[:300] + f" does not fit {kind}")


def _plain(kind: str, place: str, form: ValueForm) -> Convert:
    if kind in _BITS:
        return _integer(kind, place)
    if kind in ("float", "double"):

        def number(value: Any) -> float:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise _refused(value, kind, place)
            return float(value)

        return number
    if kind.startswith(_DECIMAL):
        return _decimal(kind, place)
    if kind in ("date", "timestamp"):
        return _moment(kind, place, form)
    wanted = _CLASSES[kind]

    def same(value: Any) -> Any:
        if type(value) is not wanted:
            raise _refused(value, kind, place)
        return value

    return same


def _integer(kind: str, place: str) -> Convert:
    half = 1 << (_BITS[kind] - 1)

    def convert(value: Any) -> int:
        found = value.ms if isinstance(value, EpochMillis) else value
        is_number = isinstance(found, int) and not isinstance(found, bool)
        if not is_number or not -half <= found < half:
            raise _refused(value, kind, place)
        return int(found)

    return convert


def _decimal(kind: str, place: str) -> Convert:
    precision, scale = _precision_and_scale(kind)
    limit = 10**precision

    def convert(value: Any) -> Decimal:
        is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
        if not is_number or not (number := Decimal(value)).is_finite():
            raise _refused(value, kind, place)
        sign, digits, exponent = number.as_tuple()
        shift = int(exponent) + scale
        unscaled = int("".join(map(str, digits)))
        if shift < 0 and unscaled % 10**-shift:
            raise _refused(value, kind, place)
        moved = unscaled * 10**shift if shift >= 0 else unscaled // 10**-shift
        if moved >= limit:
            raise _refused(value, kind, place)
        return Decimal((sign, tuple(map(int, str(moved))), -scale))

    return convert


def _moment(kind: str, place: str, form: ValueForm) -> Convert:
    limit = 1 << (31 if kind == "date" else 63)
    formed = form.date if kind == "date" else form.timestamp

    def convert(value: Any) -> Any:
        if not isinstance(value, EpochMillis):
            raise _refused(value, kind, place)
        found = logical_types.day_of(value) if kind == "date" else value.ms * 1000
        if not -limit <= found < limit:
            raise _refused(value, kind, place)
        try:
            return formed(found)
        except OverflowError:
            raise _refused(value, kind, place) from None

    return convert


def _nested(kind: dict[str, Any], place: str, form: ValueForm) -> Convert:
    if kind["type"] == "struct":
        return struct_fitting(kind, place, form)
    if kind["type"] == "array":
        element = fitting(kind["elementType"], f"{place}[]", form)

        def items(value: Any) -> list[Any]:
            if not isinstance(value, list):
                raise _refused(value, "an array", place)
            return [element(each) for each in cast("list[Any]", value)]

        return items
    key = fitting(kind["keyType"], f"{place}'s key", form)
    held = fitting(kind["valueType"], f"{place}'s value", form)

    def pairs(value: Any) -> Any:
        if not isinstance(value, dict) or None in value:
            raise _refused(value, "a map", place)
        entries = cast("dict[Any, Any]", value).items()
        return form.map([(key(name), held(each)) for name, each in entries])

    return pairs


def struct_fitting(kind: Mapping[str, Any], place: str, form: ValueForm = ARROW) -> Convert:
    """Return the conversion of structs, or of maps without a schema, to columns by name."""
    columns = {
        str(each["name"]): fitting(each["type"], f"{place}.{each['name']}", form)
        for each in kind["fields"]
    }

    def convert(value: Any) -> dict[str, Any]:
        if isinstance(value, Struct):
            found = {field.name: value.value_of(field) for field in value.schema.fields}
        elif isinstance(value, dict):
            found = cast("dict[Any, Any]", value)
        else:
            raise _refused(value, "columns: use a converter with schemas", place)
        unknown = [str(name) for name in found if name not in columns]
        if unknown:
            raise DataError(f"{place} has the field {unknown[0]}, for which there is no column")
        return {name: column(found.get(name)) for name, column in columns.items()}

    return convert


def connect_schema(kind: SparkType, name: str | None = None) -> Schema:
    """Return the schema of a column's values, which may all be null. Raises DataError."""
    if isinstance(kind, dict):
        if kind["type"] == "struct":
            fields = [(each["name"], connect_schema(each["type"])) for each in kind["fields"]]
            return s.struct_schema(fields, name=name, optional=True)
        if kind["type"] == "array":
            return s.array_schema(connect_schema(kind["elementType"]), optional=True)
        if kind["type"] == "map":
            # The keys of a map are never null, and text keys make an object in JSON.
            keys = connect_schema(kind["keyType"])
            required = Schema(keys.type, name=keys.name, version=keys.version)
            return s.map_schema(required, connect_schema(kind["valueType"]), optional=True)
        raise DataError(f"the type {kind['type']} has no schema in Connect")
    if kind.startswith(_DECIMAL):
        return s.decimal_schema(_precision_and_scale(kind)[1], optional=True)
    if kind in ("timestamp", "timestamp_ntz"):
        return s.OPTIONAL_TIMESTAMP
    if kind == "date":
        return s.OPTIONAL_DATE
    for each, column in _SIMPLE.items():
        if column == kind:
            return Schema(each, optional=True)
    raise DataError(f"the type {kind} has no schema in Connect")


def connect_value(schema: Schema) -> Convert:
    """Return the conversion of values that Arrow gives to values of a schema."""
    convert = _of_arrow(schema)
    return lambda value: None if value is None else convert(value)


def _of_arrow(schema: Schema) -> Convert:
    if schema.name == s.TIMESTAMP_NAME:
        return _of_datetime
    if schema.name == s.DATE_NAME:
        first = _EPOCH.date().toordinal()
        return lambda day: logical_types.date_of_day(day.toordinal() - first)
    if schema.type is Type.FLOAT32:
        return Float32
    if schema.type is Type.ARRAY:
        element = connect_value(_part(schema.value_schema))
        return lambda items: [element(each) for each in items]
    if schema.type is Type.MAP:
        key = connect_value(_part(schema.key_schema))
        held = connect_value(_part(schema.value_schema))
        return lambda pairs: {key(name): held(each) for name, each in pairs}
    if schema.type is Type.STRUCT:
        fields = [(field.name, connect_value(field.schema)) for field in schema.fields]
        return lambda row: Struct(schema, [convert(row[name]) for name, convert in fields])
    return lambda value: value


def _of_datetime(moment: datetime.datetime) -> EpochMillis:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
    return EpochMillis((aware - _EPOCH) // _MILLISECOND)
