"""Planted mistakes of followers; the numbers are those of `tests.simulation.mistake_table`."""

from collections.abc import Callable
from typing import Any

from barnabas.cluster.replication import follower_log
from barnabas.cluster.replication.fetcher_core import FetcherCore
from barnabas.cluster.replication.followed_partition import FollowedPartition
from barnabas.cluster.replication.log_like import LogLike
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.testing.sim_log import SimLog
from tests.simulation.planting import replaces

Original = Callable[..., Any]


@replaces(FollowedPartition, "read_log")
def truncate_to_the_high_watermark(_: Original, followed: FollowedPartition) -> None:
    """16: a new follower truncates to its high watermark, not by epoch."""
    log = followed.replica.log
    log.truncate_to(log.high_watermark)
    followed.fetch_offset, followed.last_fetched_epoch = log.log_end_offset, -1


@replaces(FetcherCore, "_truncate")
def truncate_diverged_to_the_high_watermark(
    _: Original, core: FetcherCore, followed: FollowedPartition, diverging: Any
) -> None:
    """16: a diverged follower truncates to its high watermark, not by epoch."""
    followed.replica.truncate_to(followed.replica.log.high_watermark)
    followed.read_log()
    core._moved(followed)


@replaces(FollowedPartition, "request")
def fetch_with_the_leader_epoch(
    request: Original, followed: FollowedPartition, max_bytes: int
) -> Any:
    """17: lastFetchedEpoch is the leader epoch, not that of the log."""
    followed.last_fetched_epoch = followed.leader_epoch
    return request(followed, max_bytes)


@replaces(FetcherCore, "_on_fetch")
def append_stale_responses(
    _: Original, core: FetcherCore, response: FetchResponse, now_ms: int
) -> None:
    """18: a response counts although the leader epoch has changed since its request."""
    core._session.accept(response)
    for topic in response.responses:
        for answer in topic.partitions:
            followed = core.partitions.get((topic.topic_id, answer.partition_index))
            if followed is not None:
                core._on_partition(followed, answer, now_ms)


@replaces(SimLog, "truncate_to")
def keep_the_epoch_of_a_leader_without_records(
    truncate: Original, log: SimLog, offset: int
) -> None:
    """A deposed leader that appended nothing keeps its epoch at the log end."""
    if offset < log.log_end_offset:
        truncate(log, offset)


@replaces(follower_log, "truncation_offset")
def append_records_of_later_epochs(_: Original, log: LogLike, *rest: Any) -> int:
    """A follower never truncates, so it appends what it gets after its log end."""
    return log.log_end_offset


@replaces(FetcherCore, "_use_offset")
def restart_at_the_log_end(
    use: Original, core: FetcherCore, followed: FollowedPartition, answer: Any, now_ms: int
) -> None:
    """A follower that lacks deleted records begins at the leader's log end."""
    if followed.leader_end is not None and answer.offset > followed.replica.log.log_end_offset:
        answer.offset = followed.leader_end
    use(core, followed, answer, now_ms)


@replaces(FetcherCore, "_throttle")
def stay_throttled(throttle: Original, core: FetcherCore, now_ms: int) -> None:
    """Throttled partitions wait until the quota says so, also when nothing is throttled."""
    if not core._quota.throttles_nothing:
        throttle(core, now_ms)
