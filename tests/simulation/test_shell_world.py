"""The server's own quorum under the faults of seeds, and mistakes planted in the server's files."""

import logging

import pytest

from barnabas.server.quorum.raft_shell import RaftShell
from barnabas.testing.simulation.shell_world import run_seed


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "barnabas")


@pytest.mark.parametrize("seed", range(1, 4))
def test_seed_keeps_every_invariant(seed: int) -> None:
    simulation = run_seed(seed)

    assert simulation.acknowledged
    assert simulation.invariants.leaders


def test_seed_has_the_same_trace_again() -> None:
    first, second = run_seed(1), run_seed(1)

    assert (first.world.trace, first.world.events) == (second.world.trace, second.world.events)


def test_log_that_counts_as_synced_before_its_fsync_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def counted_too_early(self: RaftShell) -> None:
        """The shell's `_flush` without the fsync."""
        end_offset = self._appended_offset
        self._flushed_offset = end_offset
        self._core.on_flushed(end_offset)
        await self._settle()

    monkeypatch.setattr(RaftShell, "_flush", counted_too_early)

    with pytest.raises(AssertionError, match=r"^(LC|HW|R3)"):
        run_seeds(range(1, 9))


def run_seeds(seeds: range) -> None:
    for seed in seeds:
        run_seed(seed)
