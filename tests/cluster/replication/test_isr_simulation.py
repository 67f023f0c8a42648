"""Leaders keep the promises of replication through faults, and planted mistakes are found.

`python -m tests.cluster.replication.test_isr_simulation` prints the first seed that reveals each
mistake. Mistakes that need a rarer history are held by `test_partition_isr`: expanding below the
epoch start, rolling back after a version error, taking older images, never refusing acks.
"""

import logging
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from barnabas.cluster.replication import Partition
from barnabas.cluster.replication.isr_manager import IsrManager, IsrProposal
from barnabas.cluster.replication.isr_state import IsrState
from barnabas.cluster.replication.leader_state import LeaderState
from barnabas.server.api.handlers.data.fetch_handler import Fetching
from barnabas.server.replication.fetch_sessions import FetchedPartition
from tests.cluster.replication.isr_simulation import Violation, run

SEEDS = 16
SEEDS_MAX = 600


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "barnabas")


def test_isr_simulation_keeps_the_promises_of_replication() -> None:
    counts: dict[str, int] = {}
    for seed in range(SEEDS):
        for name, count in run(seed).items():
            counts[name] = counts.get(name, 0) + count
    counts.pop("refused_after")  # needs a change of min.insync.replicas meanwhile
    assert all(counts.values()), counts  # each kind of event did happen


Patch = pytest.MonkeyPatch
Mistake = Callable[[Patch], None]


def note_followers_before_the_divergence_check(patch: Patch) -> None:
    """Mistake 15."""
    read = Fetching._read

    def mistaken(self: Any, fetched: Any, partition: Partition, requested: Any) -> Any:
        if self._is_new and self._replica >= 0:
            state = partition.leader_state
            if state is not None and self._replica in state.followers:
                end = min(requested.fetch_offset, partition.log.log_end_offset)
                partition.follower_fetched(self._replica, end, 0, self._replica_epoch)
        return read(self, fetched, partition, requested)

    patch.setattr(Fetching, "_read", mistaken)


def count_the_committed_isr(patch: Patch) -> None:
    """the high watermark ignores a replica that is joining."""

    def expanded(self: IsrState, replica: int) -> IsrState:
        return IsrState(self.committed, self.committed, (*self.committed, replica))

    patch.setattr(IsrState, "expanded", expanded)
    patch.setattr(LeaderState, "_is_joining", lambda *_: False)


def apply_a_shrink_at_once(patch: Patch) -> None:
    """Mistake 20, second half."""
    shrunk = IsrState.shrunk

    def mistaken(self: IsrState, replicas: Any) -> IsrState:
        state = shrunk(self, replicas)
        left = state.proposed or ()
        return attrs.evolve(state, committed=left, maximal=left)

    patch.setattr(IsrState, "shrunk", mistaken)


def expand_without_the_broker_epoch(patch: Patch) -> None:
    """Mistake 22."""
    encoded = IsrManager._encoded

    def mistaken(self: IsrManager, proposal: IsrProposal, broker_epoch: int) -> Any:
        data = encoded(self, proposal, broker_epoch)
        for each in data.new_isr_with_epochs:
            each.broker_epoch = -1
        return data

    patch.setattr(IsrManager, "_encoded", mistaken)


def commit_below_min_isr(patch: Patch) -> None:
    """Mistake 28."""
    high_watermark = LeaderState.high_watermark

    def mistaken(self: LeaderState, log_end_offset: int, now_ms: int) -> int:
        needed, self.min_insync_replicas = self.min_insync_replicas, 1
        try:
            return high_watermark(self, log_end_offset, now_ms)
        finally:
            self.min_insync_replicas = needed

    patch.setattr(LeaderState, "high_watermark", mistaken)


def refuse_after_the_append(patch: Patch) -> None:
    """NOT_ENOUGH_REPLICAS for a batch that is in the log."""
    append, check = Partition.append, Partition._check_insync

    def mistaken(self: Partition, *args: Any, **fields: Any) -> Any:
        patch.setattr(Partition, "_check_insync", lambda _: None)
        info = append(self, *args, **fields)
        if fields["required_acks"] == -1:
            check(self)
        return info

    patch.setattr(Partition, "append", mistaken)


def hide_high_watermarks_in_sessions(patch: Patch) -> None:
    """Mistake 41, first half."""
    is_included = FetchedPartition.is_included

    def mistaken(self: FetchedPartition) -> bool:
        self.high_watermark = self.answer.high_watermark
        return is_included(self)

    patch.setattr(FetchedPartition, "is_included", mistaken)


def hide_divergence_in_sessions(patch: Patch) -> None:
    """Mistake 41, second half."""
    is_included = FetchedPartition.is_included

    def mistaken(self: FetchedPartition) -> bool:
        return is_included(self) and self.answer.diverging_epoch.epoch < 0

    patch.setattr(FetchedPartition, "is_included", mistaken)


def serve_above_the_high_watermark(patch: Patch) -> None:
    def mistaken(self: Partition, isolation_level: int, *, follower: bool = False) -> int:
        is_committed = self.is_leader and not follower
        return self.log.high_watermark if is_committed else self.log.log_end_offset

    patch.setattr(Partition, "fetchable_end", mistaken)


# Each mistake and a seed that reveals it.
MISTAKES: dict[Mistake, int] = {
    note_followers_before_the_divergence_check: 27,
    count_the_committed_isr: 345,
    apply_a_shrink_at_once: 258,
    expand_without_the_broker_epoch: 443,
    commit_below_min_isr: 1,
    refuse_after_the_append: 0,
    hide_high_watermarks_in_sessions: 0,
    hide_divergence_in_sessions: 6,
    serve_above_the_high_watermark: 1,
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.__name__)
def test_isr_simulation_finds_the_planted_mistake(
    mistake: Mistake, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(MISTAKES[mistake])  # the correct code keeps its promises with this seed
    mistake(monkeypatch)
    with pytest.raises(Violation):
        run(MISTAKES[mistake])


def search() -> None:
    """Print the first seed that reveals each mistake."""
    logging.disable(logging.CRITICAL)
    for mistake in MISTAKES:
        found = "none"
        with pytest.MonkeyPatch.context() as patch:
            mistake(patch)
            for seed in range(SEEDS_MAX):
                try:
                    run(seed)
                except Violation as violation:
                    found = f"{seed} {violation}"
                    break
        print(mistake.__name__, found, flush=True)


if __name__ == "__main__":
    search()
