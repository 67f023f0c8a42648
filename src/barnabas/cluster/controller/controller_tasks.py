"""The periodic tasks of the active controller.

    fence stale brokers       every eighth of broker.session.timeout.ms
    finish changes            at once, when a broker's change of state concerns many partitions
    write a NoOp record       metadata.max.idle.interval.ms
    balance leaders           leader.imbalance.check.interval.seconds
    elect leaders uncleanly   unclean.leader.election.interval.ms
    remove expired tokens     delegation.token.expiry.check.interval.ms

Each run returns records, as an operation does.
"""

import enum
import logging
from collections.abc import Iterable
from typing import Final

from barnabas.cluster.controller.controller import MAX_CHANGES_PER_RUN, Controller
from barnabas.cluster.controller.election_rules import UNCLEAN_ELECTION
from barnabas.cluster.controller.operation_result import ControllerResult
from barnabas.cluster.controller.periodic_tasks import PeriodicTasks
from barnabas.cluster.controller.sessions import SessionKey
from barnabas.config import NodeConfig
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import ConfigRecord, NoOpRecord

logger = logging.getLogger(__name__)

_CHECKS_PER_SESSION: Final = 8


class Task(enum.Enum):
    """A periodic task of the controller."""

    FENCE_STALE_BROKER = "fence stale broker"
    FINISH_CHANGES = "finish changes"
    WRITE_NO_OP = "write NoOp record"
    BALANCE_LEADERS = "balance leaders"
    ELECT_UNCLEANLY = "elect leaders uncleanly"
    REMOVE_TOKENS = "remove expired delegation tokens"


class ControllerTasks:
    """Runs the periodic tasks of `controller` while it is active."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._timer = PeriodicTasks[Task]({})
        self._session_ms = 0

    def start(self, now_ms: int) -> None:
        """The controller has become active."""
        config = self._controller.config()
        self._session_ms = config.get_int("broker.session.timeout.ms")
        self._timer = PeriodicTasks(
            {
                Task.FENCE_STALE_BROKER: max(1, self._session_ms // _CHECKS_PER_SESSION),
                Task.FINISH_CHANGES: max(1, self._session_ms // _CHECKS_PER_SESSION),
                Task.WRITE_NO_OP: config.get_int("metadata.max.idle.interval.ms"),
                Task.BALANCE_LEADERS: _balance_period_ms(config),
                Task.ELECT_UNCLEANLY: config.get_int("unclean.leader.election.interval.ms"),
                Task.REMOVE_TOKENS: config.get_int("delegation.token.expiry.check.interval.ms"),
            }
        )
        self._timer.start(now_ms)

    def stop(self) -> None:
        """The controller is no longer active."""
        self._timer.stop()

    def wakeup_ms(self) -> int | None:
        """Return when a task is due next, or None when the controller is not active."""
        return self._timer.wakeup_ms()

    def run_due(self, now_ms: int) -> ControllerResult[None]:
        """Run the task that is due, if any, and return its records."""
        due = self._timer.take_due(now_ms)
        if due is None:
            return ControllerResult([], None)
        if due.name is Task.FENCE_STALE_BROKER:
            return self._fence_stale_broker(due.late_ms, now_ms)
        if due.name is Task.WRITE_NO_OP:
            return self._write_no_op()
        if due.name is Task.FINISH_CHANGES:
            return self._finish_changes(now_ms)
        if due.name is Task.REMOVE_TOKENS:
            return self._remove_tokens(now_ms)
        controller = self._controller
        is_balance = due.name is Task.BALANCE_LEADERS
        elect = controller.balance_leaders if is_balance else controller.elect_uncleanly
        result = elect(MAX_CHANGES_PER_RUN)
        if len(result.records) == MAX_CHANGES_PER_RUN:
            self._timer.run_at_once(due.name, now_ms)
        return result

    def observe(self, records: Iterable[Message], now_ms: int) -> None:
        """Schedule what an operation leaves to do.

        Leaders are elected at once where a change of the configuration allows an unclean election.
        """
        if self._controller.unfinished:
            self._timer.run_at_once(Task.FINISH_CHANGES, now_ms)
        if any(
            isinstance(each, ConfigRecord) and each.name == UNCLEAN_ELECTION for each in records
        ):
            self._timer.run_at_once(Task.ELECT_UNCLEANLY, now_ms)

    def end_session(self, key: SessionKey, now_ms: int) -> None:
        """Fence a broker at once, because its process has ended."""
        if self._controller.sessions.end(key):
            self._timer.run_at_once(Task.FENCE_STALE_BROKER, now_ms)

    def _write_no_op(self) -> ControllerResult[None]:
        """Let other nodes see that the metadata is current (KIP-835); a single node needs none."""
        image = self._controller.image
        has_followers = len(image.brokers.keys() | image.controllers.keys()) > 1
        return ControllerResult([NoOpRecord()] if has_followers else [], None)

    def _finish_changes(self, now_ms: int) -> ControllerResult[None]:
        """Change the next partitions of a broker that has many, and run again while there are."""
        result = self._controller.finish_changes()
        if self._controller.unfinished:
            self._timer.run_at_once(Task.FINISH_CHANGES, now_ms)
        return result

    def _remove_tokens(self, now_ms: int) -> ControllerResult[None]:
        """Remove expired tokens, and run again at once where there may be more."""
        result = self._controller.remove_expired_tokens()
        if result.records:
            self._timer.run_at_once(Task.REMOVE_TOKENS, now_ms)
        return result

    def _fence_stale_broker(self, late_ms: int, now_ms: int) -> ControllerResult[None]:
        """Fence one broker whose session has expired, and run again at once if there was one.

        A broker with many partitions is fenced in several runs, so that other operations are not
        delayed. A run that is late by a period lets no session expire: the node has not read
        the heartbeats that arrived meanwhile.
        """
        controller, period_ms = self._controller, self._session_ms // _CHECKS_PER_SESSION
        sessions = controller.sessions
        is_late = late_ms > period_ms
        reason = "its process has ended"
        key = controller.fencing or sessions.take_ended()
        if key is None and not is_late:
            reason = f"no heartbeat for {self._session_ms} ms"
            key = sessions.take_expired(now_ms)
        if key is None:
            return ControllerResult([], None)
        self._timer.run_at_once(Task.FENCE_STALE_BROKER, now_ms)
        broker = controller.image.brokers.get(key.broker_id)
        if broker is None or broker.epoch != key.epoch or broker.fenced:
            controller.fencing = None
            return ControllerResult([], None)
        if controller.fencing is None:
            logger.info("fencing broker id=%d epoch=%d reason=%s", *key, reason)
        return controller.fence_broker(broker.id, MAX_CHANGES_PER_RUN)


def _balance_period_ms(config: NodeConfig) -> int:
    if not config.get_bool("auto.leader.rebalance.enable"):
        return 0
    return 1000 * config.get_int("leader.imbalance.check.interval.seconds")
