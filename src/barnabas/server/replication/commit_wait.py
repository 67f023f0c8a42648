"""Waiting until appended records are committed: one mechanism for all that wait for it.

Records are committed when every in-sync replica has them and, where flush.messages asks for it,
when they are on the disk. Produce with acks=all, WriteTxnMarkers and the records of coordinators
wait here (Kafka: DelayedProduce in a purgatory).
"""

from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from barnabas import tasks
from barnabas.cluster.replication import Partition
from barnabas.cluster.replication.leader_state import LeaderState
from barnabas.protocol.errors import ErrorCode
from barnabas.server.open_nursery import OpenNursery
from barnabas.server.replication.loop_timers import LoopTimers

T = TypeVar("T")

Settle = Callable[[T, ErrorCode], None]
"""Receives an item and its outcome, once for each item."""


class CommitTimers(Protocol):
    """The timers that commit waits need."""

    def after(self, delay_ms: int, call: Callable[[], None]) -> Hashable:
        """Call `call` in `delay_ms`; return the key to cancel it by."""
        ...

    def cancel(self, key: Hashable) -> None:
        """Forget the timer of `key`, if there is one."""
        ...


Deadlines = Callable[[], CommitTimers]


class Appended(NamedTuple, Generic[T]):
    """Records that the leader appended, up to `last_offset`; `item` names them in their outcome.

    `leader_state` is the partition's at the time of the append. The partition keeps that object
    while it leads without interruption, also in a new epoch. Once it has followed another leader,
    its log may have other records at these offsets.
    """

    item: T
    partition: Partition
    last_offset: int
    leader_state: LeaderState | None


class CommitWait(Generic[T]):
    """The records of one request, in any number of partitions, on their way to being committed."""

    __slots__ = ("_deadlines", "_done", "_open", "_settle", "_timer", "replicating")

    def __init__(
        self, settle: Settle[T], done: Callable[[], None] | None, deadlines: Deadlines
    ) -> None:
        self._deadlines = deadlines
        self._settle = settle
        self._done = done
        self._open = 1  # one for `start`, so that nothing is done while parts are being added
        self._timer: Hashable | None = None
        self.replicating: list[tuple[_Part[T], _Queue]] = []

    def add(self, appended: Appended[T]) -> "_Part[T]":
        """Add the records of one partition."""
        self._open += 1
        return _Part(self, appended)

    def start(self, timeout_ms: int | None) -> None:
        """Begin to wait; replication that takes longer ends with REQUEST_TIMED_OUT."""
        if self.replicating and timeout_ms is not None:
            self._timer = self._deadlines().after(timeout_ms, self._time_out)
        self._close_one()

    def settle(self, item: T, outcome: ErrorCode) -> None:
        """Report the outcome of one part."""
        self._settle(item, outcome)
        self._close_one()

    def _close_one(self) -> None:
        self._open -= 1
        if self._open:
            return
        self._cancel_timer()
        if self._done is not None:
            self._done()

    def _time_out(self) -> None:
        self._timer = None
        for part, queue in self.replicating:
            part.end(ErrorCode.REQUEST_TIMED_OUT)
            queue.discard_settled(part.partition)

    def _cancel_timer(self) -> None:
        self.replicating = []
        if self._timer is not None:
            self._deadlines().cancel(self._timer)
            self._timer = None


class _Part(Generic[T]):
    """Records of one partition, and how many conditions they still have to meet."""

    __slots__ = ("_item", "_leader_state", "_wait", "last_offset", "partition", "unmet")

    def __init__(self, wait: CommitWait[T], appended: Appended[T]) -> None:
        self._wait: CommitWait[T] | None = wait
        self._item, self.partition, self.last_offset, self._leader_state = appended
        self.unmet = 1  # the end of adding it

    @property
    def is_settled(self) -> bool:
        """True when its outcome is known."""
        return self._wait is None

    @property
    def is_led(self) -> bool:
        """True while the partition has led without interruption since the append."""
        partition = self.partition
        return partition.is_leader and partition.leader_state is self._leader_state

    def acks_outcome(self) -> ErrorCode | None:
        """Return the outcome of acks=all; None while it is open."""
        if not self.is_led:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return self.partition.acks_outcome(self.last_offset)

    def meet(self) -> None:
        """Note that one condition is met; with the last one the records are committed."""
        self.unmet -= 1
        if not self.unmet:
            self.end(ErrorCode.NONE)

    def end(self, outcome: ErrorCode) -> None:
        """Report an outcome, unless one was reported before."""
        wait, self._wait = self._wait, None
        if wait is not None:
            wait.settle(self._item, outcome)


