"""Planted mistakes of leaders; the numbers are those of `tests.simulation.mistake_table`."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import attrs

from barnabas.cluster.metadata.image import PartitionImage
from barnabas.cluster.replication import Partition, leader_state
from barnabas.cluster.replication.isr_manager import IsrManager, IsrProposal, PartitionAnswer
from barnabas.cluster.replication.isr_state import IsrState
from barnabas.cluster.replication.leader_state import IsrOutcome, LeaderState
from barnabas.protocol.errors import ErrorCode
from barnabas.server.api.handlers.data.fetch_handler import Fetching
from barnabas.server.replication.fetch_sessions import FetchedPartition
from tests.simulation.planting import replaces

Original = Callable[..., Any]


@replaces(Fetching, "_read")
def note_followers_before_the_divergence_check(
    read: Original, fetching: Any, fetched: Any, partition: Partition, requested: Any
) -> Any:
    """15: a diverged fetch counts as progress."""
    state = partition.leader_state
    if fetching._is_new and state is not None and fetching._replica in state.followers:
        end = min(requested.fetch_offset, partition.log.log_end_offset)
        partition.follower_fetched(fetching._replica, end, 0, fetching._replica_epoch)
    return read(fetching, fetched, partition, requested)


@replaces(Partition, "_start_epoch")
def start_no_epoch(_: Original, partition: Partition, log: Any, state: LeaderState) -> None:
    """19: a leader that appends nothing leaves no trace of its epoch in the log (KIP-279)."""
    state.epoch_start_offset = log.log_end_offset


@replaces(IsrState, "expanded")
def expand_without_the_joining_replica(_: Original, state: IsrState, replica: int) -> IsrState:
    """20: while a replica joins, the high watermark counts the committed ISR."""
    return IsrState(state.committed, state.committed, (*state.committed, replica))


@replaces(IsrState, "shrunk")
def shrink_at_once(shrunk: Original, state: IsrState, replicas: Any) -> IsrState:
    """20: a shrink counts before the controller has confirmed it."""
    proposed = shrunk(state, replicas)
    left = proposed.proposed or ()
    return attrs.evolve(proposed, committed=left, maximal=left)


@replaces(LeaderState, "may_join")
def join_below_the_epoch_start(
    may_join: Original, state: LeaderState, replica: int, high_watermark: int
) -> bool:
    """21: a follower joins the ISR below the start of the leader's epoch."""
    with mock.patch.object(state, "epoch_start_offset", 0):
        return may_join(state, replica, high_watermark)


@replaces(IsrManager, "_encoded")
def expand_without_the_broker_epoch(
    encoded: Original, manager: IsrManager, proposal: IsrProposal, broker_epoch: int
) -> Any:
    """22: a proposed ISR does not name the epochs of its members."""
    data = encoded(manager, proposal, broker_epoch)
    for each in data.new_isr_with_epochs:
        each.broker_epoch = -1
    return data


@replaces(LeaderState, "take_answer")
def roll_back_after_a_version_error(
    take_answer: Original, state: LeaderState, answer: PartitionAnswer, *, is_newest: bool
) -> IsrOutcome:
    """24: INVALID_UPDATE_VERSION counts as proof that the proposal was not applied."""
    codes = leader_state._NOT_APPLIED | {ErrorCode.INVALID_UPDATE_VERSION}
    with mock.patch.object(leader_state, "_NOT_APPLIED", codes):
        return take_answer(state, answer, is_newest=is_newest)


@replaces(Partition, "update")
def take_older_images(
    update: Original, partition: Partition, image: PartitionImage, config: Any
) -> None:
    """25: an image that is older than an answer of the controller replaces its ISR."""
    partition.partition_epoch = min(partition.partition_epoch, image.partition_epoch)
    update(partition, image, config)
    state = partition.leader_state
    if state is not None and not state.isr.is_pending:
        state.isr = IsrState.of(image.isr)


@replaces(LeaderState, "high_watermark")
def commit_below_min_isr(
    high_watermark: Original, state: LeaderState, log_end_offset: int, now_ms: int
) -> int:
    """28: the high watermark rises while the ISR is below min.insync.replicas."""
    with mock.patch.object(state, "min_insync_replicas", 1):
        return high_watermark(state, log_end_offset, now_ms)


@replaces(Partition, "append")
def refuse_after_the_append(
    append: Original, partition: Partition, *args: Any, **named: Any
) -> Any:
    """36: NOT_ENOUGH_REPLICAS is decided when the batch is in the log."""
    with mock.patch.object(Partition, "_check_insync", return_value=None):
        info = append(partition, *args, **named)
    if named["required_acks"] == -1:
        partition._check_insync()
    return info


@replaces(LeaderState, "acks_outcome")
def never_refuse_after_the_append(
    _: Original, state: LeaderState, high_watermark: int, last_offset: int
) -> ErrorCode | None:
    """36: NOT_ENOUGH_REPLICAS_AFTER_APPEND is never answered."""
    return None if high_watermark <= last_offset else ErrorCode.NONE


@replaces(FetchedPartition, "is_included")
def hide_high_watermarks_in_sessions(is_included: Original, fetched: FetchedPartition) -> bool:
    """41: a session does not send a partition again when only its high watermark changed."""
    fetched.high_watermark = fetched.answer.high_watermark
    return is_included(fetched)


@replaces(FetchedPartition, "is_included")
def hide_divergence_in_sessions(is_included: Original, fetched: FetchedPartition) -> bool:
    """41: a session does not send a partition whose answer is a divergence."""
    return is_included(fetched) and fetched.answer.diverging_epoch.epoch < 0


@replaces(Partition, "fetchable_end")
def serve_above_the_high_watermark(
    _: Original, partition: Partition, isolation_level: int, *, follower: bool = False
) -> int:
    """44: a follower serves consumers up to its log end."""
    is_committed = partition.is_leader and not follower
    return partition.log.high_watermark if is_committed else partition.log.log_end_offset


@replaces(LeaderState, "acks_outcome")
def acknowledge_without_followers(*_: Any) -> ErrorCode:
    """acks=all is answered without followers."""
    return ErrorCode.NONE


@replaces(LeaderState, "high_watermark")
def commit_the_log_end(_: Original, state: LeaderState, end: int, now_ms: int) -> int:
    """The high watermark is the leader's log end."""
    return end


@replaces(LeaderState, "may_join")
def join_at_once(_: Original, state: LeaderState, replica: int, high_watermark: int) -> bool:
    """A follower joins the ISR before it has all that is committed."""
    return not state.isr.is_pending and replica not in state.isr.committed


@replaces(Fetching, "_diverges")
def find_no_divergence(*_: Any) -> bool:
    """A leader does not compare epochs."""
    return False
