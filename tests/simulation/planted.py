"""Planted mistakes in the cores: each must break an invariant of the simulation.

`python -m tests.simulation.planted` searches for the seeds that reveal each mistake and prints the
table; the tests use one pinned seed of each.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from barnabas.cluster.replication import Partition
from barnabas.cluster.replication.fetcher_core import FetcherCore
from barnabas.cluster.replication.followed_partition import FollowedPartition
from barnabas.cluster.replication.leader_state import LeaderState
from barnabas.protocol.errors import ErrorCode
from barnabas.server.api.handlers.data.fetch_handler import Fetching
from barnabas.testing.simulation import prepare, run

SEEDS_MAX = 300
SIM_SECONDS = 30

Plant = Callable[[], AbstractContextManager[None]]


def _replaced(owner: type, name: str, replacement: Callable[..., Any]) -> Plant:
    """Return a plant that replaces a method; the original is passed as the first argument."""

    @contextmanager
    def plant() -> Iterator[None]:
        original = getattr(owner, name)

        def method(self: Any, *args: Any, **named: Any) -> Any:
            return replacement(original, self, *args, **named)

        with mock.patch.object(owner, name, method):
            yield

    return plant


def _acks_without_followers(_: Any, self: LeaderState, *args: Any) -> ErrorCode:
    return ErrorCode.NONE


def _high_watermark_is_the_end(_: Any, self: LeaderState, end: int, now_ms: int) -> int:
    return end


def _high_watermark_of_committed_isr(_: Any, self: LeaderState, end: int, now_ms: int) -> int:
    ends = [
        progress.log_end_offset
        for replica, progress in self.followers.items()
        if replica in self.isr.committed
    ]
    return min([end, *ends])


def _progress_before_divergence(
    original: Any, self: Any, partition: Partition, requested: Any, answer: Any
) -> bool:
    replica = self._replica
    state = partition.leader_state
    if replica >= 0 and state is not None and replica in state.followers:
        partition.follower_fetched(
            replica, requested.fetch_offset, requested.log_start_offset, self._replica_epoch
        )
    return original(self, partition, requested, answer)


def _no_divergence(original: Any, self: Any, *args: Any) -> bool:
    return False


def _truncate_to_high_watermark(_: Any, self: Any, followed: FollowedPartition, __: Any) -> None:
    followed.replica.truncate_to(followed.replica.log.high_watermark)
    followed.read_log()
    self._moved(followed)


def _leader_epoch_as_last_epoch(original: Any, self: FollowedPartition, limit: int) -> Any:
    request = original(self, limit)
    request.last_fetched_epoch = self.leader_epoch
    return request


def _join_below_the_epoch_start(
    original: Any, self: LeaderState, replica: int, high_watermark: int
) -> bool:
    start, self.epoch_start_offset = self.epoch_start_offset, 0
    try:
        return original(self, replica, high_watermark)
    finally:
        self.epoch_start_offset = start


def _join_at_once(original: Any, self: LeaderState, replica: int, _: int) -> bool:
    return not self.isr.is_pending and replica not in self.isr.committed


def _without_epoch_start(original: Any, self: Any, log: Any, state: LeaderState) -> None:
    state.epoch_start_offset = log.log_end_offset


# Each mistake with its plant, and a seed that reveals it, if one is known. The simulations in
# tests/cluster/replication reveal the others.
MISTAKES: dict[str, tuple[Plant, int | None]] = {
    "acks=all is answered without followers": (
        _replaced(LeaderState, "acks_outcome", _acks_without_followers),
        2,
    ),
    "the high watermark is the log end": (
        _replaced(LeaderState, "high_watermark", _high_watermark_is_the_end),
        2,
    ),
    "the high watermark counts the committed ISR": (
        _replaced(LeaderState, "high_watermark", _high_watermark_of_committed_isr),
        None,
    ),
    "a diverged fetch counts as progress": (
        _replaced(Fetching, "_diverges", _progress_before_divergence),
        None,
    ),
    "the leader finds no divergence": (_replaced(Fetching, "_diverges", _no_divergence), 10),
    "a diverged follower truncates to its high watermark": (
        _replaced(FetcherCore, "_truncate", _truncate_to_high_watermark),
        None,
    ),
    "a fetch states the leader's epoch as its last": (
        _replaced(FollowedPartition, "request", _leader_epoch_as_last_epoch),
        None,
    ),
    "a follower joins below the start of the leader's epoch": (
        _replaced(LeaderState, "may_join", _join_below_the_epoch_start),
        None,
    ),
    "a follower joins before it is caught up": (
        _replaced(LeaderState, "may_join", _join_at_once),
        None,
    ),
    "a new leader assigns no epoch at its log end": (
        _replaced(Partition, "_start_epoch", _without_epoch_start),
        None,
    ),
}


def violation(plant: Plant, seed: int) -> str | None:
    """Run a seed with a planted mistake; return the violated invariant, or None."""
    with plant():
        try:
            run(prepare(seed, SIM_SECONDS))
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return None


def search(plant: Plant, wanted: int, seconds: float) -> list[tuple[int, str]]:
    """Return the first seeds that reveal a mistake, at most `wanted`, within a time."""
    found: list[tuple[int, str]] = []
    end = time.monotonic() + seconds
    for seed in range(1, SEEDS_MAX + 1):
        reason = violation(plant, seed)
        if reason is not None:
            found.append((seed, reason))
        if len(found) == wanted or time.monotonic() > end:
            break
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the seeds that reveal each mistake; the exit code is 1 when one has none."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.planted")
    parser.add_argument("--wanted", type=int, default=3, help="seeds to find for each mistake")
    parser.add_argument("--seconds", type=float, default=300, help="time for each mistake")
    given = parser.parse_args(arguments)
    missed = 0
    for name, (plant, _) in MISTAKES.items():
        found = search(plant, given.wanted, given.seconds)
        missed += not found
        seeds = [seed for seed, _ in found]
        gaps = [after - before for before, after in zip([0, *seeds], seeds, strict=False)]
        median = statistics.median(gaps) if gaps else "none"
        print(f"{name}: seeds {seeds}, median {median}: {found[0][1] if found else ''}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
