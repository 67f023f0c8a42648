"""Validation of InitProducerId and EndTxn, and the errors that refuse them.

Kafka: the checks of TransactionCoordinator's `prepareInitProducerIdTransit` and `endTransaction`.
"""

from barnabas.coordinator.transactions.transaction import NO_EPOCH, Transaction, is_exhausted
from barnabas.coordinator.transactions.transaction_state import (
    ENDINGS_V1,
    ENDINGS_V2,
    FENCED,
    WAIT,
    Ending,
)
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdResponse


def check_owner(present: Transaction, producer_id: int, epoch: int) -> None:
    """Fence a client that claims to be the owner and is not (`isValidProducerId`).

    A new transactional id accepts every client. The previous producer id is valid when its epochs
    ran out: then the response with the new one was lost.
    """
    if present.producer_epoch == NO_EPOCH or producer_id == present.producer_id:
        return
    if producer_id != present.previous_producer_id or not is_exhausted(epoch):
        raise fenced(present, f"producer id {producer_id}")


def check_current(present: Transaction, producer_id: int, epoch: int) -> None:
    """Raise KafkaError unless the producer has the transactional id."""
    if present.producer_id != producer_id:
        raise unmapped(present.transactional_id, producer_id)
    if present.producer_epoch != epoch:
        raise fenced(present, f"epoch {epoch}")


def decide_ending(present: Transaction, request: EndTxnRequest, *, is_v2: bool) -> Ending:
    """Return the effect of an EndTxn in the present state. Raises INVALID_PRODUCER_ID_MAPPING."""
    producer_id, epoch = request.producer_id, request.producer_epoch
    commit = request.committed
    if is_v2 and present.state.is_prepared:
        return WAIT
    over_overflow = is_v2 and present.is_retry_over_overflow(producer_id, epoch)
    if producer_id != present.producer_id and not over_overflow:
        raise unmapped(present.transactional_id, producer_id)
    if not is_v2:
        return ENDINGS_V1[present.state, commit] if epoch == present.producer_epoch else FENCED
    is_retry = present.is_retry_of_end(producer_id, epoch)
    if over_overflow and not present.state.is_settled:
        return FENCED
    if not is_retry and epoch != present.producer_epoch:
        return FENCED
    return ENDINGS_V2[present.state, commit, is_retry]


def ended(transaction: Transaction, *, is_v2: bool) -> EndTxnResponse:
    """Return EndTxn's response; in the second version with the next producer id and epoch."""
    if not is_v2:
        return EndTxnResponse()
    return EndTxnResponse(
        producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch
    )


def retry_later() -> InitProducerIdResponse:
    """Return the response while the running transaction is being aborted: the client retries."""
    return InitProducerIdResponse(
        error_code=ErrorCode.CONCURRENT_TRANSACTIONS, producer_id=-1, producer_epoch=-1
    )


def refusal(present: Transaction, ending: Ending) -> KafkaError:
    """Return the error of an EndTxn that does not end the transaction."""
    if ending is FENCED:
        return fenced(present, "EndTxn")
    if ending is WAIT:
        return concurrent(present.transactional_id)
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE,
        f"{present.transactional_id} cannot be ended in this way in state {present.state.label}",
    )


def fenced(present: Transaction, who: str) -> KafkaError:
    """Return PRODUCER_FENCED: another producer has the transactional id, or it was aborted."""
    return KafkaError(
        ErrorCode.PRODUCER_FENCED,
        f"{who} of {present.transactional_id} is fenced by producer {present.producer_id} in epoch "
        f"{present.producer_epoch}",
    )


def unmapped(transactional_id: str, producer_id: int) -> KafkaError:
    """Return INVALID_PRODUCER_ID_MAPPING: the transactional id has another producer id, or none."""
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"producer id {producer_id} does not belong to {transactional_id}",
    )


def concurrent(transactional_id: str) -> KafkaError:
    """Return CONCURRENT_TRANSACTIONS: markers are being written, the client retries."""
    return KafkaError(
        ErrorCode.CONCURRENT_TRANSACTIONS, f"the transaction of {transactional_id} is being ended"
    )
