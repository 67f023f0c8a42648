"""The pause between looks of `make compat`'s tests."""

import time

import pytest

from compat_tests.pace import Pace


@pytest.mark.parametrize(
    ("look_s", "pause_s"), [(0.0, 0.05), (0.01, 0.05), (0.1, 0.3), (0.3, 0.9), (20.0, 1.0)]
)
def test_pause_is_three_looks_within_its_bounds(
    look_s: float, pause_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, pauses = [100.0], list[float]()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", pauses.append)
    pace = Pace(0.05)
    for _ in range(2):
        now[0] += look_s
        pace.pause()
    assert pauses == pytest.approx([pause_s, pause_s])
