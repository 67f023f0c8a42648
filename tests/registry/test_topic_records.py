"""Records of ``_schemas``: bytes as the reference writes them, and lenient reading."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.registry.core.json_fields import write_json
from barnabas.registry.core.registry_core import RegistryCore
from barnabas.registry.core.schema_entities import SchemaContent
from barnabas.registry.core.topic_records import (
    HighestIdKey,
    RecordError,
    SchemaKey,
    SchemaValue,
    TopicRecord,
    decode_record,
    encode_key,
    encode_value,
)

texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(texts, st.integers(1, 2**31 - 1), texts, st.booleans())
def test_schema_record_survives_encoding(
    subject: str, version: int, text: str, deleted: bool
) -> None:
    value = SchemaValue("s" + subject, version, 1, SchemaContent("AVRO", text), deleted)
    record = TopicRecord(SchemaKey(value.subject, version), value)
    assert decode_record(encode_key(record.key), encode_value(record)) == record


@given(texts)
def test_written_json_is_read_back(text: str) -> None:
    assert json.loads(write_json({"a": text})) == {"a": text}


def test_control_characters_are_written_in_upper_case_hexadecimal() -> None:
    assert write_json({"a": "\x1f\\u001f\n"}) == '{"a":"\\u001F\\\\u001f\\n"}'


def test_records_of_older_registries_are_read() -> None:
    core = RegistryCore()
    old = [
        (
            b'{"magic":1,"keytype":"SCHEMA","version":1,"subject":"s"}',
            b'{"subject":"s","version":1,"id":4,"schema":"\\"int\\""}',
        ),
        (b'{"keytype":"CONFIG","magic":0}', b'{"compatibilityLevel":"FULL"}'),
    ]
    for offset, (key, value) in enumerate(old):
        assert core.replay(key, value, offset=offset, timestamp_ms=5) is None
    version = core.state.latest("s")
    assert version is not None
    assert (version.schema_id, version.content.schema_type) == (4, "AVRO")
    assert core.state.config_in_scope("s").compatibility_level == "FULL"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"not json", None),
        (b"[]", None),
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":2}', None),
        (b'{"keytype":"WHAT","magic":0}', None),
        (b'{"keytype":"SCHEMA","subject":"s","magic":1}', None),
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', b'{"id":"x"}'),
        (b'{"keytype":"MODE","magic":0}', b'{"mode":"WHAT"}'),
        (b"\xff", None),
    ],
)
def test_unreadable_record_is_skipped_with_its_offset(
    key: bytes | None, value: bytes | None
) -> None:
    with pytest.raises(RecordError):
        decode_record(key, value)
    core = RegistryCore()
    skipped = core.replay(key, value, offset=7, timestamp_ms=0)
    assert skipped is not None
    assert skipped.offset == 7
    assert core.skipped_records == 1


def test_second_content_of_an_id_does_not_count() -> None:
    core = RegistryCore()
    first = SchemaValue("s", 1, 1, SchemaContent("AVRO", '"int"'), False)
    other = SchemaValue("t", 1, 1, SchemaContent("AVRO", '"long"'), False)
    core.state.apply(TopicRecord(SchemaKey("s", 1), first), 0)
    core.state.apply(TopicRecord(SchemaKey("t", 1), other), 0)
    assert core.state.undone_records == 1
    assert core.take_repairs() == []
    assert core.state.holders(".", 1)[0].content.text == '"int"'
    assert core.state.version("t", 1) is None


def test_second_id_of_a_version_is_written_over_by_the_leader() -> None:
    core = RegistryCore()
    first = SchemaValue("s", 1, 1, SchemaContent("AVRO", '"int"'), False)
    other = SchemaValue("s", 1, 2, SchemaContent("AVRO", '"long"'), False)
    core.state.apply(TopicRecord(SchemaKey("s", 1), first), 0)
    core.state.apply(TopicRecord(SchemaKey("s", 1), other), 0)
    highest = TopicRecord(HighestIdKey("."), 2)
    assert core.take_repairs() == [TopicRecord(SchemaKey("s", 1), first), highest]
    core.state.apply(highest, 0)
    assert core.take_repairs() == []
    found = core.state.version("s", 1)
    assert found is not None
    assert found.schema_id == 1
