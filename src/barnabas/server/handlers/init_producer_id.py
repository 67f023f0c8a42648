"""InitProducerId: an id for an idempotent producer (versions 0-5).

A transactional id gets UNSUPPORTED_VERSION, as from FindCoordinator, until transactions are
served.
"""

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from barnabas.server.context import RequestContext
from barnabas.server.dispatch import handles
from barnabas.server.producer_ids import ProducerIds

if TYPE_CHECKING:
    from barnabas.server.node import Node

_PRODUCER_IDS: WeakKeyDictionary["Node", ProducerIds] = WeakKeyDictionary()


@handles(InitProducerIdRequest)
async def init_producer_id(
    context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """A new producer id with epoch 0."""
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    node = context.node
    producer_ids = _PRODUCER_IDS.get(node)
    if producer_ids is None:
        producer_ids = _PRODUCER_IDS[node] = ProducerIds(node)
    return InitProducerIdResponse(producer_id=await producer_ids.next(), producer_epoch=0)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
