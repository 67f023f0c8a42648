"""Damaged requests: never an internal error, never slow, memory flat."""

import trio

from tests.registry.registry_fuzz import SLOW_S, fuzz


def test_damaged_requests_are_answered_in_time_without_internal_errors() -> None:
    outcome = trio.run(fuzz, 20261122, 2000)
    assert outcome.failures == []
    assert outcome.slowest_s < SLOW_S, outcome.slowest
    assert outcome.grown_mb < 50
