"""Producer ids out of the blocks that the controller gives to this broker (KIP-730)."""

from typing import TYPE_CHECKING

import trio

from barnabas.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.server.node.node import Node


class ProducerIds:
    """Hands out producer ids, each once in the life of the cluster."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._next = 0
        self._end = 0
        self._lock = trio.Lock()

    async def next(self) -> int:
        """A new id; COORDINATOR_LOAD_IN_PROGRESS while no controller can be asked for a block."""
        async with self._lock:
            if self._next == self._end:
                await self._take_block()
            self._next += 1
            return self._next - 1

    async def _take_block(self) -> None:
        node = self._node
        broker = node.image.brokers[node.node_id]
        try:
            block = await node.quorum.submit(
                lambda controller, now_ms: controller.allocate_producer_ids(broker.id, broker.epoch)
            )
        except KafkaError as error:
            # What every producer takes for a reason to ask again (Kafka: RPCProducerIdManager).
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error
        self._next = block.first_producer_id
        self._end = block.first_producer_id + block.size
