"""Records of batches, and what they mean for a task."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.sink.commit_record import (
    CommitRecord,
    PreparedTransaction,
    Work,
    decide,
    decode,
)
from barnabas.pipeline.sink.sink_errors import SinkError

transactions = st.builds(
    PreparedTransaction, st.text(), st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1)
)
records = st.builds(
    CommitRecord,
    st.text(),
    st.text(),
    st.integers(-1, 2**63 - 1),
    st.integers(0, 2**31 - 1),
    st.lists(transactions, max_size=4).map(tuple),
)


@given(records)
def test_record_is_decoded_as_it_was_encoded(record: CommitRecord) -> None:
    assert decode(record.encode(), "t") == record


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"format": 2}', b"\xff"])
def test_record_of_another_release_is_refused(value: bytes) -> None:
    with pytest.raises(SinkError, match="topic t has a record that this release"):
        decode(value, "t")


def test_batch_is_written_once() -> None:
    record = CommitRecord("d", "q", 7)
    assert decide(record, "q", 7, "n") is Work.SKIP
    assert decide(record, "q", 8, "n") is Work.WRITE
    assert decide(CommitRecord("d"), "q", 7, "n") is Work.WRITE


def test_batch_of_an_earlier_checkpoint_is_refused() -> None:
    with pytest.raises(SinkError, match="the checkpoint of 'n' was rolled back"):
        decide(CommitRecord("d", "q", 7), "q", 6, "n")


def test_batch_of_another_query_is_refused() -> None:
    with pytest.raises(SinkError, match="the name 'n' belongs to another query"):
        decide(CommitRecord("d", "q", 7), "r", 8, "n")
