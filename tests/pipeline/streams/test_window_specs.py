"""Lengths of time and windows, as users write them."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.streams.window_specs import (
    Window,
    WindowKind,
    duration_ms,
    hopping,
    session,
    sliding,
    tumbling,
)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("1 minute", 60_000),
        ("1 hour 30 minutes", 5_400_000),
        ("250 milliseconds", 250),
        (" 2  Days ", 172_800_000),
        ("0 seconds", 0),
    ],
)
def test_duration_of_text_is_in_milliseconds(text: str, expected_ms: int) -> None:
    assert duration_ms(text) == expected_ms


@given(st.integers(0, 10**9))
def test_duration_of_a_timedelta_is_that_of_its_text(milliseconds: int) -> None:
    delta = datetime.timedelta(milliseconds=milliseconds)
    assert duration_ms(delta) == duration_ms(f"{milliseconds} milliseconds") == milliseconds


@pytest.mark.parametrize(
    "text", ["", "5", "minute", "1 fortnight", "2h", "-1 minute", "1 minute x"]
)
def test_duration_of_other_text_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="for example '30 seconds'"):
        duration_ms(text)


def test_windows_have_the_lengths_that_were_given() -> None:
    assert tumbling("1 minute") == Window(WindowKind.TUMBLING, 60_000, 60_000, 0)
    assert hopping("1 minute", "10 seconds", grace="5 seconds") == Window(
        WindowKind.HOPPING, 60_000, 10_000, 5_000
    )
    assert session("1 minute").size_ms == 60_000
    assert sliding("1 minute").size_ms == 60_000


def test_windows_without_length_or_with_gaps_are_refused() -> None:
    with pytest.raises(ValueError, match="longer than 0"):
        tumbling("0 seconds")
    with pytest.raises(ValueError, match="cannot start every 120000 ms"):
        hopping("1 minute", "2 minutes")
