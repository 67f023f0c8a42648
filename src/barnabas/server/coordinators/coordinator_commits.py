"""The replies of a coordinator that wait until its records are committed."""

from collections.abc import Callable
from typing import Any

from barnabas.cluster.replication import Partition
from barnabas.cluster.replication.leader_state import LeaderState
from barnabas.coordinator.core.coordinator_output import Reply, append_error
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.server.replication.commit_wait import Appended, CommitWaits


class CoordinatorCommits:
    """The replies and effects of one coordinator partition, in the order of its records.

    They go out when everything written before them is committed, which on a single node is at once.
    `effects_due` receives committed effects.
    """

    def __init__(
        self, waits: CommitWaits, timeout_ms: int, effects_due: Callable[[list[Any]], None]
    ) -> None:
        self.partition: Partition | None = None
        """The partition while the coordinator serves it, otherwise None."""
        self._waits = waits
        self._timeout_ms = timeout_ms
        self._effects_due = effects_due
        # The end of what was written or read, the leadership in which it was, and up to where it is
        # known committed.
        self._written = 0
        self._leader_state: LeaderState | None = None
        self._committed = 0

    def begin(self, partition: Partition, end: int) -> None:
        """Begin to serve a partition whose records were replayed up to `end`."""
        self.partition = partition
        self._leader_state = partition.leader_state
        self._written = end
        self._committed = min(partition.high_watermark, end) if end else 0

    def wrote(self, partition: Partition, end: int) -> None:
        """Note an append of the coordinator, whose records end at `end`."""
        self._written = end
        self._leader_state = partition.leader_state

    def stop(self) -> None:
        """Stop serving: later replies are NOT_COORDINATOR, and effects that wait are dropped."""
        self.partition = None

    def send(self, replies: list[Reply], effects: list[Any]) -> None:
        """Send replies and effects when everything written so far is committed."""
        partition = self.partition
        if partition is None:
            fail_replies(replies, ErrorCode.NOT_COORDINATOR)
            return
        if self._committed < self._written and (
            partition.leader_state is self._leader_state
            and partition.high_watermark >= self._written
            and not partition.flush_due
        ):
            self._committed = self._written
        if self._committed >= self._written:
            deliver(replies)
            if effects:
                self._effects_due(effects)
            return
        self._wait(partition, replies, self._replies_settled, self._timeout_ms)
        if effects:  # these have no deadline: the records may be committed later
            self._wait(partition, effects, self._effects_settled, None)

    def _wait(
        self,
        partition: Partition,
        content: list[Any],
        settle: Callable[[list[Any], ErrorCode], None],
        timeout_ms: int | None,
    ) -> None:
        appended = [Appended(content, partition, self._written - 1, self._leader_state)]
        self._waits.wait(appended, settle, timeout_ms=timeout_ms)

    def _replies_settled(self, replies: list[Reply], outcome: ErrorCode) -> None:
        if _is_committed(outcome):
            deliver(replies)
        else:
            fail_replies(replies, append_error(outcome))

    def _effects_settled(self, effects: list[Any], outcome: ErrorCode) -> None:
        if self.partition is not None and _is_committed(outcome):
            self._effects_due(effects)


def _is_committed(outcome: ErrorCode) -> bool:
    """True when every in-sync replica has the records, even if these are too few by now."""
    return outcome in (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


def deliver(replies: list[Reply]) -> None:
    """Hand responses to the requests that wait; without effect when the peer has disconnected."""
    for reply in replies:
        waiter: Any = reply.token
        waiter.set(reply.response)


def fail_replies(replies: list[Reply], error: ErrorCode) -> None:
    """Answer requests whose records were not written or not committed."""
    for reply in replies:
        waiter: Any = reply.token
        waiter.set(KafkaError(error, "the coordinator could not write"))
