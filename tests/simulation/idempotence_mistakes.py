"""Planted mistakes in how a leader recognizes the batches that a producer sends again."""

from typing import Any

from barnabas.cluster.replication import Partition
from barnabas.log import AppendInfo
from barnabas.log.segment.producer_state import ProducerEntry, ProducerState
from barnabas.protocol.batches.batch_header import BatchHeader
from tests.simulation.planting import replaces


@replaces(ProducerState, "check_client_batch")
def append_duplicates(check: Any, state: ProducerState, header: BatchHeader) -> object:
    """A batch that was appended before is appended again."""
    found = check(state, header)
    return None if found is not None else found


@replaces(Partition, "append")
def acknowledge_duplicates_at_once(append: Any, *args: Any, **named: Any) -> AppendInfo:
    """A batch that is sent again is acknowledged before the in-sync replicas have it."""
    info = append(*args, **named)
    return info._replace(last_offset=-1) if info.duplicate else info


@replaces(ProducerEntry, "duplicate_of")
def refuse_duplicates(*_: Any) -> None:
    """A batch that was appended before is out of order."""
