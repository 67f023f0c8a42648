"""The input and output of ISR changes: AlterPartition requests, and the periodic check."""

import logging
from collections.abc import Callable

import trio

from barnabas.cluster.replication import ReplicaManager
from barnabas.protocol.errors import KafkaError, error_code
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from barnabas.server.quorum.controller_channel import ControllerChannel

logger = logging.getLogger(__name__)


class IsrShell:
    """Sends the changes of ISRs to the controller, one request at a time, and finds lagging
    followers every replica.lag.time.max.ms/2.

    `broker_epoch` returns the epoch of this broker's registration.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        channel: ControllerChannel,
        *,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._replicas = replicas
        self._channel = channel
        self._broker_epoch = broker_epoch
        self._woken = trio.Event()
        self._check_at_ms = 0
        replicas.on_proposal = self._wake

    async def run(self) -> None:
        """Send and check until cancelled."""
        replicas, manager = self._replicas, self._replicas.isr_manager
        self._schedule_check()
        while True:
            self._woken = trio.Event()
            now_ms = replicas.monotonic_ms()
            if now_ms >= self._check_at_ms:
                replicas.check_isrs()
                self._schedule_check()
            request = manager.poll(self._broker_epoch(), now_ms)
            if request is not None:
                await self._send(request)
                continue
            wakeup_ms = manager.wakeup_ms()
            deadline_ms = min(self._check_at_ms, wakeup_ms or self._check_at_ms)
            with trio.move_on_after(max(0, deadline_ms - now_ms) / 1000):
                await self._woken.wait()

    def _wake(self) -> None:
        self._woken.set()

    def _schedule_check(self) -> None:
        now_ms = self._replicas.monotonic_ms()
        self._check_at_ms = now_ms + max(1, self._replicas.replica_lag_time_max_ms // 2)

    async def _send(self, request: AlterPartitionRequest) -> None:
        manager, replicas = self._replicas.isr_manager, self._replicas
        try:
            response = await self._channel.send(request, AlterPartitionResponse)
        except KafkaError as error:
            logger.warning("ISR changes not answered error=%s", error)
            manager.on_failure(replicas.monotonic_ms())
            return
        if response.error_code:
            logger.warning("ISR changes not taken error=%s", error_code(response.error_code).name)
        manager.on_response(response, replicas.monotonic_ms())
