"""Keys of views: the bytes of Kafka Streams' windowed keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.views.view_keys import BadViewKeyError, KeyForm, RowKey, ViewKeys

MOMENTS = st.integers(0, 2**61)


@given(st.binary(max_size=12), MOMENTS, MOMENTS)
def test_row_key_of_record_key_is_the_same_row(key: bytes, start: int, length: int) -> None:
    for keys, row in (
        (ViewKeys(), RowKey(key)),
        (ViewKeys(KeyForm.TIME_WINDOW, 60_000), RowKey(key, start, start + 60_000)),
        (ViewKeys(KeyForm.SESSION), RowKey(key, start, start + length)),
    ):
        assert keys.row_key(keys.record_key(row)) == row


def test_windowed_keys_are_those_of_java() -> None:
    # TimeWindowedSerializer and SessionWindowedSerializer of Kafka 4.3.0 wrote these.
    time_key = b"k" + (5).to_bytes(8, "big")
    assert ViewKeys(KeyForm.TIME_WINDOW, 10).row_key(time_key) == RowKey(b"k", 5, 15)
    session = b"k" + (9).to_bytes(8, "big") + (5).to_bytes(8, "big")
    assert ViewKeys(KeyForm.SESSION).row_key(session) == RowKey(b"k", 5, 9)


@pytest.mark.parametrize("keys", [ViewKeys(KeyForm.TIME_WINDOW, 1), ViewKeys(KeyForm.SESSION)])
def test_row_key_of_short_key_is_refused(keys: ViewKeys) -> None:
    with pytest.raises(BadViewKeyError, match="7 bytes"):
        keys.row_key(bytes(7))


def test_time_windows_need_a_size() -> None:
    with pytest.raises(ValueError, match="window size of 0 ms"):
        ViewKeys(KeyForm.TIME_WINDOW)
    with pytest.raises(ValueError, match="window size of 5 ms"):
        ViewKeys(KeyForm.PLAIN, 5)
