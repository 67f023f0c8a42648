"""The markers of ended transactions that are still to be written.

Kafka: TransactionMarkerChannelManager and TransactionMarkerRequestCompletionHandler.
"""

from typing import Final

import attrs

from barnabas.coordinator.transactions.transaction import TopicPartition
from barnabas.protocol.errors import ErrorCode


@attrs.frozen
class SendMarkers:
    """An effect: write the outcome of a transaction to partitions, wherever they are led.

    The shell answers with `MarkersAnswered` for every partition, in one piece or in several.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]


@attrs.frozen
class MarkersAnswered:
    """What became of markers; the first three name the `SendMarkers` that asked for them.

    For a partition that no longer exists the shell says NONE: it needs no marker.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    outcomes: dict[TopicPartition, ErrorCode]


# A newer epoch has written there, so what this marker would have ended is over.
_SETTLED: Final = frozenset({ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH})


@attrs.define
class Outstanding:
    """The markers of one transaction that nobody has confirmed."""

    producer_id: int
    producer_epoch: int
    partitions: set[TopicPartition]
    # Of these, those that failed and are not under way.
    failed: set[TopicPartition] = attrs.Factory(set[TopicPartition])
    attempts: int = 0

    def take(self, answered: MarkersAnswered) -> bool:
        """Note outcomes; whether another coordinator turned out to have taken over."""
        for partition, error in answered.outcomes.items():
            if error is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                return True
            if error in _SETTLED:
                self.partitions.discard(partition)
                self.failed.discard(partition)
            elif partition in self.partitions:
                self.failed.add(partition)
        return False
