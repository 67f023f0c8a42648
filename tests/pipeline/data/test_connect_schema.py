"""Schemas and structs: equality, validation and Java's messages."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import DataError, SchemaBuilderError
from barnabas.pipeline.data.java_values import EpochMillis, Float32, narrowed, wrapped


def test_schema_equal_content_is_equal_and_hashes_alike():
    first = s.struct_schema([("a", s.INT8), ("b", s.OPTIONAL_STRING)], name="r")
    second = s.struct_schema([("a", s.INT8), ("b", s.OPTIONAL_STRING)], name="r")
    assert first == second
    assert hash(first) == hash(second)


@pytest.mark.parametrize(
    "other",
    [
        s.struct_schema([("a", s.INT8)], name="x"),
        s.struct_schema([("a", s.INT16)], name="r"),
        s.struct_schema([("a", s.with_default(s.INT8, 1))], name="r"),
        s.struct_schema([("a", s.INT8)], name="r", optional=True),
        s.struct_schema([("a", s.INT8)], name="r", parameters={"a": "b"}),
    ],
)
def test_schema_different_content_is_unequal(other: s.Schema):
    assert s.struct_schema([("a", s.INT8)], name="r") != other


def test_schema_defaults_of_different_scale_or_sign_are_unequal():
    price = s.decimal_schema(2)
    first, second = Decimal("1.0"), Decimal("1.00")
    assert s.with_default(price, first) != s.with_default(price, second)
    assert s.with_default(s.FLOAT64, 0.0) != s.with_default(s.FLOAT64, -0.0)


def test_struct_null_field_returns_default():
    schema = s.struct_schema([("a", s.with_default(s.OPTIONAL_INT8, 7))])
    struct = s.Struct.of(schema, {})
    assert (struct.get("a"), struct.get_without_default("a")) == (7, None)


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (s.INT8, None, 'Invalid value: null used for required field: "f", schema type: INT8'),
        (
            s.INT8,
            "x",
            'Invalid Java object for schema with type INT8: class java.lang.String for field: "f"',
        ),
        (
            s.TIMESTAMP,
            1,
            'Invalid Java object for schema "org.apache.kafka.connect.data.Timestamp" with type'
            ' INT64: class java.lang.Long for field: "f"',
        ),
        (
            s.array_schema(s.INT8),
            [1, None],
            'Invalid value: null used for required element of array field: "f", schema type: INT8',
        ),
    ],
)
def test_struct_put_unfit_value_raises_javas_message(schema: s.Schema, value: object, message: str):
    struct = s.Struct(s.struct_schema([("f", schema)]))
    with pytest.raises(DataError) as caught:
        struct.put("f", value)
    assert str(caught.value) == message


def test_struct_put_number_beyond_width_is_refused():
    struct = s.Struct(s.struct_schema([("f", s.INT8)]))
    struct.put("f", -128)
    with pytest.raises(DataError):
        struct.put("f", 128)


def test_struct_schema_repeated_name_is_refused():
    with pytest.raises(SchemaBuilderError, match="field name duplication a"):
        s.struct_schema([("a", s.INT8), ("a", s.INT8)])


@settings(deadline=None)
@given(st.floats(width=32, allow_nan=False))
def test_float32_denotes_the_same_single(number: float):
    shortest = Float32(number)
    assert narrowed(shortest) == narrowed(number)
    assert len(Decimal(repr(float(shortest))).normalize().as_tuple().digits) <= 9


def test_float32_prints_shortest_decimal():
    assert [repr(float(Float32(x))) for x in (0.1, 16777216.0, 3.4e38)] == [
        "0.1",
        "16777216.0",
        "3.4e+38",
    ]
    assert Float32(0.1).widened == 0.10000000149011612


@settings(deadline=None)
@given(st.integers(), st.sampled_from([8, 16, 32, 64]))
def test_wrapped_keeps_the_low_bits(number: int, bits: int):
    result = wrapped(number, bits)
    assert -(1 << (bits - 1)) <= result < 1 << (bits - 1)
    assert (result - number) % (1 << bits) == 0


def test_epoch_millis_is_ordered_and_hashable():
    assert EpochMillis(1) < EpochMillis(2)
    assert {EpochMillis(1): 1}[EpochMillis(1)] == 1
