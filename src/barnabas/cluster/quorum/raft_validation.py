"""Checks of the quorum's requests, before they take effect (Kafka's `KafkaRaftClient#validate*`).

Each function returns the error to answer, or NONE.
"""

from barnabas.cluster.quorum.epoch_history import OffsetAndEpoch
from barnabas.cluster.quorum.raft_messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    FetchRequest,
    VoteRequest,
)
from barnabas.protocol.errors import ErrorCode


def vote_error(request: VoteRequest, epoch: int) -> ErrorCode:
    """Check a candidate's request against the voter's `epoch`."""
    limit = request.epoch if request.pre_vote else request.epoch - 1
    if request.last_epoch > limit or request.end_offset < 0 or request.last_epoch < 0:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.FENCED_LEADER_EPOCH if request.epoch < epoch else ErrorCode.NONE


def announcement_error(request: BeginQuorumEpoch | EndQuorumEpoch, epoch: int) -> ErrorCode:
    """Check a leader's announcement or resignation against the voter's `epoch`."""
    if request.epoch < epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.INVALID_REQUEST if request.leader_id < 0 else ErrorCode.NONE


def leader_only_error(request_epoch: int, epoch: int, *, is_leader: bool) -> ErrorCode:
    """Check a request that only the leader of `epoch` answers; a larger epoch is an error, too."""
    if request_epoch < epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if request_epoch > epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER


def fetch_error(request: FetchRequest, epoch: int, *, is_leader: bool) -> ErrorCode:
    """Check a replica's fetch against the `epoch` of the replica that answers."""
    if request.offset < 0 or not 0 <= request.last_epoch <= max(request.epoch, 0):
        return ErrorCode.INVALID_REQUEST
    return leader_only_error(request.epoch, epoch, is_leader=is_leader)


def needs_snapshot(request: FetchRequest, log_start: OffsetAndEpoch | None) -> bool:
    """True when a replica lacks records that only the snapshot at the start of the log has."""
    if log_start is None or log_start.offset == 0:
        return False
    if request.offset < log_start.offset or request.last_epoch < log_start.epoch:
        return True
    return request.offset == log_start.offset and request.last_epoch != log_start.epoch
