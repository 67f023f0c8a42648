"""The input and output of ISR changes: AlterPartition requests, and the periodic check."""

import logging
import math

from barnabas import tasks
from barnabas.clock import Clock
from barnabas.cluster.broker.broker_lifecycle import BrokerLifecycle
from barnabas.cluster.replication import ReplicaManager
from barnabas.cluster.replication.line_budget import LINES_PER_WINDOW
from barnabas.protocol.errors import KafkaError, error_code
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from barnabas.server.controller_channel.controller_channel import ControllerChannel
from barnabas.server.work_slices import in_slices

logger = logging.getLogger(__name__)


class IsrShell:
    """Sends the changes of ISRs to the controller, one request at a time, and finds lagging
    followers every replica.lag.time.max.ms/2, also while the controller does not answer.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        channel: ControllerChannel,
        broker: BrokerLifecycle,
        clock: Clock,
    ) -> None:
        self._replicas = replicas
        self._channel = channel
        self._broker = broker
        self._clock = clock
        self._woken = tasks.event()
        replicas.on_proposal = self._wake

    async def run(self) -> None:
        """Send and check until cancelled."""
        async with tasks.open_nursery() as nursery:
            nursery.start_soon(self._send_changes)
            nursery.start_soon(self._check_isrs)

    async def _check_isrs(self) -> None:
        replicas = self._replicas
        while True:
            await tasks.sleep(max(1, replicas.replica_lag_time_max_ms // 2) / 1000)
            await in_slices(replicas.check_isrs())

    async def _send_changes(self) -> None:
        manager = self._replicas.isr_manager
        while True:
            self._woken = tasks.event()
            now_ms = self._clock.monotonic_ms()
            request = manager.poll(self._broker.identity.epoch, now_ms)
            if request is not None:
                await self._send(request)
                continue
            wakeup_ms = manager.wakeup_ms()
            wait_ms = math.inf if wakeup_ms is None else max(0, wakeup_ms - now_ms)
            with tasks.move_on_after(wait_ms / 1000):
                await self._woken.wait()

    def _wake(self) -> None:
        self._woken.set()

    async def _send(self, request: AlterPartitionRequest) -> None:
        manager = self._replicas.isr_manager
        count = sum(len(topic.partitions) for topic in request.topics)
        if count > LINES_PER_WINDOW:  # which have no line each
            logger.info("changing ISRs partitions=%d", count)
        try:
            response = await self._channel.send(request, AlterPartitionResponse)
        except KafkaError as error:
            logger.warning("the controller did not answer changes of ISRs error=%s", error)
            manager.on_failure(self._clock.monotonic_ms())
            return
        if response.error_code:
            name = error_code(response.error_code).name
            logger.warning("the controller refused changes of ISRs error=%s", name)
        manager.on_response(response, self._clock.monotonic_ms())
