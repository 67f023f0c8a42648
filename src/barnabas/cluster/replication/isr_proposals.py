"""Changes of a partition's ISR by its leader: proposals, and the controller's answers to them.

A proposal is in force as far as safety needs it: see `isr_state` for which ISR counts meanwhile.
The metadata end a proposal, and a successful answer ends the one of a larger ISR before them.
"""

import logging
from typing import TYPE_CHECKING, Final

from barnabas.cluster.replication.isr_manager import IsrProposal, PartitionAnswer
from barnabas.cluster.replication.isr_state import IsrState
from barnabas.cluster.replication.leader_state import LeaderState
from barnabas.protocol.errors import ErrorCode, error_code

if TYPE_CHECKING:
    from barnabas.cluster.replication.partition import Partition

logger = logging.getLogger(__name__)

# Errors that prove that the controller did not apply a proposal.
_NOT_APPLIED: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
# Errors after which only the metadata show whether an earlier copy of it was applied.
_MAYBE_APPLIED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


def shrink(partition: "Partition") -> None:
    """Propose to remove the followers that lag too long; only a leader has any."""
    state = partition.leader_state
    if state is None or not state.followers:
        return
    lagging = state.lagging(partition.log.log_end_offset, partition.host.clock.monotonic_ms())
    if lagging:
        propose(partition, state, state.isr.shrunk(lagging))


def propose(partition: "Partition", state: LeaderState, isr: IsrState) -> None:
    """Make `isr` the pending state and send it to the controller."""
    proposed = isr.proposed or ()
    state.isr = isr
    _log_proposal(partition, state, proposed)
    epochs = {
        replica: progress.broker_epoch
        for replica, progress in state.followers.items()
        if progress.broker_epoch is not None
    }
    partition.host.propose_isr(
        IsrProposal(
            leader=partition,
            state=isr,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            isr=proposed,
            broker_epochs=epochs,
        )
    )


def _log_proposal(partition: "Partition", state: LeaderState, proposed: tuple[int, ...]) -> None:
    """Write a line, unless this broker has many such changes just now."""
    if not partition.host.isr_lines.take(partition.host.clock.monotonic_ms()):
        return
    isr, log = state.isr, partition.log
    logger.info(
        "%s ISR partition=%s-%d from=%s to=%s high_watermark=%d end=%d follower_ends=%s",
        "expanding" if isr.is_expanding else "shrinking",
        partition.topic,
        partition.partition,
        list(isr.committed),
        list(proposed),
        log.high_watermark,
        log.log_end_offset,
        {replica: progress.log_end_offset for replica, progress in state.followers.items()},
    )


def answered(partition: "Partition", proposal: IsrProposal, answer: PartitionAnswer) -> bool:
    """Take the controller's answer; return True when the proposal must be sent again.

    After an error that may follow an applied change, the proposal stays pending until the metadata
    arrive: rolling it back could drop a replica from the maximal ISR that is in the ISR.
    """
    state = partition.leader_state
    if state is None or state.isr is not proposal.state:
        return False
    if answer.error_code == ErrorCode.NONE:
        _confirm(partition, state, answer)
        return False
    if partition.host.isr_lines.take(partition.host.clock.monotonic_ms()):
        logger.info(
            "ISR not changed partition=%s-%d isr=%s error=%s",
            partition.topic,
            partition.partition,
            list(proposal.isr),
            error_code(answer.error_code).name,
        )
    if answer.error_code in _NOT_APPLIED:
        state.isr = state.isr.rolled_back()
        partition.commit_more()
        return False
    return answer.error_code not in _MAYBE_APPLIED


def _confirm(partition: "Partition", state: LeaderState, answer: PartitionAnswer) -> None:
    """Take the larger ISR of a successful answer, unless the metadata have a newer one.

    A smaller one counts when the metadata have it. The answer may arrive before an increase of
    min.insync.replicas with which the controller keeps the removed replica eligible to lead: then
    this leader would commit what that replica does not have.
    """
    if (
        not state.isr.is_expanding
        or answer.leader_epoch != partition.leader_epoch
        or answer.partition_epoch < partition.partition_epoch
    ):
        return
    state.isr = IsrState.of(tuple(answer.isr))
    partition.partition_epoch = answer.partition_epoch
    partition.host.isr_changed(expanded=True)
    partition.advance_high_watermark(partition.log)
    partition.notify()  # the session of a removed follower notes its fetches from now on
