"""One partition of a coordinator's topic that this node leads: its shard, its log, its waiters.

Decisions are taken one after the other, each carried out to its end before the next: its output
is appended and replayed, so the next one sees it. Nearly all are over at once. One that takes
longer than a slice lets the loop go now and then, and what comes meanwhile waits for its turn.
Replies and effects go out when the high watermark has passed what was appended before them (on a
single node that is at once), and the disk where flush.messages wants it.

`GroupPartition` and `TransactionPartition` add what their records and their shards need.
"""

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar

import attrs
import trio

from barnabas.cluster.replication import Partition, ReplicaManager
from barnabas.coordinator.core.coordinator_output import Decision, Output, Reply, append_error
from barnabas.coordinator.core.coordinator_output import Record as CoordinatorRecord
from barnabas.coordinator.core.steps import Steps, run_through
from barnabas.log import PartitionLog
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.batch_header import BatchHeader, CorruptBatch, iter_batches
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.batches.record_decoding import Record, read_records
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.coordinator_framing import (
    UnknownRecordTypeError,
    encode_coordinator_key,
    encode_coordinator_value,
)

logger = logging.getLogger(__name__)

# A loading coordinator lets the loop go after this many records.
_RECORDS_IN_A_SLICE = 500
_READ_BYTES = 1 << 20
# What may be split over batches are tombstones: this many stay well below any message size.
_SPLIT_RECORDS = 500
# How long a decision may hold the loop, but for the step at hand.
_SLICE_S = 0.001

DecodedRecord = tuple[Message, Message | None]


class Shard(Protocol):
    """What all shards offer their partition, beside the operations of their kind."""

    def next_wakeup(self) -> int | None:
        """When `tick` has something to do next, in ms; None: not before another operation."""
        ...

    def tick(self, now_ms: int) -> Decision | None:
        """Run one timer that is due; None when there is none."""
        ...

    def loaded(self, now_ms: int) -> None:
        """Begin to serve after replay."""
        ...

    def unload(self, now_ms: int) -> Output:
        """End serving; its replies go to whoever waits."""
        ...


ShardT = TypeVar("ShardT", bound=Shard)


class Waiter:
    """A request's place to wait for its reply; the shard knows it as a token."""

    __slots__ = ("_event", "_result")

    def __init__(self) -> None:
        self._event: trio.Event | None = None
        self._result: Any = None

    def set(self, result: Any) -> None:
        """Give the response, or the exception that takes its place; the first one holds."""
        if self._result is None:
            self._result = result
            if self._event is not None:
                self._event.set()

    async def wait(self) -> Any:
        """The response, at once if it is there; raises what was given as an exception."""
        if self._result is None:
            self._event = trio.Event()
            await self._event.wait()
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result


@attrs.frozen
class ProducerBatch:
    """Under which transactional producer a batch is written."""

    producer_id: int
    producer_epoch: int


@attrs.define
class _Turn:
    """Something to be decided; a refusal goes to `waiter`, and records under `producer`."""

    decide: Callable[[], Decision]
    waiter: Waiter | None
    producer: ProducerBatch | None


@attrs.frozen
class _Held:
    """Replies and effects that wait until the high watermark reaches `offset`."""

    offset: int
    deadline_ms: int
    replies: list[Reply]
    effects: list[Any]


BeginSync = Callable[["CoordinatorPartition[Any]", Partition, int], None]
"""Begin to make a partition durable up to an offset, for a coordinator to be told."""

GoOn = Callable[["CoordinatorPartition[Any]"], None]
"""Begin to call `work` until there is none left."""


