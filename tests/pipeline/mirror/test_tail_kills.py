"""kill -9 of a flow that copies what arrives: no record is lost, none comes twice."""

import signal

import pytest
import trio

from barnabas.testing import Node
from tests.pipeline.mirror.killed_tails import DEADLINE_S, Load, prepare, process, until

_KILLS = 4
_RECORDS_BETWEEN = 200
_POINTS = range(12)
"""Before and after the calls of a tail's first transaction; the last one ends it."""


@pytest.mark.parametrize("offsets", ["identical", "assigned"])
def test_killed_tails_lose_and_repeat_no_record(offsets: str) -> None:
    with Node() as source, Node() as target:
        trio.run(prepare, source.bootstrap)
        with Load(source.bootstrap) as load:
            for _ in range(_KILLS):
                with process(source, target, offsets):
                    trio.run(until, target, load.written + _RECORDS_BETWEEN)
        with process(source, target, offsets):
            found = trio.run(until, target, load.written)
        assert found == list(range(load.written))


def test_tails_killed_at_each_point_of_a_transaction_lose_and_repeat_no_record() -> None:
    with Node() as source, Node() as target:
        trio.run(prepare, source.bootstrap)
        with Load(source.bootstrap) as load:
            for point in _POINTS:
                with process(source, target, "assigned", str(point)) as killed:
                    assert killed.wait(DEADLINE_S) == -signal.SIGKILL, f"point {point}"
        with process(source, target, "assigned"):
            found = trio.run(until, target, load.written)
        assert found == list(range(load.written))
