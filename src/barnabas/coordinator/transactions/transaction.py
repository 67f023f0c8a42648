"""The state of one transactional id, and how each transition changes it.

Kafka: TransactionMetadata. Values are immutable: a transition returns a new one, which is written
to the log and replaces the old one when it is replayed.
"""

from typing import Final

import attrs

from barnabas.coordinator.transactions.transaction_state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREVIOUS,
    TV_2,
    TransactionState,
)

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
EPOCH_MAX: Final = (1 << 15) - 1

TopicPartition = tuple[str, int]

_NONE: Final[frozenset[TopicPartition]] = frozenset()


def is_exhausted(epoch: int) -> bool:
    """True when no client may get an epoch after this one: the last one is for fencing."""
    return epoch >= EPOCH_MAX - 1


@attrs.frozen
class Transaction:
    """One transactional id; times in ms.

    `last_producer_epoch` is the epoch before the last bump, if its owner requested the bump: a
    producer with that epoch may get the present one. The log does not hold it.
    """

    transactional_id: str
    producer_id: int
    timeout_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    last_producer_epoch: int = NO_EPOCH
    state: TransactionState = EMPTY
    partitions: frozenset[TopicPartition] = _NONE
    start_ms: int = -1
    last_update_ms: int = -1
    client_version: int = 0

    @property
    def is_exhausted(self) -> bool:
        """True when this producer id has no epoch left."""
        return is_exhausted(self.producer_epoch)

    def _to(self, state: TransactionState, now_ms: int, **changes: object) -> "Transaction":
        if self.state not in PREVIOUS[state]:
            raise ValueError(
                f"{self.transactional_id} cannot change from {self.state.label} to {state.label}"
            )
        return attrs.evolve(
            self,
            state=state,
            last_update_ms=now_ms,
            previous_producer_id=self.producer_id,
            **changes,  # pyright: ignore[reportArgumentType]
        )

    def bumped(self, timeout_ms: int, *, by_owner: bool, now_ms: int) -> "Transaction":
        """InitProducerId: the next epoch, for its owner or for a new producer."""
        return self._to(
            EMPTY,
            now_ms,
            producer_epoch=self.producer_epoch + 1,
            last_producer_epoch=self.producer_epoch if by_owner else NO_EPOCH,
            timeout_ms=timeout_ms,
            partitions=_NONE,
            start_ms=-1,
        )

    def kept(self, timeout_ms: int, now_ms: int) -> "Transaction":
        """A repeated InitProducerId: the epoch of the first one stays."""
        return self._to(EMPTY, now_ms, timeout_ms=timeout_ms, partitions=_NONE, start_ms=-1)

    def rotated(
        self, producer_id: int, timeout_ms: int, *, by_owner: bool, now_ms: int
    ) -> "Transaction":
        """InitProducerId with a new producer id: the epochs of the old one are used up."""
        return self._to(
            EMPTY,
            now_ms,
            producer_id=producer_id,
            producer_epoch=0,
            last_producer_epoch=self.producer_epoch if by_owner else NO_EPOCH,
            timeout_ms=timeout_ms,
            partitions=_NONE,
            start_ms=-1,
        )

    def with_partitions(
        self, added: frozenset[TopicPartition], client_version: int, now_ms: int
    ) -> "Transaction":
        """Add partitions to the transaction; the first ones begin it."""
        return self._to(
            ONGOING,
            now_ms,
            partitions=self.partitions | added,
            start_ms=now_ms if self.state.is_settled else self.start_ms,
            client_version=client_version,
        )

    def ending(
        self, *, commit: bool, client_version: int, next_producer_id: int, now_ms: int
    ) -> "Transaction":
        """Decide the outcome; in the second version this takes an epoch."""
        bump = client_version >= TV_2
        return self._to(
            PREPARE_COMMIT if commit else PREPARE_ABORT,
            now_ms,
            producer_epoch=self.producer_epoch + bump,
            last_producer_epoch=self.producer_epoch if bump else self.last_producer_epoch,
            next_producer_id=next_producer_id,
            start_ms=now_ms if self.state.is_settled else self.start_ms,
            client_version=client_version,
        )

    def fenced(
        self, client_version: int, now_ms: int, next_producer_id: int = NO_PRODUCER_ID
    ) -> "Transaction":
        """Abort against the producer, whose epoch is no longer valid."""
        return self._to(
            PREPARE_ABORT,
            now_ms,
            producer_epoch=self.producer_epoch + 1,
            last_producer_epoch=self.producer_epoch if client_version >= TV_2 else NO_EPOCH,
            next_producer_id=next_producer_id,
            client_version=client_version,
        )

    def completed(self, now_ms: int) -> "Transaction":
        """All markers are written; a producer id that used its last epoch is replaced."""
        changes: dict[str, object] = {}
        if self.client_version >= TV_2 and self.next_producer_id != NO_PRODUCER_ID:
            changes = {"producer_id": self.next_producer_id, "producer_epoch": 0}
        return self._to(
            COMPLETE_COMMIT if self.state is PREPARE_COMMIT else COMPLETE_ABORT,
            now_ms,
            next_producer_id=NO_PRODUCER_ID,
            partitions=_NONE,
            **changes,
        )

    def is_retry_of_end(self, producer_id: int, epoch: int) -> bool:
        """True when an EndTxn of the second version repeats one that was carried out.

        It is never a retry when the last end was of the first version, which bumps no epoch. Kafka
        does not check this, so a fenced producer may continue there with the epoch of its
        successor. The last epoch, which a time-out may take, is given to no client.
        """
        if producer_id == self.producer_id:
            is_next = self.producer_epoch == epoch + 1
            return is_next and self.producer_epoch < EPOCH_MAX and self.client_version >= TV_2
        return self.is_retry_over_overflow(producer_id, epoch)

    def is_retry_over_overflow(self, producer_id: int, epoch: int) -> bool:
        """True for such a retry when the end took the producer id's last epoch."""
        return (
            producer_id == self.previous_producer_id
            and epoch == EPOCH_MAX - 1
            and self.producer_epoch == 0
        )
