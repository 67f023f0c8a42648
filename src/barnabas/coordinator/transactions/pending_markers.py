"""The markers of ended transactions that are not written yet.

Kafka: TransactionMarkerChannelManager and TransactionMarkerRequestCompletionHandler.
"""

from typing import Final

import attrs

from barnabas.coordinator.transactions.transaction import TopicPartition, Transaction
from barnabas.coordinator.transactions.transaction_state import PREPARE_COMMIT
from barnabas.protocol.errors import ErrorCode


@attrs.frozen
class SendMarkers:
    """An effect: write the outcome of a transaction to partitions, on any node.

    The shell answers with `MarkersAnswered` for every partition, in one or several parts.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]


def markers_of(
    prepared: Transaction, partitions: frozenset[TopicPartition] | None = None
) -> SendMarkers:
    """Return the markers of a prepared transaction, for some of its partitions or for all."""
    return SendMarkers(
        transactional_id=prepared.transactional_id,
        producer_id=prepared.producer_id,
        producer_epoch=prepared.producer_epoch,
        commit=prepared.state is PREPARE_COMMIT,
        transaction_version=prepared.client_version,
        partitions=prepared.partitions if partitions is None else partitions,
    )


@attrs.frozen
class MarkersAnswered:
    """The outcome of markers; the first three fields are those of the `SendMarkers`.

    For a deleted partition the outcome is NONE: it needs no marker.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    outcomes: dict[TopicPartition, ErrorCode]


# After INVALID_PRODUCER_EPOCH a newer epoch has written there, so the transaction is over. A log
# that cannot have markers has no records of the transaction.
_SETTLED: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)


@attrs.define
class Outstanding:
    """The markers of one transaction that no broker has confirmed yet."""

    producer_id: int
    producer_epoch: int
    partitions: set[TopicPartition]
    # The partitions whose marker failed and is not sent again yet.
    failed: set[TopicPartition] = attrs.Factory(set[TopicPartition])
    attempts: int = 0

    def take(self, answered: MarkersAnswered) -> bool:
        """Note outcomes; return True when another coordinator has taken over."""
        for partition, error in answered.outcomes.items():
            if error is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                return True
            if error in _SETTLED:
                self.partitions.discard(partition)
                self.failed.discard(partition)
            elif partition in self.partitions:
                self.failed.add(partition)
        return False
