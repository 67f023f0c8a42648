"""Markers of epochs: every relation of a marker to a checkpoint."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.delivery.micro_batches import micro_batch_markers
from barnabas.pipeline.delivery.micro_batches.micro_batch_markers import (
    Decision,
    EpochMismatchError,
    Marker,
    decide,
    decode,
    digest_of,
)

QUERY = "query"


def marker(epoch: int, digest: str = "d", query: str = QUERY) -> Marker:
    """Return the marker that epoch `epoch` leaves."""
    return Marker(epoch + 1, query, digest)


def test_first_epoch_without_marker_is_written() -> None:
    assert decide(None, marker(0)) is Decision.WRITE


def test_later_epoch_without_marker_is_refused() -> None:
    with pytest.raises(EpochMismatchError, match="expired"):
        decide(None, marker(4))


def test_epoch_behind_its_predecessor_is_written() -> None:
    assert decide(marker(4, "before"), marker(5)) is Decision.WRITE


def test_committed_epoch_is_skipped() -> None:
    assert decide(marker(5), marker(5)) is Decision.SKIP


def test_committed_epoch_with_other_input_is_refused() -> None:
    with pytest.raises(EpochMismatchError, match="not the one that wrote epoch 5"):
        decide(marker(5, "other"), marker(5))


def test_epoch_of_another_query_is_refused() -> None:
    with pytest.raises(EpochMismatchError, match="not the one that wrote epoch 4"):
        decide(marker(4, query="wiped"), marker(5))


@given(st.integers(0, 30), st.integers(0, 30))
def test_only_the_same_or_the_next_epoch_is_accepted(newest: int, epoch: int) -> None:
    try:
        decision = decide(marker(newest), marker(epoch))
    except EpochMismatchError:
        assert epoch not in (newest, newest + 1)
    else:
        assert decision is (Decision.SKIP if epoch == newest else Decision.WRITE)


@given(st.integers(0, 2**40), st.text(), st.binary())
def test_marker_survives_encoding(epoch: int, query: str, content: bytes) -> None:
    found = Marker(epoch, query, digest_of(content))
    assert decode(epoch, found.encode()) == found


@pytest.mark.parametrize("metadata", [None, "", "text", "[]", "{}", '{"query": 1}'])
def test_offset_of_another_program_matches_no_query(metadata: str | None) -> None:
    found = decode(3, metadata)
    assert found == Marker(3, "", "")
    with pytest.raises(EpochMismatchError):
        decide(found, marker(3))


def test_negative_offset_holds_none() -> None:
    assert micro_batch_markers.decode(-1001, None) is None
