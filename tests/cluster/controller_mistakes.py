"""Planted mistakes in the replicated controller, and in its treatment of brokers.

The numbers are those of `tests.simulation.mistake_table`.
"""

import copy
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from barnabas.cluster.controller.broker_heartbeats import BrokerControlState, BrokerHeartbeats
from barnabas.cluster.controller.controller import Controller
from barnabas.cluster.controller.controller_state_machine import Completion, ControllerStateMachine
from barnabas.cluster.controller.failure_evidence import FailureEvidence
from barnabas.cluster.controller.operation_result import ControllerResult
from barnabas.cluster.controller.sessions import BrokerSessions, SessionKey
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.metadata.metadata_transaction import MetadataTransaction
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from barnabas.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from tests.simulation.planting import replaces


@replaces(MetadataTransaction, "take")
def publish_open_transactions(
    _: Callable[..., Any], transaction: MetadataTransaction, records: Sequence[Message], end: int
) -> list[Message]:
    """10: the records of a metadata transaction take effect before its end."""
    marks = BeginTransactionRecord | AbortTransactionRecord | EndTransactionRecord
    return [record for record in records if not isinstance(record, marks)]


class BindsToTheOffset(ControllerStateMachine):
    """11: operations survive a step-down, and wait for their offset in any epoch."""

    def _fail_waiting(self) -> None:
        pass


@replaces(Controller, "activate")
def keep_the_speculative_image(
    activate: Callable[..., None], controller: Controller, image: MetadataImage, *rest: Any
) -> None:
    """12: a controller that leads again continues with the image of its earlier epoch."""
    activate(controller, image if controller.image.is_empty else controller.image, *rest)


class KeepsTruncatedImages(ControllerStateMachine):
    """The images of truncated records stay in the queue."""

    def _truncate(self, offset: int) -> None:
        pass


class HandsOutBlocksBeforeCommit(ControllerStateMachine):
    """37: a block of producer ids is handed out before its record is committed."""

    def _take_completed(self) -> Iterable[Completion]:
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if isinstance(each.response, AllocateProducerIdsResponse):
                yield Completion(each.token, each.response)
            else:
                self._waiting.append(each)
        yield from super()._take_completed()


class AnswersBeforeCommit(ControllerStateMachine):
    """Operations are answered before their records are committed."""

    def _take_completed(self) -> Iterable[Completion]:
        while self._waiting and self._waiting[0].next_offset <= self.core.log_end_offset:
            waiting = self._waiting.popleft()
            yield Completion(waiting.token, waiting.response)


class UnfencesBeforeCatchingUp(Controller):
    """30: a broker is unfenced before it has applied its registration."""

    def broker_heartbeat(
        self, request: BrokerHeartbeatRequest
    ) -> ControllerResult[BrokerHeartbeatResponse]:
        caught_up = copy.copy(request)
        caught_up.current_metadata_offset = 1 << 40
        return super().broker_heartbeat(caught_up)


class FencesBeforeIsrChanges(Controller):
    """31: the fencing is recorded in a batch before the changes of ISRs."""

    def fence_broker(self, broker_id: int, most: int | None = None) -> ControllerResult[None]:
        result = super().fence_broker(broker_id, most)
        return ControllerResult(result.records[-1:], None, is_atomic=False)


class KeysSessionsById(Controller):
    """32: a heartbeat of an earlier epoch keeps the session of the broker alive."""

    def broker_heartbeat(
        self, request: BrokerHeartbeatRequest
    ) -> ControllerResult[BrokerHeartbeatResponse]:
        broker = self.image.brokers.get(request.broker_id)
        if broker is not None:
            self.sessions.touch(SessionKey(broker.id, broker.epoch), self.now_ms)
        return super().broker_heartbeat(request)


class StartsWithExpiredSessions(Controller):
    """33: the sessions of a new controller start expired."""

    def activate(self, image: MetadataImage, next_offset: int, now_ms: int) -> None:
        super().activate(image, next_offset, now_ms)
        self.sessions = BrokerSessions()
        for broker in image.brokers.values():
            if not broker.fenced:
                self.sessions.touch(SessionKey(broker.id, broker.epoch), now_ms - 10_000)


class _ForgetsOthersOffsets(BrokerHeartbeats):
    def next_state(
        self, image: Any, broker: Any, request: BrokerHeartbeatRequest, has_leaderships: Any
    ) -> BrokerControlState:
        if broker.in_controlled_shutdown and not broker.fenced and not has_leaderships():
            return BrokerControlState.SHUTDOWN_NOW
        return super().next_state(image, broker, request, has_leaderships)


class StopsWithoutWaitingForOthers(Controller):
    """34: a broker may stop before the others have applied that its leaderships moved."""

    def activate(self, image: MetadataImage, next_offset: int, now_ms: int) -> None:
        super().activate(image, next_offset, now_ms)
        self.heartbeats = _ForgetsOthersOffsets()


class CountsOneReset(FailureEvidence):
    """42: a single reset of a connection is evidence."""

    def on_closed(self, key: SessionKey, now_ms: int) -> None:
        super().on_closed(key, now_ms)
        self._gone[key] = now_ms
