"""The producer id and epoch that InitProducerId gives to a transactional id.

Kafka: TransactionMetadata.prepareIncrementProducerEpoch and prepareProducerIdRotation.
"""

from barnabas.coordinator.transactions.transaction import NO_EPOCH, Transaction
from barnabas.coordinator.transactions.transaction_validation import fenced
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest


class ProducerIdNeededError(Exception):
    """The operation needs a new producer id; it has changed nothing yet."""


def given(producer_id: int | None) -> int:
    """Return the new producer id of an operation. Raises ProducerIdNeededError without one."""
    if producer_id is None:
        raise ProducerIdNeededError
    return producer_id


def checked_id(request: InitProducerIdRequest, max_timeout_ms: int) -> str:
    """Return the transactional id of a request.

    Raises KafkaError INVALID_REQUEST without one, INVALID_TRANSACTION_TIMEOUT for a wrong timeout.
    """
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if not 0 < request.transaction_timeout_ms <= max_timeout_ms:
        raise KafkaError(
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            f"transaction.timeout.ms={request.transaction_timeout_ms} is not within 1 and "
            f"{max_timeout_ms}",
        )
    return request.transactional_id


def next_epoch(
    present: Transaction,
    timeout_ms: int,
    expected_epoch: int | None,
    fresh_producer_id: int | None,
    now_ms: int,
) -> Transaction:
    """Return the transaction with the next epoch, or with a new producer id.

    `expected_epoch` is the epoch that the client states, None for a client that states none. Raises
    ProducerIdNeededError when all epochs are used; KafkaError PRODUCER_FENCED for an old epoch.
    """
    epoch = present.producer_epoch
    by_owner = expected_epoch is not None
    if present.is_exhausted and expected_epoch in (None, epoch):
        return present.rotated(
            given(fresh_producer_id), timeout_ms, by_owner=by_owner, now_ms=now_ms
        )
    if expected_epoch in (None, epoch) or epoch == NO_EPOCH:
        return present.bumped(timeout_ms, by_owner=by_owner, now_ms=now_ms)
    if expected_epoch == present.last_producer_epoch:
        return present.kept(timeout_ms, now_ms)
    raise fenced(present, f"epoch {expected_epoch}")
