"""Records of MirrorMaker 2's own topics; the bytes were recorded from its classes (4.3.0)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.mirror.mirrormaker.internal_records import (
    Checkpoint,
    Heartbeat,
    InternalRecordError,
    OffsetSync,
)

NAMES = st.text(st.characters(codec="utf-8"), max_size=40)
LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)
RECORDS = (
    st.builds(Heartbeat, NAMES, NAMES, LONGS)
    | st.builds(Checkpoint, NAMES, NAMES, INTS, LONGS, LONGS, NAMES)
    | st.builds(OffsetSync, NAMES, INTS, LONGS, LONGS)
)


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (Heartbeat("A", "B", 1_700_000_000_000), "000141000142", "00000000018bcfe56800"),
        (
            Checkpoint("g", "A.t", 3, 17, 12, "note é"),
            "0001670003412e7400000003",
            "00000000000000000011000000000000000c00076e6f746520c3a9",
        ),
        (OffsetSync("t", 2, 9, 7), "00017400000002", "00000000000000090000000000000007"),
    ],
)
def test_bytes_are_those_of_mirror_maker(
    record: Heartbeat | Checkpoint | OffsetSync, key: str, value: str
) -> None:
    assert (record.key().hex(), record.value().hex()) == (key, value)


@given(RECORDS)
def test_a_record_is_read_as_it_was_written(record: Heartbeat | Checkpoint | OffsetSync) -> None:
    assert type(record).of(record.key(), record.value()) == record


@given(RECORDS, st.data())
def test_cut_bytes_are_refused(
    record: Heartbeat | Checkpoint | OffsetSync, data: st.DataObject
) -> None:
    key, value = record.key(), record.value()
    cut = data.draw(st.integers(0, len(value) - 1))
    with pytest.raises(InternalRecordError):
        type(record).of(key, value[:cut])
    with pytest.raises(InternalRecordError):
        type(record).of(key[:-1], value)


@given(st.sampled_from([Heartbeat, Checkpoint, OffsetSync]), st.binary(), st.binary())
def test_other_bytes_are_read_or_refused(
    kind: type[Heartbeat | Checkpoint | OffsetSync], key: bytes, value: bytes
) -> None:
    try:
        found = kind.of(key, value)
    except InternalRecordError:
        return
    assert key.startswith(found.key())
    assert value.startswith(found.value())


def test_tombstones_versions_and_long_texts_are_refused() -> None:
    record = Heartbeat("A", "B", 1)
    with pytest.raises(InternalRecordError, match="end within a field"):
        Heartbeat.of(record.key(), None)
    with pytest.raises(InternalRecordError, match="version 1, and 0 is supported"):
        Heartbeat.of(record.key(), b"\0\1" + record.value()[2:])
    with pytest.raises(InternalRecordError, match="40000 bytes is longer than 32767"):
        Heartbeat("A" * 40_000, "B", 1).key()
