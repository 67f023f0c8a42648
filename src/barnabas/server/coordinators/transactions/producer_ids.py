"""Producer ids from the blocks that the controller allocates to this broker (KIP-730)."""

from typing import TYPE_CHECKING

import trio

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from barnabas.server.quorum.controller_channel import raise_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.cluster.broker.broker_identity import BrokerIdentity
    from barnabas.server.quorum.controller_channel import ControllerChannel


class ProducerIds:
    """Returns producer ids, each once in the life of the cluster."""

    def __init__(
        self, identity: "Callable[[], BrokerIdentity]", channel: "ControllerChannel"
    ) -> None:
        self._identity = identity
        self._channel = channel
        self._next = 0
        self._end = 0
        self._lock = trio.Lock()

    async def next(self) -> int:
        """Return a new id. Raises COORDINATOR_LOAD_IN_PROGRESS while no block is available."""
        async with self._lock:
            if self._next == self._end:
                await self._take_block()
            self._next += 1
            return self._next - 1

    async def _take_block(self) -> None:
        broker = self._identity()
        request = AllocateProducerIdsRequest(broker_id=broker.id, broker_epoch=broker.epoch)
        try:
            block = await self._channel.send(request, AllocateProducerIdsResponse)
            raise_error(block)
        except KafkaError as error:
            # On this error every producer retries (Kafka: RPCProducerIdManager).
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error
        self._next = block.producer_id_start
        self._end = block.producer_id_start + block.producer_id_len
