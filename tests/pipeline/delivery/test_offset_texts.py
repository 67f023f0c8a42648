"""Texts that jobs store with offsets, and positions of source connectors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.delivery.plan.offset_metadata import OffsetMetadata, decode
from barnabas.pipeline.delivery.slices.source_offsets import SourceOffsets, encode_key, encode_value

TOPIC_IDS = st.text("abcXYZ019-_", min_size=1)


@given(st.none() | TOPIC_IDS, st.text(), st.integers(0, 1 << 50), st.integers(0, 1 << 50))
def test_offset_metadata_survives_encoding(
    topic_id: str | None, note: str, committed_ms: int, position: int
) -> None:
    metadata = OffsetMetadata(topic_id, note, committed_ms, position)
    assert decode(metadata.encode()) == metadata


@pytest.mark.parametrize("text", [None, "", "x", "[]", '{"topic_id": 5, "position": "9"}'])
def test_metadata_of_another_program_is_empty(text: str | None) -> None:
    assert decode(text) == OffsetMetadata()


def test_source_offsets_are_those_of_java_byte_for_byte() -> None:
    assert encode_key("src", {"filename": "/p"}) == b'["src",{"filename":"/p"}]'
    assert encode_value({"position": 51}) == b'{"position":51}'


def test_newest_offset_counts_and_null_resets() -> None:
    a, b = {"f": "a", "g": 1}, {"f": "b"}
    offsets = SourceOffsets(
        "c",
        [
            (encode_key("c", a), encode_value({"p": 1})),
            (encode_key("other", a), encode_value({"p": 9})),
            (encode_key("c", b), encode_value({"p": 5})),
            (b"not json", b"{}"),
            (encode_key("c", {"g": 1, "f": "a"}), encode_value({"p": 2})),
            (encode_key("c", b), None),
        ],
    )
    assert offsets.offset(a) == {"p": 2}
    assert offsets.offset(b) is None


def test_topic_id_of_librdkafka_is_written_as_kafka_writes_it() -> None:
    assert decode('{"topic_id":"/+a-_"}') == OffsetMetadata("_-a-_")
