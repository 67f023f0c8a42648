"""The input and output of the broker's lifecycle: requests over the channel, and a timer."""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from barnabas import tasks
from barnabas.clock import Clock
from barnabas.cluster.broker.broker_lifecycle import (
    BrokerLifecycle,
    BrokerState,
    LifecycleRequest,
)
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from barnabas.protocol.types import Uuid
from barnabas.server.controller_channel.controller_channel import ControllerChannel
from barnabas.server.node_failures import StartupError

logger = logging.getLogger(__name__)

_HINTS: Final = {
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "another process has this node.id, or has ended and "
    "its session has not expired: the registration is repeated",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "the data directories belong to another cluster",
    ErrorCode.INVALID_REGISTRATION: "a data directory is registered by another broker: a copied "
    "directory needs its own directory.id in meta.properties",
    ErrorCode.UNSUPPORTED_VERSION: "the cluster has finalized a feature that this version lacks",
}


class LifecycleShell:
    """Runs a broker's lifecycle.

    `metadata_offset` returns the offset of the applied image, and `is_last_broker` is true when no
    other broker is active in it. `cordoned` returns the directories that get no new partitions;
    None when controllers cannot record them. `describe_leader` returns a text about the active
    controller.
    """

    def __init__(
        self,
        lifecycle: BrokerLifecycle,
        channel: ControllerChannel,
        *,
        metadata_offset: Callable[[], int],
        is_last_broker: Callable[[], bool],
        cordoned: Callable[[], Iterable[Uuid] | None],
        describe_leader: Callable[[], str],
        clock: Clock,
    ) -> None:
        self._lifecycle = lifecycle
        self._channel = channel
        self._metadata_offset = metadata_offset
        self._is_last_broker = is_last_broker
        self._cordoned = cordoned
        self._describe_leader = describe_leader
        self._now_ms = clock.monotonic_ms
        self._woken = tasks.event()
        self._changed = tasks.condition()

    async def run(self) -> None:
        """Register and send heartbeats until cancelled, or until the broker may stop.

        Raises StartupError when the controller did not register the broker in time.
        """
        lifecycle = self._lifecycle
        lifecycle.start(self._now_ms())
        while lifecycle.state is not BrokerState.SHUTTING_DOWN:
            self._woken = tasks.event()
            before = (lifecycle.state, lifecycle.identity)
            request = lifecycle.poll(self._now_ms(), self._metadata_offset(), self._cordoned())
            if lifecycle.is_registration_overdue:
                raise self._overdue()
            if request is not None:
                await self._send(request)
            elif lifecycle.state is before[0]:
                await self._sleep()
            if before != (lifecycle.state, lifecycle.identity):
                await self._notify_waiters()
        await self._notify_waiters()

    def _overdue(self) -> StartupError:
        error = self._lifecycle.last_error
        return StartupError(
            "the controller did not register this broker within "
            f"initial.broker.registration.timeout.ms (last error: {error and error.name}); "
            f"{self._describe_leader()}"
        )

    async def wait_for(self, state: BrokerState) -> None:
        """Return when the broker has reached a state, or a later one."""
        async with self._changed:
            while self._lifecycle.state.value < state.value:
                await self._changed.wait()

    def ready_to_unfence(self) -> None:
        """The broker has applied its first image."""
        self._lifecycle.ready_to_unfence(self._now_ms())
        self._woken.set()

    def report_offline(self, directories: Iterable[Uuid]) -> None:
        """Report failed log directories to the controller."""
        self._lifecycle.report_offline(directories, self._now_ms())
        self._woken.set()

    def register_again(self) -> None:
        """Send the registration again."""
        self._lifecycle.register_again(self._now_ms())
        self._woken.set()

    async def shut_down(self) -> None:
        """Have the controller move this broker's leaderships away; return when it may stop."""
        self._lifecycle.begin_controlled_shutdown(self._now_ms())
        self._woken.set()
        await self.wait_for(BrokerState.SHUTTING_DOWN)

    async def _sleep(self) -> None:
        wakeup_ms = self._lifecycle.wakeup_ms()
        if wakeup_ms is None:
            await self._woken.wait()
            return
        with tasks.move_on_after(max(0, wakeup_ms - self._now_ms()) / 1000):
            await self._woken.wait()

    async def _send(self, request: LifecycleRequest) -> None:
        lifecycle = self._lifecycle
        response: BrokerRegistrationResponse | BrokerHeartbeatResponse | None = None
        error = ErrorCode.REQUEST_TIMED_OUT
        with tasks.move_on_after(lifecycle.request_timeout_ms(self._now_ms()) / 1000):
            try:
                if isinstance(request, BrokerRegistrationRequest):
                    response = await self._channel.send(request, BrokerRegistrationResponse)
                else:
                    response = await self._channel.send(request, BrokerHeartbeatResponse)
            except KafkaError as failure:
                error = failure.code
        if response is None:
            lifecycle.on_failure(error, self._now_ms())
            if self._is_last_broker():
                lifecycle.end_controlled_shutdown()
        else:
            lifecycle.on_response(response, self._now_ms())
        if lifecycle.last_error is not None:
            logger.warning(
                "controller request failed request=%s error=%s%s",
                type(request).__name__,
                lifecycle.last_error.name,
                _hint(lifecycle.last_error),
            )

    async def _notify_waiters(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def _hint(error: ErrorCode) -> str:
    """Return what an operator can do about a refused registration."""
    hint = _HINTS.get(error)
    return "" if hint is None else f" hint={hint}"