class CoordinatorPartition(ABC, Generic[ShardT]):
    """A partition that this node coordinates, from its election to its resignation.

    `now_ms` is the coordinator's clock. `stamp_ms` is the wall clock of the records' timestamps.
    `begin_sync` makes durable what is written of the partition, and says so by `synced`; `go_on`
    sees to decisions that take longer than a slice.
    """

    TOPIC: str
    THINGS: str
    """What its shard knows, in words for the log."""

    def __init__(
        self,
        replicas: ReplicaManager,
        index: int,
        shard: ShardT,
        *,
        now_ms: Callable[[], int],
        stamp_ms: Callable[[], int],
        commit_timeout_ms: int,
        begin_sync: BeginSync,
        go_on: GoOn,
        codec: Codec = Codec.NONE,
    ) -> None:
        self.index = index
        self.shard = shard
        self.is_loaded = False
        self._replicas = replicas
        self._now_ms = now_ms
        self._stamp_ms = stamp_ms
        self._commit_timeout_ms = commit_timeout_ms
        self._begin_sync = begin_sync
        self._go_on = go_on
        self._codec = codec
        self._partition: Partition | None = None
        # The end of what this coordinator wrote or read, and up to where it is known committed.
        self._written = 0
        self._committed = 0
        # Up to where flush.messages wants it on the disk, and up to where it is known to be.
        self._sync_wanted = 0
        self._synced = 0
        self._held: deque[_Held] = deque()
        # Effects that go out once the decision at hand is carried out to its end.
        self._due: list[Any] = []
        # What is to be decided, and deciding it as far as that has come; None: nothing is.
        self._turns: deque[_Turn] = deque()
        self._work: Steps[None] | None = None
        self._slice_end = 0.0  # of the performance counter
        # Whether a timer that is due is among the turns.
        self._has_timer_turn = False

    # What a kind of coordinator adds

    @abstractmethod
    def decode(self, key: bytes, value: bytes | None) -> DecodedRecord:
        """Read a record; UnknownRecordTypeError for one of a newer server."""

    @abstractmethod
    def replay(
        self, key: Message, value: Message | None, *, record_offset: int, producer_id: int
    ) -> None:
        """Give a record to the shard; `producer_id` is -1 outside transactions."""

    def replay_control(self, record: Record, header: BatchHeader) -> None:
        """Give a control record to the shard, if it has any use for it."""

    def carry_out_effects(self, effects: list[Any]) -> None:
        """Do what the shard wants done now that its records are committed."""
        if effects:
            raise TypeError(f"{type(self).__name__} knows no effects")

    def started(self) -> None:
        """Loading is over."""

    # Loading

    async def load(self) -> None:
        """Replay the partition from its start to its end, then serve.

        Raises KafkaError where the partition is not (yet, or any more) led here.
        """
        partition = self._replicas.partition(self.TOPIC, self.index)
        started_ms = self._now_ms()
        # A partition that was never written to has no log yet, and needs none until it is.
        if self._replicas.logs.get(self.TOPIC, self.index) is not None:
            self._written = await self._replay(partition.log)
            self._committed = partition.high_watermark
        self._partition = partition
        self.shard.loaded(self._now_ms())
        self.is_loaded = True
        self.started()
        if self._written:
            elapsed_ms = self._now_ms() - started_ms
            logger.info(
                "loaded %s partition=%d offset=%d ms=%d",
                self.THINGS,
                self.index,
                self._written,
                elapsed_ms,
            )

    async def _replay(self, log: PartitionLog) -> int:
        """Replays the log in slices; the offset of its end."""
        offset = log.log_start_offset
        in_slice = 0
        while offset < log.log_end_offset:
            data = log.read(offset, _READ_BYTES, upper_bound=log.log_end_offset).read()
            reached = offset
            for position, header in iter_batches(data):
                reached = header.next_offset
                try:
                    in_slice += self._replay_batch(data, position, header, offset)
                except (CorruptBatch, ProtocolError) as error:
                    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
                if in_slice >= _RECORDS_IN_A_SLICE:
                    in_slice = 0
                    await trio.lowlevel.checkpoint()
            if reached == offset:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no whole batch at offset {offset}")
            offset = reached
        return offset

    def _replay_batch(self, data: bytes, position: int, header: BatchHeader, first: int) -> int:
        records = read_records(data, position, header)
        producer_id = header.producer_id if header.is_transactional else -1
        for record in records:
            if record.offset < first or record.key is None:
                continue
            if header.is_control:
                self.replay_control(record, header)
                continue
            try:
                key, value = self.decode(record.key, record.value)
            except UnknownRecordTypeError as error:
                logger.warning(
                    "ignored topic=%s partition=%d offset=%d: %s",
                    self.TOPIC,
                    self.index,
                    record.offset,
                    error,
                )
                continue
            self.replay(key, value, record_offset=record.offset, producer_id=producer_id)
        return len(records)

    # Decisions

    def perform(
        self,
        decide: Callable[[], Decision],
        waiter: Waiter | None = None,
        producer: ProducerBatch | None = None,
    ) -> None:
        """Have something decided and carried out, at once unless others are to come first.

        The waiter gets what `decide` raises. With a producer the records become part of its
        transaction.
        """
        self._turns.append(_Turn(decide, waiter, producer))
        if self._work is None:
            self._work = self._take_turns()
            if self.work():
                self._go_on(self)

    def work(self) -> bool:
        """Go on with what is to be decided, for a slice; whether there is more to do."""
        self._slice_end = perf_counter() + _SLICE_S
        work = self._work
        while work is not None:
            next(work, None)
            work = self._work
            if perf_counter() >= self._slice_end:
                break
        return work is not None

    def _take_turns(self) -> Steps[None]:
        try:
            while self._turns:
                turn = self._turns.popleft()
                try:
                    decision: Decision | None = turn.decide()
                    while decision is not None:
                        output = decision
                        if not isinstance(output, Output):
                            output = yield from output
                        decision = yield from self._carry_out(output, turn.producer)
                except Exception as error:
                    if turn.waiter is None:
                        raise
                    turn.waiter.set(error)
                self._do_due()
                if self._turns:
                    yield
        finally:
            self._work = None

    def _do_due(self) -> None:
        while self._due:
            due, self._due = self._due, []
            self.carry_out_effects(due)

    def _carry_out(self, output: Output, producer: ProducerBatch | None) -> Steps[Decision | None]:
        """Append, replay and answer; what follows from it."""
        try:
            for records in _batches(output):
                steps = self._append(records, producer)
                if producer is None:
                    yield from steps
                else:  # a marker waits for no turn: it is to find all of its transaction, or none
                    run_through(steps)
        except KafkaError as error:
            return self._refuse(output, append_error(error.code))
        if output.replies or output.effects:
            self._send(output.replies, output.effects)
        return None if output.then is None else output.then(self._now_ms())

    def _append(
        self, records: list[CoordinatorRecord], producer: ProducerBatch | None
    ) -> Steps[None]:
        """Writes one batch and replays it; raises the append's KafkaError, with nothing done."""
        stamp_ms = self._stamp_ms()
        encoded: list[Record] = []
        for delta, record in enumerate(records):
            key = encode_coordinator_key(record.key)
            value = None
            if record.value is not None:
                value = encode_coordinator_value(record.value, record.version)
            encoded.append(Record(offset=delta, timestamp=stamp_ms, key=key, value=value))
            if perf_counter() >= self._slice_end:
                yield
        producer_id = -1 if producer is None else producer.producer_id
        batch = build_batch(
            encoded,
            codec=self._codec,
            producer_id=producer_id,
            producer_epoch=-1 if producer is None else producer.producer_epoch,
            is_transactional=producer is not None,
        )
        first_offset = self.append_batch(batch)
        for offset, record in enumerate(records, first_offset):
            self.replay(record.key, record.value, record_offset=offset, producer_id=producer_id)
            if perf_counter() >= self._slice_end:
                yield

    def append_batch(self, batch: bytearray) -> int:
        """Write a batch of the coordinator's own; its first offset. Raises KafkaError."""
        if self._partition is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition has moved")
        result = self._replicas.append(
            self.TOPIC, self.index, batch, required_acks=-1, origin="coordinator"
        )
        self._written = result.last_offset + 1
        if self._partition.flush_due:
            self._sync_wanted = self._written
            self._begin_sync(self, self._partition, self._written)
        return result.first_offset

    def synced(self, partition: Partition, end_offset: int) -> None:
        """What is below `end_offset` is on the disk."""
        self._synced = max(self._synced, end_offset)
        if partition is self._partition:
            self.partition_changed(partition)

    def _settled_end(self, partition: Partition) -> int:
        """Up to where records are committed, and on the disk if flush.messages wants that."""
        if self._synced < self._sync_wanted:
            return min(partition.high_watermark, self._synced)
        return partition.high_watermark

    def _refuse(self, output: Output, error: ErrorCode) -> Decision | None:
        logger.warning(
            "append refused topic=%s partition=%d error=%s", self.TOPIC, self.index, error.name
        )
        if output.refused is not None:
            if output.replies:
                self._send(output.replies, [])
            return output.refused(error, self._now_ms())
        fail(output.replies, error)
        return None

    def _send(self, replies: list[Reply], effects: list[Any]) -> None:
        partition = self._partition
        if partition is None:
            fail(replies, ErrorCode.NOT_COORDINATOR)
            return
        if self._committed < self._written:
            self._committed = self._settled_end(partition)
        if self._committed >= self._written:
            deliver(replies)
            self._due += effects
            return
        partition.listeners.add(self)
        deadline_ms = self._now_ms() + self._commit_timeout_ms
        self._held.append(_Held(self._written, deadline_ms, replies, effects))

    def partition_changed(self, partition: Partition) -> None:
        """Replies go out as far as the high watermark, and the disk if need be, has come."""
        end_offset = self._settled_end(partition)
        while self._held and self._held[0].offset <= end_offset:
            held = self._held.popleft()
            deliver(held.replies)
            self._due += held.effects
        if not self._held:
            partition.listeners.discard(self)
        if self._work is None:
            self._do_due()

    # Time and ending

    def next_wakeup(self) -> int | None:
        """When `tick` has something to do, in milliseconds of the coordinator's clock."""
        wakeup_ms = None if self._has_timer_turn else self.shard.next_wakeup()
        deadline_ms = next((held.deadline_ms for held in self._held if held.replies), None)
        if wakeup_ms is None or deadline_ms is None:
            return deadline_ms if wakeup_ms is None else wakeup_ms
        return min(wakeup_ms, deadline_ms)

    def tick(self) -> None:
        """Run the timers that are due; what was not committed in time is answered as such.

        A timer waits for its turn, so a heartbeat that came before is heard first. Effects wait
        on: the records may be committed yet.
        """
        now_ms = self._now_ms()
        while (
            not self._has_timer_turn
            and (wakeup_ms := self.shard.next_wakeup()) is not None
            and wakeup_ms <= now_ms
        ):
            self._has_timer_turn = True
            self.perform(self._run_timer)
        for held in self._held:
            if held.deadline_ms > now_ms:
                break
            fail(held.replies, append_error(ErrorCode.REQUEST_TIMED_OUT))
            held.replies.clear()
        while self._held and not (self._held[0].replies or self._held[0].effects):
            self._held.popleft()

    def _run_timer(self) -> Decision:
        self._has_timer_turn = False
        return self.shard.tick(self._now_ms()) or Output()

    def resign(self) -> None:
        """Another node leads: whoever waits is told so.

        A decision that is under way comes to its end; it can write nothing any more.
        """
        if self._partition is not None:
            self._partition.listeners.discard(self)
            self._partition = None
        self.is_loaded = False
        for held in self._held:
            fail(held.replies, ErrorCode.NOT_COORDINATOR)
        for turn in self._turns:
            if turn.waiter is not None:
                turn.waiter.set(
                    KafkaError(ErrorCode.NOT_COORDINATOR, "another node has taken over")
                )
        self._turns.clear()
        self._held.clear()
        self._due.clear()
        deliver(self.shard.unload(self._now_ms()).replies)


def deliver(replies: list[Reply]) -> None:
    """Hand responses to the requests that wait; one whose peer has gone is dropped with it."""
    for reply in replies:
        waiter: Any = reply.token
        waiter.set(reply.response)


def fail(replies: list[Reply], error: ErrorCode) -> None:
    """Tell the requests that wait that their records were not written or not committed."""
    for reply in replies:
        waiter: Any = reply.token
        waiter.set(KafkaError(error, "the coordinator could not write"))


def _batches(output: Output) -> list[list[CoordinatorRecord]]:
    """The output's records, split if they may be and are many."""
    records = output.records
    if not records:
        return []
    if output.atomic:
        return [records]
    return [
        records[start : start + _SPLIT_RECORDS] for start in range(0, len(records), _SPLIT_RECORDS)
    ]
