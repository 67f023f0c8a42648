"""Records of Connect's topics: the bytes that Java's worker 4.3.0 writes, and back."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.jobs.core.store_records import (
    ActiveTopicRecord,
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    FencingRecord,
    LoggerRecord,
    OffsetRecord,
    RestartRecord,
    SessionKeyRecord,
    SourceTopicRecord,
    StatusRecord,
    TargetRecord,
    TaskRecord,
    UnreadableRecordError,
    decode_config,
    decode_offset,
    decode_status,
    encode_config,
    encode_offset,
    encode_status,
)

CONFIGS = [
    (ConnectorRecord("c", {"name": "c"}), b"connector-c", b'{"properties":{"name":"c"}}'),
    (ConnectorRecord("c", None), b"connector-c", None),
    (TaskRecord("a-b", 1, {"x": None}), b"task-a-b-1", b'{"properties":{"x":null}}'),
    (CommitRecord("c", 2), b"commit-c", b'{"tasks":2}'),
    (TargetRecord("c", "PAUSED"), b"target-state-c", b'{"state":"PAUSED","state.v2":"PAUSED"}'),
    (TargetRecord("c", "STOPPED"), b"target-state-c", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
    (TargetRecord("c", None), b"target-state-c", None),
    (FencingRecord("c", 3), b"tasks-fencing-c", b'{"task-count":3}'),
    (
        RestartRecord("c", True, False),
        b"restart-connector-c",
        b'{"include-tasks":true,"only-failed":false}',
    ),
    (LoggerRecord("org.x", "DEBUG"), b"logger-cluster-org.x", b'{"level":"DEBUG"}'),
]


@pytest.mark.parametrize(("record", "key", "value"), CONFIGS)
def test_config_record_has_the_bytes_of_java(
    record: ConfigRecord, key: bytes, value: bytes | None
) -> None:
    assert encode_config(record) == (key, value)
    assert decode_config(key, value) == record


def test_session_key_is_read_and_target_of_old_worker_too() -> None:
    key = b'{"key":"abc=","algorithm":"HmacSHA256","creation-timestamp":1}'
    assert decode_config(b"session-key", key) == SessionKeyRecord()
    assert decode_config(b"target-state-c", b'{"state":"STARTED"}') == TargetRecord("c", "STARTED")
    assert decode_config(b"unknown-c", b"{}") is None


STATUSES = [
    (
        StatusRecord("c", None, "RUNNING", None, "127.0.0.1:8083", 2, "4.3.0"),
        b"status-connector-c",
        b'{"state":"RUNNING","trace":null,"worker_id":"127.0.0.1:8083","generation":2,'
        b'"version":"4.3.0"}',
    ),
    (
        StatusRecord("c-d", 0, "FAILED", "a\nb", "w", 1, None),
        b"status-task-c-d-0",
        b'{"state":"FAILED","trace":"a\\nb","worker_id":"w","generation":1,"version":null}',
    ),
    (StatusRecord("c", 1, None), b"status-task-c-1", None),
    (
        ActiveTopicRecord("t", "c", 0, 1700000000000),
        b"status-topic-t:connector-c",
        b'{"topic":{"name":"t","connector":"c","task":0,"discoverTimestamp":1700000000000}}',
    ),
]


@pytest.mark.parametrize(("record", "key", "value"), STATUSES)
def test_status_record_has_the_bytes_of_java(
    record: StatusRecord | ActiveTopicRecord, key: bytes, value: bytes | None
) -> None:
    assert encode_status(record) == (key, value)
    assert decode_status(key, value) == record


def test_offset_record_has_the_bytes_of_java() -> None:
    record = OffsetRecord("src", {"filename": "/ü"}, {"position": 51})
    encoded = ('["src",{"filename":"/ü"}]'.encode(), b'{"position":51}')
    assert encode_offset(record) == encoded
    assert decode_offset(*encoded) == record
    assert decode_offset(encoded[0], None) == OffsetRecord("src", {"filename": "/ü"}, None)
    assert decode_offset(b'"text"', None) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\xff", None),
        (b"connector-c", b"["),
        (b"connector-c", b"[]"),
        (b"connector-c", b'{"properties":{"a":1}}'),
        (b"connector-c", b'{"properties":[]}'),
        (b"task-c", b'{"properties":{}}'),
        (b"task-c-x", None),
        (b"commit-c", b'{"tasks":"2"}'),
    ],
)
def test_damaged_config_record_is_unreadable(key: bytes, value: bytes | None) -> None:
    with pytest.raises(UnreadableRecordError):
        decode_config(key, value)


@given(st.binary(max_size=40), st.none() | st.binary(max_size=60))
def test_any_bytes_are_read_or_unreadable(key: bytes, value: bytes | None) -> None:
    for prefix in (b"", b"connector-", b"task-", b"target-state-", b"status-topic-", b"["):
        for decode in (decode_config, decode_status, decode_offset):
            with contextlib.suppress(UnreadableRecordError):
                decode(prefix + key, value)


texts = st.text(max_size=12)
properties = st.dictionaries(texts, texts | st.none(), max_size=4)


@given(texts, st.integers(0, 99), properties)
def test_task_record_survives_the_round_trip(name: str, task: int, found: dict[str, str]) -> None:
    record = TaskRecord(name, task, found)
    assert decode_config(*encode_config(record)) == record


@pytest.mark.parametrize(
    ("record", "value"),
    [
        (
            SourceTopicRecord("c", "t", "AAAAAAAAAAEAAAAAAAAAAg"),
            b'{"topic_id":"AAAAAAAAAAEAAAAAAAAAAg"}',
        ),
        (SourceTopicRecord("c", "t", None), None),
    ],
)
def test_source_topic_is_a_record_of_the_offsets_topic(
    record: SourceTopicRecord, value: bytes | None
) -> None:
    """The key is a list of the connector and a map, as Java's workers demand of all keys."""
    key = b'["c",{"barnabas.topic":"t"}]'
    assert encode_offset(record) == (key, value)
    assert decode_offset(key, value) == record
