"""`wait_until`: returns when the condition holds, and raises after its time."""

import time
from itertools import count

import pytest

from barnabas.testing.eventually import wait_until


def test_wait_until_returns_as_soon_as_the_condition_holds() -> None:
    calls = count()
    wait_until(lambda: next(calls) == 3)
    assert next(calls) == 4


def test_wait_until_raises_after_its_time() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"after 0\.05 s"):
        wait_until(lambda: False, 0.05)
    assert time.monotonic() - began < 5
