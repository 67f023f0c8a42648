"""Messages that are stored as separate files."""

from __future__ import annotations

from barnabas.protocol.fields import array, int16, int32, int64, string, uint32, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class ProducerSnapshot(Message, versions="1"):
    """The snapshot file with the producer state of a partition."""

    class ProducerEntry(Struct):
        producer_id: int = int64()
        epoch: int = int16()
        last_sequence: int = int32()
        last_offset: int = int64()
        offset_delta: int = int32()
        timestamp: int = int64()
        coordinator_epoch: int = int32()
        current_txn_first_offset: int = int64()

    crc: int = uint32()
    producer_entries: list[ProducerSnapshot.ProducerEntry] = array("ProducerEntry")


class QuorumStateData(Message, versions="0-1", flexible="0+"):
    """The file with a quorum member's epoch, leader and vote, written as JSON."""

    class Voter(Struct):
        voter_id: int = int32()

    cluster_id: str = string(versions="0")
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)
    voted_id: int = int32(default=-1)
    voted_directory_id: Uuid = uuid(versions="1+")
    applied_offset: int = int64(versions="0")
    current_voters: list[QuorumStateData.Voter] | None = array("Voter", versions="0", nullable=True)
