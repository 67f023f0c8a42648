"""Followers keep committed records through elections and kills, and planted mistakes are found."""

import logging
from collections.abc import Callable

import pytest

from barnabas.cluster.replication import follower_log
from barnabas.cluster.replication.fetcher_core import FetcherCore
from barnabas.cluster.replication.followed_partition import FollowedPartition
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.testing.sim_log import SimLog
from tests.cluster.replication.replication_simulation import Violation, run

SEEDS = 40


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "barnabas")


def run_seeds(count: int) -> int:
    """Return how often followers truncated; raises Violation."""
    return sum(run(seed) for seed in range(count))


def test_simulation_keeps_committed_records() -> None:
    assert run_seeds(SEEDS) > SEEDS // 2  # followers did truncate


Patch = pytest.MonkeyPatch


def truncate_to_the_high_watermark(patch: Patch) -> None:
    """Mistake 16: not by epoch."""

    def read_log(self: FollowedPartition) -> None:
        log = self.replica.log
        log.truncate_to(log.high_watermark)
        self.fetch_offset, self.last_fetched_epoch = log.log_end_offset, -1

    patch.setattr(FollowedPartition, "read_log", read_log)


def fetch_with_the_leader_epoch(patch: Patch) -> None:
    """Mistake 17: lastFetchedEpoch is the leader epoch, not that of the log."""
    request = FollowedPartition.request

    def mistaken(self: FollowedPartition, max_bytes: int) -> FetchRequest.FetchPartition:
        self.last_fetched_epoch = self.leader_epoch
        return request(self, max_bytes)

    patch.setattr(FollowedPartition, "request", mistaken)


def append_stale_responses(patch: Patch) -> None:
    """Mistake 18: a response counts although the leader epoch changed since its request."""

    def on_fetch(self: FetcherCore, response: FetchResponse, now_ms: int) -> None:
        self._session.accept(response)
        for topic in response.responses:
            for answer in topic.partitions:
                followed = self.partitions.get((topic.topic_id, answer.partition_index))
                if followed is not None:
                    self._on_partition(followed, answer, now_ms)

    patch.setattr(FetcherCore, "_on_fetch", on_fetch)


def keep_the_epoch_of_a_leader_without_records(patch: Patch) -> None:
    """A deposed leader that appended nothing keeps its epoch at the log end."""
    truncate = SimLog.truncate_to

    def truncate_to(self: SimLog, offset: int) -> None:
        if offset < self.log_end_offset:
            truncate(self, offset)

    patch.setattr(SimLog, "truncate_to", truncate_to)


def append_records_of_later_epochs(patch: Patch) -> None:
    """KAFKA-18723 and no comparison: the follower takes what it gets."""
    patch.setattr(follower_log, "truncation_offset", lambda log, *_: log.log_end_offset)


@pytest.mark.parametrize(
    "plant",
    [
        truncate_to_the_high_watermark,
        fetch_with_the_leader_epoch,
        append_stale_responses,
        keep_the_epoch_of_a_leader_without_records,
        append_records_of_later_epochs,
    ],
)
def test_simulation_finds_planted_mistake(
    plant: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    with pytest.raises(Violation):
        run_seeds(300)
