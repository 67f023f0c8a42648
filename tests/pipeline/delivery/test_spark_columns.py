"""Connect's values as Spark's columns and back."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings

pytest.importorskip("pyarrow")

import pyarrow as pa

from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import Schema, Struct, Type
from barnabas.pipeline.data.java_values import EpochMillis
from barnabas.pipeline.delivery.rows.spark_columns import (
    arrow_type,
    check_columns,
    connect_schema,
    connect_value,
    fitting,
    spark_type,
)
from tests.pipeline.data.random_values import part, rows


def plain(schema: Schema, value: Any) -> Any:
    """Return a value with what a column keeps of it: a time of day is its milliseconds."""
    if value is None:
        return None
    if schema.name == s.TIME_NAME:
        return value.ms
    if schema.type is Type.ARRAY:
        return [plain(part(schema.value_schema), each) for each in value]
    if schema.type is Type.MAP:
        held = part(schema.value_schema)
        return {key: plain(held, each) for key, each in value.items()}
    if schema.type is Type.STRUCT:
        return {f.name: plain(f.schema, value.values[f.index]) for f in schema.fields}
    return value


@settings(deadline=None, max_examples=150)
@given(rows())
def test_spark_columns_keep_values(row: tuple[Schema, Struct]):
    schema, value = row
    if not schema.fields:
        return
    kind = spark_type(schema)
    check_columns(kind)
    column = pa.array([fitting(kind)(value), None], arrow_type(kind))
    again = connect_schema(kind)
    found = connect_value(again)(column.to_pylist()[0])
    assert plain(again, found) == plain(schema, value)
    assert column.to_pylist()[1] is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("byte", 128),
        ("integer", True),
        ("long", 2**63),
        ("long", "1"),
        ("double", "x"),
        ("string", b"x"),
        ("binary", "x"),
        ("boolean", 1),
        ("decimal(4,2)", Decimal("1.234")),
        ("decimal(4,2)", Decimal("123.4")),
        ("decimal(4,2)", Decimal("NaN")),
        ("date", EpochMillis(1)),
        ("timestamp", 5),
        ("timestamp", EpochMillis(2**62)),
        ({"type": "array", "elementType": "long"}, {}),
        ({"type": "map", "keyType": "string", "valueType": "long"}, {None: 1}),
        ({"type": "struct", "fields": []}, {"a": 1}),
        ({"type": "struct", "fields": []}, "text"),
    ],
)
def test_spark_column_refuses_values_that_do_not_fit(kind: Any, value: Any):
    with pytest.raises(DataError):
        fitting(kind)(value)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("decimal(4,2)", Decimal("1.5"), Decimal("1.50")),
        ("decimal(4,2)", Decimal("-1.500"), Decimal("-1.50")),
        ("decimal(4,2)", 7, Decimal("7.00")),
        ("double", 3, 3.0),
        ("integer", EpochMillis(5), 5),
    ],
)
def test_spark_column_takes_values_that_fit(kind: str, value: Any, expected: Any):
    found = fitting(kind)(value)
    assert (found, str(found)) == (expected, str(expected))


@pytest.mark.parametrize("kind", ["interval day to second", "variant", "void"])
def test_spark_type_without_a_schema_is_refused(kind: str):
    for check in (check_columns, connect_schema):
        with pytest.raises(DataError, match=kind):
            check(kind)


def test_spark_decimal_of_a_scale_that_columns_lack_is_refused():
    for scale in (-1, 39):
        with pytest.raises(DataError, match=f"scale {scale}"):
            spark_type(s.decimal_schema(scale))
