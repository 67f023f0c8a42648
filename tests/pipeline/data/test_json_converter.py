"""JSON with and without schemas; the oracle in compat_tests compares the same with Java."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.converters.json_converter import JsonConverter
from barnabas.pipeline.data.java_values import EpochMillis

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=20,
)


def converter(**props: str) -> JsonConverter:
    made = JsonConverter()
    made.configure({name.replace("_", "."): value for name, value in props.items()}, is_key=False)
    return made


@settings(deadline=None)
@given(JSON)
def test_json_schemaless_value_survives(value: Any):
    plain = converter(schemas_enable="false")
    data = plain.from_connect("t", None, value)
    assert plain.to_connect("t", data) == (None, value)


@pytest.mark.parametrize("text", ["-0.0", "-0e5", "-0.000E-3"])
def test_json_negative_zero_is_zero_as_in_java(text: str):
    _, found = converter(schemas_enable="false").to_connect("t", text.encode())
    assert repr(found) == "0.0"


def test_json_fraction_that_underflows_keeps_its_sign_as_in_java():
    _, found = converter(schemas_enable="false").to_connect("t", b"-1e-400")
    assert repr(found) == "-0.0"


def test_json_envelope_of_known_schema_gives_the_same_schema_object():
    json_converter = converter()
    schema = s.struct_schema([("a", s.INT32), ("b", s.OPTIONAL_STRING)])
    first = json_converter.from_connect("t", schema, s.Struct.of(schema, {"a": 1, "b": "x"}))
    second = json_converter.from_connect("t", schema, s.Struct.of(schema, {"a": 2}))
    found = [json_converter.to_connect("t", data) for data in (first, second, second)]
    assert [value.values for _, value in found] == [[1, "x"], [2, None], [2, None]]
    assert found[0][0] is found[1][0]
    assert found[0][0] == schema


@pytest.mark.parametrize(
    "data",
    [
        b'{"schema":{"type":"int8"},"payload":1,"more":2}',
        b'{"payload":1}',
        b"[]",
        b"1",
    ],
)
def test_json_envelope_of_wrong_members_is_refused(data: bytes):
    json_converter = converter()
    json_converter.to_connect("t", b'{"schema":{"type":"int8"},"payload":1}')
    with pytest.raises(DataError, match='requires "schema" and "payload"'):
        json_converter.to_connect("t", data)


@pytest.mark.parametrize("data", [b"{", b"nul", b"\xff", b"NaN", b'{"a":01x}'])
def test_json_malformed_text_raises_data_error(data: bytes):
    with pytest.raises(DataError, match="Converting byte"):
        converter(schemas_enable="false").to_connect("t", data)


@pytest.mark.parametrize(
    ("data", "value"), [(b"007", 7), (b"-01.5", -1.5), (b"", None), (b' "a01" x', "a01")]
)
def test_json_lenient_text_is_read_as_java_reads_it(data: bytes, value: Any):
    assert converter(schemas_enable="false").to_connect("t", data) == (None, value)


def test_json_schemaless_value_that_needs_a_schema_is_refused():
    with pytest.raises(DataError, match=r"Java class class java\.util\.Date"):
        converter(schemas_enable="false").from_connect("t", None, {"a": EpochMillis(0)})


def test_json_null_of_optional_schema_is_written():
    plain = converter(schemas_enable="false")
    assert plain.from_connect("t", s.OPTIONAL_INT8, None) == b"null"
    assert plain.from_connect("t", None, None) is None


def test_json_infinite_numbers_are_texts():
    plain = converter(schemas_enable="false")
    assert json.loads(plain.from_connect("t", None, [float("inf"), 1.5]) or b"") == [
        "Infinity",
        1.5,
    ]


def test_json_configured_schema_reads_plain_values():
    with_content = converter(schema_content='{"type":"int8"}')
    assert with_content.to_connect("t", b"5") == (s.INT8, 5)


@pytest.mark.parametrize("indent", [None, 2])
def test_json_envelope_with_blanks_is_read(indent: int | None):
    """Python's json writes a blank behind each colon and comma."""
    envelope = {"schema": {"type": "string", "optional": False}, "payload": "ab"}
    made, data = converter(), json.dumps(envelope, indent=indent).encode()
    assert [made.to_connect("t", data) for _ in range(2)] == [(s.STRING, "ab")] * 2
