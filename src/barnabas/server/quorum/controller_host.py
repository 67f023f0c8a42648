"""The host of this node's controller: it receives requests and waits for their commit."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from barnabas import tasks
from barnabas.clock import Clock
from barnabas.cluster.controller.controller_requests import ControllerRequest, TokenOperation
from barnabas.cluster.controller.controller_state_machine import (
    Completion,
    ControllerStateMachine,
)
from barnabas.cluster.controller.operation_result import Charge, charge_nothing
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest
from barnabas.protocol.messages_base import Message

_COMMIT_TIMEOUT_S = 60.0

_SEEN_BY_CLIENTS: Final = (
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    TokenOperation,
    UpdateFeaturesRequest,
)
"""The requests after which a client may ask any broker for what it has changed."""


class _Waiter:
    """One request that waits for its commit."""

    __slots__ = ("done", "outcome")

    def __init__(self) -> None:
        self.done = tasks.event()
        self.outcome: Message | KafkaError | None = None


class ControllerHost:
    """Submits requests to the state machine; `wake` wakes the task that commits the records.

    `wait_applied` returns when the brokers have applied what is committed, or after a moment.
    """

    def __init__(
        self,
        machine: ControllerStateMachine,
        *,
        clock: Clock,
        wake: Callable[[], None],
        wait_applied: Callable[[], Awaitable[None]],
        timeout_s: float = _COMMIT_TIMEOUT_S,
    ) -> None:
        self._machine = machine
        self._now_ms = clock.monotonic_ms
        self._wake = wake
        self._wait_applied = wait_applied
        self._timeout_s = timeout_s

    async def handle(
        self, request: ControllerRequest, version: int, charge: Charge = charge_nothing
    ) -> Message:
        """Have the controller decide a request; return its response once it is committed.

        `charge` counts the partitions that it creates or deletes.

        A change that clients see is answered when the brokers have applied it, so that a client
        finds its new topic at any of them. Apache Kafka answers before that.

        Raises KafkaError: NOT_CONTROLLER when another node is the active controller, or becomes it
        before the commit; REQUEST_TIMED_OUT when the commit takes too long; or the error of the
        operation. The outcome of the first two may be unknown.
        """
        waiter = _Waiter()
        self._machine.submit(request, version, waiter, self._now_ms(), charge)
        self._wake()
        with tasks.move_on_after(self._timeout_s):
            await waiter.done.wait()
        outcome = waiter.outcome
        if outcome is None:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The change was not committed in time")
        if isinstance(outcome, KafkaError):
            raise outcome
        if isinstance(request, _SEEN_BY_CLIENTS):
            await self._wait_applied()
        return outcome

    def complete(self, completions: Iterable[Completion]) -> None:
        """Pass the outcomes to the waiting callers."""
        for completion in completions:
            waiter = completion.token
            if isinstance(waiter, _Waiter):
                waiter.outcome = completion.outcome
                waiter.done.set()
