"""CAST, and the conversions that no one has to write.

A value that cannot be converted becomes NULL, as ksqlDB's row does that has an error. BIGINT and
DECIMAL wrap around in a narrower whole number, as in Java; DOUBLE ends at its bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions.bounds import timestamp_of_date
from barnabas.pipeline.sql.functions.function_values import call, each, spark
from barnabas.pipeline.sql.functions.map_entries import each_entry
from barnabas.pipeline.sql.functions.units import DAY_MS
from barnabas.pipeline.sql.functions.whole_numbers import wrapped_int, wrapped_long
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.sql_types import NULL, STRING, SqlType, to_spark

if TYPE_CHECKING:
    from barnabas.pipeline.sql.functions.function_values import Column

_WHOLE: Final = {"INTEGER": ("int", -(2**31), 2**31 - 1), "BIGINT": ("bigint", -(2**63), 2**63 - 1)}
_FROM_STRING: Final = {
    *("BOOLEAN", "INTEGER", "BIGINT", "DECIMAL", "DOUBLE", "DATE", "TIME", "TIMESTAMP", "BYTES")
}
_MORE: Final = {("TIMESTAMP", "DATE"), ("TIMESTAMP", "TIME"), ("DATE", "TIMESTAMP")}
_TIME: Final = r"^([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?$"
_TIMESTAMP: Final = (
    r"^([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2})(?:T(?:([0-9]{2})(?::([0-9]{2})"
    r"(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?)?)?$"
)
_DAY_END: Final = r"T24(?::00(?::00(?:\.0{1,9})?)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?$"


def check_cast(kind: SqlType, to: SqlType) -> None:
    """Raise UnresolvedError when a type cannot be cast to another."""
    if not _can_cast(kind, to):
        raise UnresolvedError(f"Cast of {kind} to {to} is not supported")


def _can_cast(kind: SqlType, to: SqlType) -> bool:
    if kind in (to, NULL):
        return True
    if to == STRING:
        return kind.name != "BYTES"
    if kind.is_number and to.is_number:
        return True
    if kind == STRING:
        return to.name in _FROM_STRING
    if kind.name == to.name == "STRUCT":
        fields = dict(kind.fields)
        return all(_can_cast(fields.get(name, NULL), each) for name, each in to.fields)
    if kind.name == to.name and kind.elements:
        return all(_can_cast(*pair) for pair in zip(kind.elements, to.elements, strict=True))
    return (kind.name, to.name) in _MORE


def cast(value: Column, kind: SqlType, to: SqlType) -> Column:
    """Return a value of a type as one of another; `check_cast` says which there are."""
    if kind == to:
        return value
    if kind == NULL:
        return value.cast(to_spark(to))
    if to == STRING:
        return as_string(value, kind)
    if to.name in ("ARRAY", "MAP", "STRUCT"):
        return _container(value, kind, to)
    if kind == STRING:
        return _from_string(value, to)
    if to.name in _WHOLE:
        return _whole(value, kind, to.name)
    if to.name == "TIME":
        return spark().pmod(spark().unix_millis(value), spark().lit(DAY_MS)).cast("int")
    if (kind.name, to.name) == ("DATE", "TIMESTAMP"):
        return timestamp_of_date(value)
    return value.try_cast(to_spark(to))


def _whole(value: Column, kind: SqlType, to: str) -> Column:
    if kind.name == "INTEGER":
        return value.cast("bigint")
    if kind.name == "DOUBLE":
        name, low, high = _WHOLE[to]
        return (
            spark()
            .when(spark().isnan(value), spark().lit(0).cast(name))
            .when(value <= low, spark().lit(low).cast(name))
            .when(value >= high, spark().lit(high).cast(name))
            .otherwise(value.try_cast(name))
        )
    if kind.name == "DECIMAL":
        cut = spark().when(value < 0, spark().ceil(value)).otherwise(spark().floor(value))
        number = wrapped_long(cut)
        return wrapped_int(number) if to == "INTEGER" else number
    return wrapped_int(value)


def _container(value: Column, kind: SqlType, to: SqlType) -> Column:
    if to.name == "ARRAY":
        return each(value, lambda element: cast(element, kind.element, to.element))
    if to.name == "MAP":
        return each_entry(
            value,
            lambda key: cast(key, kind.elements[0], to.elements[0]),
            lambda element: cast(element, kind.element, to.element),
        )
    types = dict(kind.fields)
    fields = [
        (cast(value.getField(name), types[name], field) if name in types else spark().lit(None))
        .cast(to_spark(field))
        .alias(name)
        for name, field in to.fields
    ]
    return spark().when(value.isNotNull(), spark().struct(*fields))


def _from_string(value: Column, to: SqlType) -> Column:
    text = spark().trim(value)
    if to.name == "BOOLEAN":
        return spark().lower(text) == "true"
    if to.name == "DATE":
        return spark().when(~text.contains("T"), parsed_timestamp(text).cast("date"))
    if to.name == "TIME":
        return parsed_time(text)
    if to.name == "TIMESTAMP":
        return parsed_timestamp(text)
    if to.name == "BYTES":
        return spark().try_to_binary(text, spark().lit("base64"))
    return text.try_cast(to_spark(to))


def parsed_time(text: Column) -> Column:
    """Return the milliseconds of a time in ISO 8601 (10:30, 10:30:01, 10:30:01.5), or NULL."""
    parts = [spark().regexp_extract(text, _TIME, group) for group in range(1, 5)]
    hours, minutes, seconds = (
        spark().coalesce(each.try_cast("int"), spark().lit(0)) for each in parts[:3]
    )
    millis = spark().rpad(parts[3], 3, "0").cast("int")
    is_time = text.rlike(_TIME) & (hours < 24) & (minutes < 60) & (seconds < 60)
    return spark().when(is_time, ((hours * 60 + minutes) * 60 + seconds) * 1000 + millis)


def parsed_timestamp(text: Column) -> Column:
    """Return the TIMESTAMP of a text in ISO 8601, or NULL; parts after the year may be missing.

    The hour 24 is the end of the day, without minutes, seconds and fractions other than 0.
    """
    parts = [spark().regexp_extract(text, _TIMESTAMP, group) for group in range(1, 9)]
    defaults = ("", "01", "01", "00", "00", "00")
    found = [
        spark().when(part == "", default).otherwise(part)
        for part, default in zip(parts[:6], defaults, strict=True)
    ]
    is_end = text.rlike(_DAY_END)
    found[3] = spark().when(is_end, "00").otherwise(found[3])
    date, time = spark().concat_ws("-", *found[:3]), spark().concat_ws(":", *found[3:6])
    millis = spark().rpad(parts[6], 3, "0")
    whole = spark().concat(date, spark().lit(" "), time, spark().lit("."), millis, parts[7])
    days = spark().when(is_end, 1).otherwise(0)
    at = whole.try_cast("timestamp") + spark().make_interval(days=days)
    return spark().when(text.rlike(_TIMESTAMP), at)


def as_string(value: Column, kind: SqlType) -> Column:
    """Return a value as Java writes it, NULL for NULL."""
    if kind.name == "TIMESTAMP":
        return spark().date_format(value, "yyyy-MM-dd'T'HH:mm:ss.SSS")
    if kind.name == "TIME":
        return time_text(value)
    if kind.name == "ARRAY":
        texts = each(value, lambda element: _element(element, kind.element))
        return _between("[", call("array_join", texts, spark().lit(", ")), "]")
    if kind.name == "MAP":
        pairs = each(
            spark().map_entries(value),
            lambda pair: spark().concat(
                _element(pair["key"], kind.elements[0]),
                spark().lit("="),
                _element(pair["value"], kind.element),
            ),
        )
        return _between("{", call("array_join", pairs, spark().lit(", ")), "}")
    if kind.name == "STRUCT":
        return _struct_text(value, kind)
    return value.cast("string")


def _struct_text(value: Column, kind: SqlType) -> Column:
    """Return a struct as `Struct{A=1,B=2}`, without the fields that are NULL."""
    texts = [
        spark().concat(spark().lit(f"{name}="), as_string(value.getField(name), field))
        for name, field in kind.fields
    ]
    inside = spark().concat_ws(",", *texts)
    return spark().when(value.isNotNull(), _between("Struct{", inside, "}"))


def _element(value: Column, kind: SqlType) -> Column:
    return spark().coalesce(as_string(value, kind), spark().lit("null"))


def _between(start: str, inside: Column, end: str) -> Column:
    return spark().concat(spark().lit(start), inside, spark().lit(end))


def time_text(value: Column) -> Column:
    """Return a TIME as `LocalTime` writes it: 10:30, 10:30:01 or 10:30:01.500."""
    at = spark().timestamp_millis(value.cast("bigint"))
    return (
        spark()
        .when(value % 1000 != 0, spark().date_format(at, "HH:mm:ss.SSS"))
        .when(value % 60_000 != 0, spark().date_format(at, "HH:mm:ss"))
        .otherwise(spark().date_format(at, "HH:mm"))
    )
