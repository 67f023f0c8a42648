"""The instrument that measures for how long the event loop is held."""

import pytest
import trio

from barnabas.server.monitoring import loop_holds
from barnabas.server.monitoring.loop_holds import BOUNDS, HoldHistogram, LoopHolds, hold_families


def test_hold_histogram_counts_each_hold_in_its_bucket() -> None:
    histogram = HoldHistogram()
    for held in (0.001, 0.01, 0.06, 9.0):
        histogram.add(held, 1.0)
    counted = dict(zip((*BOUNDS, None), histogram.counts, strict=True))
    assert {each: count for each, count in counted.items() if count} == {
        0.005: 1,
        0.01: 1,
        0.075: 1,
        None: 1,
    }
    assert histogram.seconds == pytest.approx(9.071)


@pytest.mark.parametrize(
    ("now", "expected"), [(1.0, 0.5), (59.0, 0.5), (100.0, 0.5), (130.0, 0.0), (1000.0, 0.0)]
)
def test_hold_histogram_longest_is_of_the_last_minutes(now: float, expected: float) -> None:
    histogram = HoldHistogram()
    histogram.add(0.5, 1.0)
    histogram.add(0.2, 1.0)
    assert histogram.longest(62.0 if now >= 62.0 else now) == 0.5
    assert histogram.longest(now) == expected


def test_loop_holds_measure_a_task_that_does_not_yield(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, cpu = [100.0], [3.0]
    monkeypatch.setattr(loop_holds, "perf_counter", lambda: wall[0])
    monkeypatch.setattr(loop_holds, "thread_time", lambda: cpu[0])
    holds = LoopHolds()

    async def main() -> None:
        trio.lowlevel.add_instrument(holds)
        await trio.sleep(0.001)
        wall[0] += 0.7  # this task holds the loop
        cpu[0] += 0.3  # and other processes have its core for a while
        await trio.sleep(0.001)

    trio.run(main)
    assert holds.wall.counts[BOUNDS.index(1.0)] == 1
    assert holds.cpu.counts[BOUNDS.index(0.5)] == 1
    lengths, longest = hold_families(holds)
    assert {each.labels["clock"]: each.value for each in longest.samples} == {
        "wall": pytest.approx(0.7),
        "cpu": pytest.approx(0.3),
    }
    below = {
        (each.labels["clock"], each.labels["le"]): each.value
        for each in lengths.samples
        if each.name.endswith("_bucket")
    }
    assert below["wall", "+Inf"] - below["wall", "0.5"] == 1
    assert below["cpu", "0.5"] - below["cpu", "0.2"] == 1
