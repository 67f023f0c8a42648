"""InitProducerId v0-5: an id for an idempotent producer, an epoch for a transactional one.

With a transactional id the coordinator fences its previous user. With the producer's present id and
epoch (KIP-360) it returns the next epoch, for a producer that resumes after an error.
"""

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from barnabas.server.api.handler_services import TransactionsContext

# Older clients do not support PRODUCER_FENCED (KIP-588).
_FENCED_VERSION = 4


async def init_producer_id(
    context: TransactionsContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Return a producer id with an epoch."""
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return _refused(ErrorCode.INVALID_REQUEST)
    transactions = context.services.transactions
    try:
        if request.transactional_id is None:
            producer_id = await transactions.producer_ids.next()
            return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
        if not request.transactional_id:
            return _refused(ErrorCode.INVALID_REQUEST)
        return await transactions.init_producer_id(request)
    except KafkaError as error:
        code = error.code
        if code is ErrorCode.PRODUCER_FENCED and context.version < _FENCED_VERSION:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return _refused(code)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
