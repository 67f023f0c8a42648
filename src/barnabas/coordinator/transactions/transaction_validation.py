"""What requests get that the shard does not carry out, and how it tells.

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
    """Fence who claims to be the owner and is not (`isValidProducerId`).

    A new transactional id accepts anybody. The previous producer id is right where its epochs
    ran out: then the answer that named the new one was lost.
    """
    if present.producer_epoch == NO_EPOCH or producer_id == present.producer_id:
        return
    if producer_id != present.previous_producer_id or not is_exhausted(epoch):
        raise fenced(present, f"producer id {producer_id}")


def judge_end(present: Transaction, request: EndTxnRequest, *, is_v2: bool) -> Ending:
    """What the request leads to in the present state; INVALID_PRODUCER_ID_MAPPING."""
    producer_id, epoch = request.producer_id, request.producer_epoch
    commit = request.committed
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
    """EndTxn's answer; in the second version with what the producer goes on with."""
    if not is_v2:
        return EndTxnResponse()
    return EndTxnResponse(
        producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch
    )


def not_yet() -> InitProducerIdResponse:
    """The transaction that was under way is being aborted: the client comes again."""
    return InitProducerIdResponse(
        error_code=ErrorCode.CONCURRENT_TRANSACTIONS, producer_id=-1, producer_epoch=-1
    )


def refusal(present: Transaction, ending: Ending) -> KafkaError:
    """What an EndTxn gets that does not end the transaction."""
    if ending is FENCED:
        return fenced(present, "EndTxn")
    if ending is WAIT:
        return concurrent(present.transactional_id)
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE,
        f"{present.transactional_id} cannot be ended so in state {present.state.label}",
    )


def fenced(present: Transaction, who: str) -> KafkaError:
    """PRODUCER_FENCED: somebody else has the transactional id now, or it was aborted."""
    return KafkaError(
        ErrorCode.PRODUCER_FENCED,
        f"{who} of {present.transactional_id}: its producer is {present.producer_id} in epoch "
        f"{present.producer_epoch}",
    )


def unmapped(transactional_id: str, producer_id: int) -> KafkaError:
    """INVALID_PRODUCER_ID_MAPPING: the transactional id is not known, or not with this one."""
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"producer id {producer_id} is not that of {transactional_id}",
    )


def concurrent(transactional_id: str) -> KafkaError:
    """CONCURRENT_TRANSACTIONS: markers are on their way; ask again."""
    return KafkaError(
        ErrorCode.CONCURRENT_TRANSACTIONS, f"the transaction of {transactional_id} is being ended"
    )
