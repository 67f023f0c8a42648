"""One led partition of `__transaction_state`: transactional ids, and markers to be sent."""

from collections.abc import Callable
from typing import Any

from barnabas.cluster.replication import ReplicaManager
from barnabas.coordinator.transactions.pending_markers import MarkersAnswered, SendMarkers
from barnabas.coordinator.transactions.transaction_shard import TransactionShard
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.transaction_records import decode_transaction_record
from barnabas.server.coordinators.coordinator_partition import (
    BeginSync,
    CoordinatorPartition,
    DecodedRecord,
    GoOn,
)
from barnabas.server.coordinators.internal_topics import TRANSACTION_TOPIC


class TransactionPartition(CoordinatorPartition[TransactionShard]):
    """A partition of transactional ids that this node coordinates.

    `send_markers` gets what the shard wants written and the partition to answer to.
    """

    TOPIC = TRANSACTION_TOPIC
    THINGS = "transactions"

    def __init__(
        self,
        replicas: ReplicaManager,
        index: int,
        shard: TransactionShard,
        *,
        now_ms: Callable[[], int],
        stamp_ms: Callable[[], int],
        commit_timeout_ms: int,
        begin_sync: BeginSync,
        go_on: GoOn,
        send_markers: Callable[["TransactionPartition", SendMarkers], None],
    ) -> None:
        super().__init__(
            replicas,
            index,
            shard,
            now_ms=now_ms,
            stamp_ms=stamp_ms,
            commit_timeout_ms=commit_timeout_ms,
            begin_sync=begin_sync,
            go_on=go_on,
        )
        self._send_markers = send_markers

    @property
    def epoch(self) -> int:
        """The epoch in which this node leads the partition: markers bear it."""
        return -1 if self._partition is None else self._partition.leader_epoch

    def decode(self, key: bytes, value: bytes | None) -> DecodedRecord:
        """A record of a transactional id."""
        return decode_transaction_record(key, value)

    def replay(
        self, key: Message, value: Message | None, *, record_offset: int, producer_id: int
    ) -> None:
        """Takes a record in."""
        self.shard.replay(key, value)

    def carry_out_effects(self, effects: list[Any]) -> None:
        """Send markers."""
        for effect in effects:
            self._send_markers(self, effect)

    def markers_answered(self, answered: MarkersAnswered) -> None:
        """The outcome of markers; too late, when another node has taken over."""
        if self.is_loaded:
            self.perform(lambda: self.shard.markers_answered(answered, self._now_ms()))
