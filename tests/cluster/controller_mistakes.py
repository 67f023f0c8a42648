"""Planted mistakes in the controller's treatment of brokers: each breaks an invariant of the world.

The numbers are those of the list of mistakes that a test must reveal.
"""

import copy
from typing import Any

from barnabas.cluster.controller.broker_heartbeats import BrokerControlState, BrokerHeartbeats
from barnabas.cluster.controller.controller import Controller
from barnabas.cluster.controller.failure_evidence import FailureEvidence
from barnabas.cluster.controller.operation_result import ControllerResult
from barnabas.cluster.controller.sessions import BrokerSessions, SessionKey
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)


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
        self._gone.add(key)


MISTAKES: tuple[type[Controller], ...] = (
    UnfencesBeforeCatchingUp,
    FencesBeforeIsrChanges,
    KeysSessionsById,
    StartsWithExpiredSessions,
    StopsWithoutWaitingForOthers,
)
