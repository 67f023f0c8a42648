"""Framing of values."""

import contextlib
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.registry.payloads.wire_framing import (
    VALUE_HEADER,
    FramingError,
    decode_indexes,
    encode_indexes,
    framed,
    guid_header,
    split_payload,
)


@given(st.integers(0, 2**31 - 1), st.binary())
def test_framed_value_names_its_schema(schema_id: int, data: bytes) -> None:
    found = split_payload(framed(schema_id, data))
    assert (found.schema_id, found.guid, found.data) == (schema_id, None, data)


@given(st.uuids(), st.binary())
def test_header_names_the_schema_by_guid(guid: uuid.UUID, data: bytes) -> None:
    found = split_payload(data, [(VALUE_HEADER, guid_header(str(guid)))])
    assert (found.schema_id, found.guid, found.data) == (None, str(guid), data)


@pytest.mark.parametrize("value", [b"", b"\x00\x00\x00\x01", b"\x01\x00\x00\x00\x01x", b"text"])
def test_value_without_a_schema_is_refused(value: bytes) -> None:
    with pytest.raises(FramingError):
        split_payload(value)


@given(st.lists(st.integers(0, 2**31), min_size=1, max_size=9), st.binary())
def test_message_indexes_survive_encoding(indexes: list[int], data: bytes) -> None:
    assert decode_indexes(encode_indexes(indexes) + data) == (tuple(indexes), data)


def test_first_message_is_one_byte() -> None:
    assert encode_indexes([0]) == b"\x00"
    assert encode_indexes([1, 0]) == b"\x04\x02\x00"


@given(st.binary(max_size=20))
def test_any_bytes_are_indexes_or_refused(data: bytes) -> None:
    with contextlib.suppress(FramingError):
        decode_indexes(data)
