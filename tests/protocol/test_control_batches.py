"""The plain codec of control records is equal to the declared messages."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.batches.batch_header import read_header
from barnabas.protocol.batches.control_batches import (
    ControlType,
    TransactionMarker,
    control_key,
    control_type,
    decode_marker,
    marker_batch,
)
from barnabas.protocol.batches.record_decoding import read_records
from barnabas.protocol.records.control_records import ControlRecordTypeSchema, EndTxnMarker

VERSION_0 = struct.pack(">h", 0)


@pytest.mark.parametrize("kind", ControlType)
def test_control_key_equals_the_declared_message(kind: ControlType) -> None:
    assert control_key(kind) == VERSION_0 + ControlRecordTypeSchema(type=kind).encode(0)
    assert control_type(control_key(kind)) == kind


@given(st.booleans(), st.integers(0, 2**31 - 1), st.integers(0, 2**62), st.integers(0, 2**15 - 1))
def test_marker_batch_equals_the_declared_messages(
    is_commit: bool, coordinator_epoch: int, producer_id: int, producer_epoch: int
) -> None:
    marker = TransactionMarker(is_commit, coordinator_epoch)
    batch = marker_batch(marker, producer_id, producer_epoch, 1_700_000_000_000)
    header = read_header(batch)
    [record] = read_records(batch, 0, header)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch) == (producer_id, producer_epoch)
    assert header.last_sequence == -1
    assert record.key == VERSION_0 + ControlRecordTypeSchema(type=int(is_commit)).encode(0)
    assert record.value == VERSION_0 + EndTxnMarker(coordinator_epoch=coordinator_epoch).encode(0)
    assert decode_marker(record.key, record.value) == marker


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", control_key(ControlType.LEADER_CHANGE)])
def test_decode_marker_of_another_key_returns_none(key: bytes | None) -> None:
    assert decode_marker(key, bytes(6)) is None


@pytest.mark.parametrize("value", [None, b"", bytes(5)])
def test_decode_marker_of_a_truncated_value_returns_none(value: bytes | None) -> None:
    assert decode_marker(control_key(ControlType.COMMIT), value) is None
