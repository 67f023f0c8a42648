"""MariaDB's and MySQL's types: schemas of columns, columns of schemas, values there and back."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymysql.constants import FIELD_TYPE
from sqlalchemy.dialects import mysql

from barnabas.pipeline.connect.connectors.column_values import timestamp_of
from barnabas.pipeline.connect.connectors.database_access import NumericMapping
from barnabas.pipeline.connect.connectors.mysql_types import (
    ColumnType,
    column_types,
    connect_value,
    driver_value,
    nanos_of,
    schema_of,
)
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.java_values import EpochMillis

MIDNIGHT = datetime(2000, 1, 1)
VALUES: dict[Any, Any] = {
    s.DATE: st.dates(),
    s.TIMESTAMP: st.datetimes().map(
        lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)
    ),
}


def column(
    code: int, length: int = 11, scale: int = 0, flags: int = 0, charset: int = 63
) -> ColumnType:
    return ColumnType("c", code, flags, charset, length, scale)


def type_of(kind: ColumnType, mapping: NumericMapping = NumericMapping.NONE) -> str:
    return str(schema_of(kind, mapping, optional=True).type)


def created(schema: s.Schema, *, is_key: bool, collation: str) -> str:
    kind = column_types(collation).of(schema, is_key=is_key)
    return kind.compile(dialect=mysql.dialect())


@given(st.data())
def test_mysql_moment_there_and_back_is_the_same(data: st.DataObject):
    schema = data.draw(st.sampled_from(list(VALUES)))
    value = data.draw(VALUES[schema])
    found = connect_value(schema, value)
    assert isinstance(found, EpochMillis)
    assert driver_value(schema, found) == value


@given(st.integers(0, 86_399_999))
def test_mysql_time_of_a_day_there_and_back_is_the_same(ms: int):
    found = connect_value(s.TIME, timedelta(milliseconds=ms))
    assert found == EpochMillis(ms)
    assert datetime.combine(MIDNIGHT, driver_value(s.TIME, found)) - MIDNIGHT == timedelta(
        milliseconds=ms
    )


@given(st.datetimes())
def test_mysql_position_keeps_microseconds(moment: datetime):
    assert timestamp_of(nanos_of(moment)) == moment


@given(st.integers(1, 65), st.integers(0, 30), st.booleans())
def test_mysql_decimal_is_a_decimal_of_its_digits(precision: int, scale: int, is_unsigned: bool):
    scale = min(scale, precision)
    length = precision + (not is_unsigned) + (scale > 0)
    kind = column(FIELD_TYPE.NEWDECIMAL, length, scale, flags=32 * is_unsigned)
    found = schema_of(kind, NumericMapping.NONE, optional=False)
    assert found == s.decimal_schema(scale)
    assert created(found, is_key=False, collation="") == f"DECIMAL(65, {scale})"
    is_short = precision <= 18 and scale == 0
    assert (type_of(kind, NumericMapping.PRECISION_ONLY) != "BYTES") is is_short


@pytest.mark.parametrize(
    ("code", "signed", "unsigned"),
    [
        (FIELD_TYPE.TINY, "INT8", "INT16"),
        (FIELD_TYPE.SHORT, "INT16", "INT32"),
        (FIELD_TYPE.INT24, "INT32", "INT64"),
        (FIELD_TYPE.LONG, "INT32", "INT64"),
        (FIELD_TYPE.LONGLONG, "INT64", "INT64"),
    ],
)
def test_mysql_unsigned_number_has_the_next_larger_type(code: int, signed: str, unsigned: str):
    assert (type_of(column(code)), type_of(column(code, flags=32))) == (signed, unsigned)


def test_mysql_type_that_is_not_listed_is_bytes_or_a_text():
    assert type_of(column(FIELD_TYPE.GEOMETRY)) == "BYTES"
    assert type_of(column(FIELD_TYPE.BLOB, charset=45)) == "STRING"
    assert type_of(column(FIELD_TYPE.JSON)) == "STRING"
    assert [type_of(column(FIELD_TYPE.BIT, length)) for length in (1, 2)] == ["INT8", "BYTES"]


@pytest.mark.parametrize(
    ("schema", "is_key", "expected"),
    [
        (s.STRING, False, "LONGTEXT CHARACTER SET utf8mb4"),
        (s.STRING, True, "VARCHAR(256) CHARACTER SET utf8mb4 COLLATE exact"),
        (s.BYTES, True, "VARBINARY(1024)"),
        (s.INT64, True, "BIGINT"),
        (s.DATE, True, "DATE"),
        (s.decimal_schema(2), True, "DECIMAL(65, 2)"),
        (s.TIMESTAMP, False, "DATETIME(3)"),
    ],
)
def test_mysql_column_of_a_key_has_a_length(schema: s.Schema, is_key: bool, expected: str):
    assert created(schema, is_key=is_key, collation="exact") == expected


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (s.TIMESTAMP, EpochMillis(1 << 60), "not a time in the years 1 to 9999"),
        (s.FLOAT64, float("nan"), "cannot store the number nan"),
        (s.FLOAT64, float("-inf"), "cannot store the number -inf"),
        (s.STRING, [1], "no type of a column"),
    ],
)
def test_mysql_value_that_no_column_holds_is_refused(schema: s.Schema, value: Any, message: str):
    with pytest.raises(DataError, match=message):
        driver_value(schema, value)


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (s.TIMESTAMP, "0000-00-00 00:00:00", "0000-00-00 00:00:00 is not a day"),
        (s.DATE, "2024-00-00", "2024-00-00 is not a day"),
        (s.DATE, 0, "0000 is not a day"),
        (s.TIME, timedelta(days=1), "is not a time of a day"),
        (s.TIME, timedelta(microseconds=-1), "is not a time of a day"),
        (s.INT64, 1 << 63, "greater than INT64 holds"),
        (s.decimal_schema(0), Decimal("NaN"), "NaN"),
    ],
)
def test_mysql_value_that_connect_lacks_is_refused(schema: s.Schema, value: Any, message: str):
    with pytest.raises(DataError, match=message):
        connect_value(schema, value)


def test_mysql_year_is_its_first_day():
    assert connect_value(s.DATE, 1969) == connect_value(s.DATE, date(1969, 1, 1))
