"""Planted mistakes in how a leader takes over the batches of a flow, and in a promotion."""

from typing import Any

from barnabas.cluster.replication import Partition
from barnabas.log import AppendInfo
from barnabas.log.segment.producer_state import ProducerState
from barnabas.protocol.errors import ErrorCode
from barnabas.server.replication.deletion_wait import Deletion
from tests.simulation.planting import replaces


@replaces(Partition, "append_mirrored")
def acknowledge_known_batches_at_once(append: Any, *args: Any, **named: Any) -> AppendInfo:
    """A batch that the log has already is acknowledged before the in-sync replicas have it."""
    info = append(*args, **named)
    return info._replace(last_offset=-1) if info.duplicate else info


@replaces(Partition, "settle_promotion")
def leave_transactions_open(settle: Any, partition: Partition) -> None:
    """A promotion does not abort the transactions that are open in the mirror."""
    del settle
    if partition.mirror is not None:
        partition.mirror.is_settled = True


@replaces(ProducerState, "forget_idle")
def keep_mirrored_producers(forget: Any, state: ProducerState) -> None:
    """A promotion keeps the producers of the source, whose ids the cluster assigns again."""
    del forget, state


@replaces(Deletion, "look")
def answer_deletions_at_once(look: Any, deletion: Deletion) -> bool:
    """A leader answers that records are deleted before its followers have deleted them."""
    if not look(deletion):
        deletion.is_open = False
        deletion.result.error_code = ErrorCode.NONE
    return True
