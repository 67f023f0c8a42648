"""Markers of micro-batches: every relation of a marker to a checkpoint."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.delivery.micro_batches import micro_batch_markers
from barnabas.pipeline.delivery.micro_batches.micro_batch_markers import (
    Decision,
    Marker,
    MicroBatchMismatchError,
    decide,
    decode,
    digest_of,
)

QUERY = "query"


def marker(batch: int, digest: str = "d", query: str = QUERY) -> Marker:
    """Return the marker that a micro-batch leaves."""
    return Marker(batch + 1, query, digest)


def test_first_micro_batch_without_marker_is_written() -> None:
    assert decide(None, marker(0)) is Decision.WRITE


def test_later_micro_batch_without_marker_is_refused() -> None:
    with pytest.raises(MicroBatchMismatchError, match="expired"):
        decide(None, marker(4))


def test_epoch_behind_its_predecessor_is_written() -> None:
    assert decide(marker(4, "before"), marker(5)) is Decision.WRITE


def test_committed_micro_batch_is_skipped() -> None:
    assert decide(marker(5), marker(5)) is Decision.SKIP


def test_committed_micro_batch_with_other_input_is_refused() -> None:
    with pytest.raises(MicroBatchMismatchError, match="not the one that wrote micro-batch 5"):
        decide(marker(5, "other"), marker(5))


def test_epoch_of_another_query_is_refused() -> None:
    with pytest.raises(MicroBatchMismatchError, match="not the one that wrote micro-batch 4"):
        decide(marker(4, query="wiped"), marker(5))


@given(st.integers(0, 30), st.integers(0, 30))
def test_only_the_same_or_the_next_micro_batch_is_accepted(newest: int, batch: int) -> None:
    try:
        decision = decide(marker(newest), marker(batch))
    except MicroBatchMismatchError:
        assert batch not in (newest, newest + 1)
    else:
        assert decision is (Decision.SKIP if batch == newest else Decision.WRITE)


@given(st.integers(0, 2**40), st.text(), st.binary())
def test_marker_survives_encoding(batch: int, query: str, content: bytes) -> None:
    found = Marker(batch, query, digest_of(content))
    assert decode(batch, found.encode()) == found


@pytest.mark.parametrize("metadata", [None, "", "text", "[]", "{}", '{"query": 1}'])
def test_offset_of_another_program_matches_no_query(metadata: str | None) -> None:
    found = decode(3, metadata)
    assert found == Marker(3, "", "")
    with pytest.raises(MicroBatchMismatchError):
        decide(found, marker(3))


def test_negative_offset_holds_none() -> None:
    assert micro_batch_markers.decode(-1001, None) is None