class _Queue:
    """Parts that wait for the high watermark of one partition, in the order of their offsets."""

    __slots__ = ("_parts", "_remove")

    def __init__(self, remove: "Callable[[Partition, _Queue], None]") -> None:
        self._parts: deque[_Part[Any]] = deque()
        self._remove = remove

    def add(self, part: _Part[Any]) -> None:
        """Queue a part; only a repeated batch has an offset below those that wait already."""
        parts = self._parts
        place = len(parts)
        while place and parts[place - 1].last_offset > part.last_offset:
            place -= 1
        parts.insert(place, part)

    def partition_changed(self, partition: Partition) -> None:
        """Settle what the high watermark has passed; all of it when leadership is lost."""
        parts = self._parts
        while parts:
            part = parts[0]
            outcome = None if part.is_settled else part.acks_outcome()
            if outcome is None and not part.is_settled:
                return
            parts.popleft()
            if outcome is ErrorCode.NONE:
                part.meet()
            elif outcome is not None:
                part.end(outcome)
        self._remove(partition, self)

    def discard_settled(self, partition: Partition) -> None:
        """Remove parts at the front whose outcome is known; without any left, stop listening."""
        while self._parts and self._parts[0].is_settled:
            self._parts.popleft()
        if not self._parts:
            self._remove(partition, self)


class CommitWaits:
    """All of a node that waits for its records to be committed.

    `flush` makes a partition's log durable and returns False when that fails. `deadlines` returns
    the timers.
    """

    def __init__(
        self,
        flush: Callable[[Partition], Awaitable[bool]],
        deadlines: Deadlines = LoopTimers.current,
    ) -> None:
        self._flush = flush
        self._deadlines = deadlines
        self._queues: dict[Partition, _Queue] = {}
        self._nursery = OpenNursery()

    async def run(self, task_status: tasks.TaskStatus = tasks.IGNORED) -> None:
        """Run the flushes that are waited for until cancelled."""
        await self._nursery.serve(task_status)

    def wait(
        self,
        appended: Iterable[Appended[T]],
        settle: Settle[T],
        done: Callable[[], None] | None = None,
        *,
        timeout_ms: int | None,
        replicated: bool = True,
    ) -> CommitWait[T]:
        """Call `settle` with the outcome of each item, and then `done`.

        The outcome is NONE, a code of `Partition.acks_outcome`, REQUEST_TIMED_OUT, or
        KAFKA_STORAGE_ERROR when a flush fails. Records whose partition lost its leadership since
        the append get NOT_LEADER_OR_FOLLOWER, regardless of its high watermark. With
        `replicated=False` only the disk is waited for. All of it may happen at once.
        """
        wait = CommitWait(settle, done, self._deadlines)
        parts = [wait.add(each) for each in appended]
        for part in parts:
            partition = part.partition
            if replicated and not part.is_led:
                part.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                continue
            if replicated and partition.log.high_watermark <= part.last_offset:
                part.unmet += 1
                queue = self._queue(partition)
                queue.add(part)
                wait.replicating.append((part, queue))
            if partition.flush_due:
                part.unmet += 1
                nursery = self._nursery.current
                if nursery is not None:  # else the node stops, and must not acknowledge
                    nursery.start_soon(self._flush_part, part)
        for part in parts:
            part.meet()
        wait.start(timeout_ms)
        return wait

    @property
    def waiting(self) -> int:
        """The number of partitions whose records are waited for."""
        return len(self._queues)

    def _queue(self, partition: Partition) -> _Queue:
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = _Queue(self._remove_queue)
            partition.listeners[queue] = None
        return queue

    def _remove_queue(self, partition: Partition, queue: _Queue) -> None:
        if self._queues.get(partition) is queue:
            del self._queues[partition]
            partition.listeners.pop(queue, None)

    async def _flush_part(self, part: _Part[Any]) -> None:
        if await self._flush(part.partition):
            part.meet()
        else:
            part.end(ErrorCode.KAFKA_STORAGE_ERROR)
