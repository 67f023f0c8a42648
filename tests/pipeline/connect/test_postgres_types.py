"""PostgreSQL's types: schemas of columns, columns of schemas, values there and back."""

from datetime import UTC, date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import postgresql

from barnabas.pipeline.connect.connectors.column_types import COLUMN_TYPES
from barnabas.pipeline.connect.connectors.column_values import (
    connect_value,
    nanos_of,
    timestamp_of,
    timestamptz_of,
)
from barnabas.pipeline.connect.connectors.database_access import NumericMapping
from barnabas.pipeline.connect.connectors.postgres_types import (
    ColumnType,
    driver_value,
    schema_of,
)
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import ConnectError, DataError
from barnabas.pipeline.data.java_values import EpochMillis

VALUES: dict[Any, Any] = {
    s.DATE: st.dates(),
    s.TIME: st.times().map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)),
    s.TIMESTAMP: st.datetimes().map(
        lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)
    ),
}


def numeric(precision: int, scale: int) -> ColumnType:
    """Return a column of type numeric; the modifier is PostgreSQL's."""
    return ColumnType("n", 1700, (precision << 16 | scale & 0x7FF) + 4, True)


@given(st.data())
def test_postgres_moment_there_and_back_is_the_same(data: st.DataObject):
    schema = data.draw(st.sampled_from(list(VALUES)))
    value = data.draw(VALUES[schema])
    found = connect_value(schema, value)
    assert isinstance(found, EpochMillis)
    assert driver_value(schema, found) == value


@given(st.datetimes())
def test_postgres_position_keeps_microseconds(moment: datetime):
    assert timestamp_of(nanos_of(moment)) == moment
    aware = moment.replace(tzinfo=UTC)
    assert timestamptz_of(nanos_of(aware)) == aware
    assert nanos_of(aware) == nanos_of(moment)


@given(st.integers(1, 1000), st.integers(-1000, 1000))
def test_postgres_numeric_without_mapping_is_a_decimal(precision: int, scale: int):
    found = schema_of(numeric(precision, scale), NumericMapping.NONE)
    assert found == s.decimal_schema(max(scale, 0))
    assert (
        COLUMN_TYPES.of(found).compile(dialect=postgresql.dialect())
        == f"NUMERIC(1000, {max(scale, 0)})"
    )


@pytest.mark.parametrize(
    ("precision", "expected"),
    [(2, "INT8"), (3, "INT16"), (4, "INT16"), (5, "INT32"), (9, "INT32"), (10, "INT64"),
     (18, "INT64"), (19, "BYTES")],
)  # fmt: skip
def test_postgres_numeric_that_fits_is_an_integer(precision: int, expected: str):
    found = schema_of(numeric(precision, 0), NumericMapping.PRECISION_ONLY)
    assert found.type == expected


def test_postgres_type_without_a_schema_is_a_text():
    array = ColumnType("a", 1007, -1, False)
    assert not array.is_known
    assert schema_of(array, NumericMapping.NONE) == s.OPTIONAL_STRING


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (s.TIMESTAMP, EpochMillis(1 << 60), "not a time in the years 1 to 9999"),
        (s.STRING, "\0", "cannot store the character U"),
        (s.STRING, [1], "no type of a column"),
    ],
)
def test_postgres_value_that_no_column_holds_is_refused(schema: s.Schema, value: Any, message: str):
    with pytest.raises(DataError, match=message):
        driver_value(schema, value)


def test_postgres_numeric_without_scale_is_refused():
    with pytest.raises(ConnectError, match="numeric without a scale"):
        schema_of(ColumnType("n", 1700, -1, True), NumericMapping.NONE)


def test_postgres_decimal_without_value_is_refused():
    with pytest.raises(DataError, match="NaN"):
        connect_value(s.decimal_schema(2), Decimal("NaN"))


def test_postgres_values_before_1970_are_negative():
    assert connect_value(s.DATE, date(1969, 12, 31)) == EpochMillis(-86_400_000)
    assert connect_value(s.TIMESTAMP, datetime(1969, 12, 31, 23, 59, 59, 999_900)) == EpochMillis(
        -1
    )
    assert connect_value(s.TIME, time_of_day(0, 0, 1)) == EpochMillis(1000)
