"""One partition of `__transaction_state` led here: transactional ids, and markers to send."""

from collections.abc import Callable
from typing import Any

from barnabas.coordinator.transactions.pending_markers import MarkersAnswered, SendMarkers
from barnabas.coordinator.transactions.producer_initialization import ProducerIdNeededError
from barnabas.coordinator.transactions.transaction_shard import (
    TransactionShard,
)
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.transaction_records import decode_transaction_record
from barnabas.server.coordinators.coordinator_partition import (
    CoordinatorContext,
    CoordinatorPartition,
)
from barnabas.server.coordinators.coordinator_replay import DecodedRecord
from barnabas.server.coordinators.internal_topics import TRANSACTION_TOPIC


class TransactionPartition(CoordinatorPartition[TransactionShard]):
    """A partition of transactional ids that this node coordinates.

    `send_markers` takes the partition to answer to and the markers to write.
    """

    TOPIC = TRANSACTION_TOPIC
    CONTENT = "transactions"
    REFUSALS = (KafkaError, ProducerIdNeededError)

    def __init__(
        self,
        context: CoordinatorContext,
        index: int,
        leader_epoch: int,
        shard: TransactionShard,
        *,
        commit_timeout_ms: int,
        send_markers: Callable[["TransactionPartition", SendMarkers], None],
    ) -> None:
        super().__init__(context, index, leader_epoch, shard, commit_timeout_ms=commit_timeout_ms)
        self._send_markers = send_markers

    def decode(self, key: bytes, value: bytes | None) -> DecodedRecord:
        """Decode a record of a transactional id."""
        return decode_transaction_record(key, value)

    def replay(
        self, key: Message, value: Message | None, *, record_offset: int, producer_id: int
    ) -> None:
        """Apply a record."""
        self.shard.replay(key, value)

    def carry_out_effects(self, effects: list[Any]) -> None:
        """Send markers."""
        for effect in effects:
            self._send_markers(self, effect)

    def markers_answered(self, answered: MarkersAnswered) -> None:
        """Take the outcome of markers; ignored when another node has taken over."""
        if self.is_loaded:
            self.submit(lambda: self.shard.markers_answered(answered, self._now_ms()))
