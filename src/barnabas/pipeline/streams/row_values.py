"""Rows of Spark's Python functions as Connect's values, for formats that have a schema already.

Names decide, not places: a column that the schema lacks is refused, a field without a column is
null. Spark gives times without a zone, in the zone of the host.
"""

import datetime
from typing import Any, Final, cast

from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data import logical_types
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import Schema, Struct, Type
from barnabas.pipeline.data.java_values import EpochMillis, Float32
from barnabas.pipeline.delivery.rows.spark_columns import Convert, fitting, spark_type

_FIRST_DAY: Final = datetime.date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)


def of_row(schema: Schema, place: str = "the value") -> Convert:
    """Return the conversion of what Spark gives to values of a schema; it raises DataError."""
    convert = _converter(schema, place)
    return lambda value: None if value is None else convert(value)


def _converter(schema: Schema, place: str) -> Convert:
    if schema.name == s.TIMESTAMP_NAME:
        return lambda value: _moment(value, place)
    if schema.name == s.DATE_NAME:
        return lambda value: _day(value, place)
    if schema.type is Type.STRUCT:
        return _struct(schema, place)
    if schema.type is Type.ARRAY:
        element = of_row(_part(schema.value_schema), f"{place}[]")
        return lambda value: [element(each) for each in _checked(value, list, place)]
    if schema.type is Type.MAP:
        key = of_row(_part(schema.key_schema), f"{place}'s key")
        held = of_row(_part(schema.value_schema), f"{place}'s value")
        return lambda value: {
            key(name): held(each) for name, each in _checked(value, dict, place).items()
        }
    return _plain(schema, place)


def _plain(schema: Schema, place: str) -> Convert:
    check = fitting(spark_type(schema), place)
    if schema.name == s.TIME_NAME:
        return lambda value: logical_types.time_of(check(value))
    if schema.type is Type.FLOAT32:
        return lambda value: Float32(check(value))
    if schema.type is Type.BYTES and schema.name != s.DECIMAL_NAME:
        return lambda value: check(bytes(value) if isinstance(value, bytearray) else value)
    return check


def _struct(schema: Schema, place: str) -> Convert:
    fields = [
        (field.name, of_row(field.schema, f"{place}.{field.name}")) for field in schema.fields
    ]
    known = {name for name, _ in fields}

    def convert(value: Any) -> Struct:
        row: Any = value.asDict() if hasattr(value, "asDict") else value
        found = cast("dict[str, Any]", _checked(row, dict, place))
        unknown = [name for name in found if name not in known]
        if unknown:
            raise DataError(f"{place} has the column {unknown[0]}, which the schema does not have")
        return Struct(schema, [each(found.get(name)) for name, each in fields])

    return convert


def _part(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("an array or a map has no schema of its elements")
    return schema


def _checked(value: Any, kind: type, place: str) -> Any:
    if not isinstance(value, kind):
        raise DataError(f"{place}: {type(value).__name__} {value!r}"[:300] + " does not fit")
    return value


def _moment(value: Any, place: str) -> EpochMillis:
    moment = _checked(value, datetime.datetime, place).astimezone(datetime.UTC)
    return EpochMillis((moment - _EPOCH) // _MILLISECOND)


def _day(value: Any, place: str) -> EpochMillis:
    day = _checked(value, datetime.date, place)
    if isinstance(day, datetime.datetime):
        raise DataError(f"{place}: the time {day} is not a date")
    return logical_types.date_of_day(day.toordinal() - _FIRST_DAY)
