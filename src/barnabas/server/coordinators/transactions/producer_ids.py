"""Producer ids for this node's coordinators, from blocks of the controller (KIP-730)."""

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from barnabas import tasks
from barnabas.cluster.broker.producer_id_blocks import InvalidBlockError, ProducerIdBlocks
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from barnabas.server.node_failures import raise_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.cluster.broker.broker_lifecycle import BrokerLifecycle
    from barnabas.server.controller_channel.controller_channel import ControllerChannel

logger = logging.getLogger(__name__)

_WAIT_S: Final = 5.0
"""How long a producer waits for a block before it gets a retriable error."""


class ProducerIds:
    """Returns producer ids, each once in the life of the cluster.

    The next block is requested in the background (`start_soon`) before the current one is used up.
    """

    def __init__(
        self,
        broker: "BrokerLifecycle",
        channel: "ControllerChannel",
        start_soon: "Callable[[Callable[[], Any]], None]",
    ) -> None:
        self._broker = broker
        self._channel = channel
        self._start_soon = start_soon
        self._blocks = ProducerIdBlocks()
        self._requesting = tasks.lock()

    async def next(self) -> int:
        """Return a new id. Raises COORDINATOR_LOAD_IN_PROGRESS while no block is available."""
        producer_id = self._blocks.take()
        if producer_id is None:
            with tasks.move_on_after(_WAIT_S):
                await self._request_block()
            producer_id = self._blocks.take()
        elif self._blocks.needs_block and not self._requesting.locked():
            self._start_soon(self._prefetch)
        if producer_id is None:
            # On this error every producer retries (Kafka: RPCProducerIdManager).
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer ids are left")
        return producer_id

    async def _prefetch(self) -> None:
        with suppress(KafkaError):  # logged; requested again with the next id
            await self._request_block()

    async def _request_block(self) -> None:
        """Request the next block, unless it has arrived. Raises COORDINATOR_LOAD_IN_PROGRESS."""
        async with self._requesting:
            if not self._blocks.needs_block:
                return
            broker = self._broker.identity
            request = AllocateProducerIdsRequest(broker_id=broker.id, broker_epoch=broker.epoch)
            try:
                block = await self._channel.send(request, AllocateProducerIdsResponse)
                raise_error(block)
                self._blocks.add(block.producer_id_start, block.producer_id_len)
            except (KafkaError, InvalidBlockError) as error:
                logger.warning("cannot allocate producer ids error=%s", error)
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error
