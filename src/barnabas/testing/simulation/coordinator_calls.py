"""Requests to coordinators in the simulation, as clients and brokers send them."""

from typing import Any, NamedTuple

import attrs

from barnabas.coordinator.groups.committed_offsets import FetchGroup
from barnabas.coordinator.transactions.transaction import TopicPartition
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


class Producer(NamedTuple):
    """A transactional producer in one epoch."""

    transactional_id: str
    id: int
    epoch: int


@attrs.frozen(slots=True)
class AddPartitions:
    """AddPartitionsToTxn: of a client, or of a broker with the first write (`version` is 2)."""

    producer: Producer
    partitions: tuple[TopicPartition, ...]
    version: int


@attrs.frozen(slots=True)
class VerifyPartitions:
    """A broker asks if partitions are in a transaction; the response has an error for each."""

    producer: Producer
    partitions: tuple[TopicPartition, ...]


@attrs.frozen(slots=True)
class FetchOffsets:
    """OffsetFetch of one group, which waits for open transactions (KIP-447)."""

    group: FetchGroup


@attrs.frozen(slots=True)
class EndTransaction:
    """EndTxn of a client that supports a version of transactions."""

    request: EndTxnRequest
    version: int


ClassicCall = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest
GroupCall = (
    FetchOffsets
    | OffsetCommitRequest
    | TxnOffsetCommitRequest
    | ConsumerGroupHeartbeatRequest
    | ClassicCall
)
TransactionCall = InitProducerIdRequest | AddPartitions | VerifyPartitions | EndTransaction


@attrs.frozen(slots=True)
class CoordinatorCall:
    """A request for the coordinator of a key; the response is a message or a KafkaError."""

    key: str
    request: GroupCall | TransactionCall

    @property
    def is_for_groups(self) -> bool:
        """True when the key is a group id."""
        return isinstance(self.request, GroupCall)


Outcomes = dict[TopicPartition, ErrorCode]
Outcome = Any
"""A response of a coordinator, or a KafkaError."""
