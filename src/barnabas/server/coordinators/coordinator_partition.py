"""One partition of a coordinator's topic that this node leads: its shard, its log, its waiters.

Decisions of the shard are carried out in order: the records of each are appended and replayed, so
the next decision sees them. Replies and effects go out when the records are committed, which on a
single node is at once.

`GroupPartition` and `TransactionPartition` add what their records and their shards need.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import attrs

from barnabas.cluster.replication import Partition, ReplicaManager
from barnabas.coordinator.core.coordinator_output import (
    Decision,
    Output,
    Token,
    append_error,
)
from barnabas.coordinator.core.coordinator_output import Record as CoordinatorRecord
from barnabas.coordinator.core.steps import Steps, run_through
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.batch_header import BatchHeader
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.coordinator_framing import (
    encode_coordinator_key,
    encode_coordinator_value,
)
from barnabas.server.coordinators.coordinator_clock import CoordinatorClock
from barnabas.server.coordinators.coordinator_commits import (
    CoordinatorCommits,
    deliver,
    fail_replies,
)
from barnabas.server.coordinators.coordinator_replay import DecodedRecord, replay_log
from barnabas.server.coordinators.coordinator_turns import ProducerBatch, Turn, TurnQueue, Waiter
from barnabas.server.replication.commit_wait import CommitWaits

logger = logging.getLogger(__name__)

# Only tombstones are split over batches; they stay well below any message size.
_SPLIT_RECORDS = 500

Operation = Callable[[Any, int, Token], Decision]
"""An operation of a shard: takes the shard, the time in ms and the token of its reply."""


class Shard(Protocol):
    """The interface that every shard has, beside the operations of its kind."""

    def next_wakeup(self) -> int | None:
        """Return when `tick` has something to do, in ms; None when no timer is scheduled."""
        ...

    def tick(self, now_ms: int) -> Decision | None:
        """Run one timer that is due; return None when there is none."""
        ...

    def loaded(self, now_ms: int) -> None:
        """Begin to serve after replay."""
        ...

    def unload(self, now_ms: int) -> Output:
        """End serving; return the replies of requests that wait."""
        ...


ShardT = TypeVar("ShardT", bound=Shard)


@attrs.frozen
class CoordinatorContext:
    """The objects that the partitions of one coordinator share.

    `resume` calls a partition's `work` until it returns False. `failed` takes a partition that
    unloaded itself, and the error that made it do so.
    """

    replicas: ReplicaManager
    commits: CommitWaits
    clock: CoordinatorClock
    resume: "Callable[[CoordinatorPartition[Any]], None]"
    failed: "Callable[[CoordinatorPartition[Any], Exception], None]"


class CoordinatorPartition(ABC, Generic[ShardT]):
    """A partition that this node coordinates in one leader epoch.

    An error other than a refusal may leave the shard's state wrong. Then the partition unloads
    itself: requests that wait get COORDINATOR_NOT_AVAILABLE, and `context.failed` is called.
    """

    TOPIC: ClassVar[str]
    CONTENT: ClassVar[str]
    """What the topic holds, for log lines."""
    REFUSALS: ClassVar[tuple[type[Exception], ...]] = (KafkaError,)
    """Exceptions that refuse a request; any other one is a failure of the partition."""

    def __init__(
        self,
        context: CoordinatorContext,
        index: int,
        leader_epoch: int,
        shard: ShardT,
        *,
        commit_timeout_ms: int,
        codec: Codec = Codec.NONE,
    ) -> None:
        self.index = index
        self.leader_epoch = leader_epoch
        self.shard = shard
        self.is_loaded = False
        self._is_stopped = False
        # The error of requests while it is not loaded.
        self.unavailable = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._context = context
        self._now_ms = context.clock.now_ms
        self._codec = codec
        self._commits = CoordinatorCommits(context.commits, commit_timeout_ms, self._effects_due)
        self._turns = TurnQueue(self._carry_out_turn, lambda: context.resume(self))
        self._waiters: dict[Waiter, None] = {}
        # Committed effects that go out when the turn in progress ends.
        self._due: list[Any] = []
        self._timer_key = object()
        self._wakeup_ms: int | None = None
        # True while a timer is queued as a turn.
        self._has_timer_turn = False

    # Overridden by the kinds of coordinators

    @abstractmethod
    def decode(self, key: bytes, value: bytes | None) -> DecodedRecord:
        """Decode a record. Raises UnknownRecordTypeError for a type of a newer server."""

    @abstractmethod
    def replay(
        self, key: Message, value: Message | None, *, record_offset: int, producer_id: int
    ) -> None:
        """Apply a record to the shard; `producer_id` is -1 outside transactions."""

    def replay_control(self, record: Record, header: BatchHeader) -> None:
        """Apply a control record to the shard; kinds without use for it ignore it."""

    def carry_out_effects(self, effects: list[Any]) -> None:
        """Carry out effects of the shard whose records are committed."""
        if effects:
            raise TypeError(f"{type(self).__name__} has no effects")

    def started(self) -> None:
        """Called when loading is over."""

    def inherit(self, failed: "CoordinatorPartition[Any]") -> None:
        """Take over what the log does not hold from a partition that failed."""

    def continue_in(self, leader_epoch: int | None) -> bool:
        """Continue in the leader epoch of a new image; False when the partition must be loaded.

        None is an image in which another node leads.
        """
        return False

    # Loading

    def load(self) -> Steps[None]:
        """Replay the partition from its start to its end, then serve.

        Raises KafkaError when the partition is not (yet, or no longer) led here in this epoch.
        """
        replicas = self._context.replicas
        partition = replicas.partition(self.TOPIC, self.index)
        self._check_epoch(partition)
        started_ms = self._now_ms()
        end = 0
        # A partition without records has no log yet.
        if replicas.logs.get(self.TOPIC, self.index) is not None:
            end = yield from replay_log(partition.log, self)
            self._check_epoch(partition)
            if self._is_stopped:
                return
        self._commits.begin(partition, end)
        self.shard.loaded(self._now_ms())
        self.is_loaded = True
        self.started()
        self._schedule_wakeup()
        if end:
            logger.info(
                "loaded %s partition=%d epoch=%d offset=%d ms=%d",
                self.CONTENT,
                self.index,
                self.leader_epoch,
                end,
                self._now_ms() - started_ms,
            )

    def _check_epoch(self, partition: Partition) -> None:
        partition.check_leader()
        if partition.leader_epoch != self.leader_epoch:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{partition!r} is no longer led in epoch {self.leader_epoch}",
            )

    # Decisions

    async def request(self, operation: Operation, producer: ProducerBatch | None = None) -> Any:
        """Run an operation of the shard and wait for its reply; raises what refuses it."""
        waiter = Waiter()
        self.begin(operation, waiter, producer)
        try:
            return await waiter.wait()
        finally:
            self.end(waiter)

    def begin(
        self, operation: Operation, waiter: Waiter, producer: ProducerBatch | None = None
    ) -> None:
        """Run an operation of the shard; `waiter` gets its reply or refusal. Call `end` then."""
        self.submit(lambda: operation(self.shard, self._now_ms(), waiter), waiter, producer)
        if not waiter.is_answered:
            self._waiters[waiter] = None

    def end(self, waiter: Waiter) -> None:
        """Forget a waiter."""
        self._waiters.pop(waiter, None)

    def submit(
        self,
        decide: Callable[[], Decision],
        waiter: Waiter | None = None,
        producer: ProducerBatch | None = None,
    ) -> None:
        """Make a decision and carry it out, at once unless others come first.

        The waiter gets the error that refuses the decision. With a producer the records become part
        of its transaction.
        """
        self._turns.submit(Turn(decide, waiter, producer))

    def work(self) -> bool:
        """Carry out decisions for a slice; return True when there is more to do."""
        return self._turns.work()

    def _carry_out_turn(self, turn: Turn) -> Steps[None]:
        try:
            decision: Decision | None = turn.decide()
            while decision is not None:
                output = decision
                if not isinstance(output, Output):
                    output = yield from output
                decision = yield from self._carry_out(output, turn.producer)
            self._carry_out_due()
            self._schedule_wakeup()
        except Exception as error:
            if turn.waiter is None or not isinstance(error, self.REFUSALS):
                if turn.waiter is not None:
                    turn.waiter.set(_unavailable())
                self.fail(error)
            else:
                turn.waiter.set(error)
                self._schedule_wakeup()

    def _carry_out(self, output: Output, producer: ProducerBatch | None) -> Steps[Decision | None]:
        """Append, replay and answer; return the decision that follows from it."""
        for records in _batches(output):
            steps = self._append(records, producer)
            if producer is None:
                refused = yield from steps
            else:  # without a pause: a marker finds all of its transaction, or none of it
                refused = run_through(steps)
            if refused is not None:
                return self._refuse(output, append_error(refused))
        if output.replies or output.effects or output.records:
            self._commits.send(output.replies, output.effects)
        return None if output.then is None else output.then(self._now_ms())

    def _append(
        self, records: list[CoordinatorRecord], producer: ProducerBatch | None
    ) -> Steps[ErrorCode | None]:
        """Write one batch and replay it; return the error of an append that was refused."""
        stamp_ms = self._context.clock.stamp_ms()
        encoded: list[Record] = []
        for delta, record in enumerate(records):
            key = encode_coordinator_key(record.key)
            value = None
            if record.value is not None:
                value = encode_coordinator_value(record.value, record.version)
            encoded.append(Record(offset=delta, timestamp=stamp_ms, key=key, value=value))
            if self._turns.is_slice_over():
                yield
        producer_id = -1 if producer is None else producer.producer_id
        batch = build_batch(
            encoded,
            codec=self._codec,
            producer_id=producer_id,
            producer_epoch=-1 if producer is None else producer.producer_epoch,
            is_transactional=producer is not None,
        )
        try:
            first_offset = self.append_batch(batch)
        except KafkaError as error:
            return error.code
        for offset, record in enumerate(records, first_offset):
            self.replay(record.key, record.value, record_offset=offset, producer_id=producer_id)
            if self._turns.is_slice_over():
                yield
        return None

    def append_batch(self, batch: bytearray) -> int:
        """Write a batch of the coordinator; return its first offset. Raises KafkaError."""
        partition = self._commits.partition
        if partition is None or partition.leader_epoch != self.leader_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition has moved")
        result = self._context.replicas.append(
            self.TOPIC, self.index, batch, required_acks=-1, origin="coordinator"
        )
        self._commits.wrote(partition, result.last_offset + 1)
        return result.first_offset

    def _refuse(self, output: Output, error: ErrorCode) -> Decision | None:
        logger.warning(
            "cannot append topic=%s partition=%d error=%s", self.TOPIC, self.index, error.name
        )
        if output.refused is not None:
            if output.replies:
                self._commits.send(output.replies, [])
            return output.refused(error, self._now_ms())
        fail_replies(output.replies, error)
        return None

    # Effects

    def _effects_due(self, effects: list[Any]) -> None:
        """Take effects whose records are committed; they go out when the turn in progress ends."""
        self._due += effects
        if not self._turns.is_busy:
            try:
                self._carry_out_due()
            except Exception as error:
                self.fail(error)

    def _carry_out_due(self) -> None:
        while self._due:
            due, self._due = self._due, []
            self.carry_out_effects(due)

    # Time

    def _schedule_wakeup(self) -> None:
        """Schedule `_tick` for the shard's next timer, unless it is scheduled early enough."""
        if self._has_timer_turn or not self.is_loaded:
            return
        wakeup_ms = self.shard.next_wakeup()
        if wakeup_ms is None or (self._wakeup_ms is not None and self._wakeup_ms <= wakeup_ms):
            return
        self._wakeup_ms = wakeup_ms
        self._context.clock.schedule(self._timer_key, wakeup_ms, self._tick)

    def _tick(self) -> None:
        """Run the timers that are due.

        A timer is queued as a turn, so a heartbeat that came before it is decided first.
        """
        self._wakeup_ms = None
        try:
            now_ms = self._now_ms()
            while (
                not self._has_timer_turn
                and self.is_loaded
                and (wakeup_ms := self.shard.next_wakeup()) is not None
                and wakeup_ms <= now_ms
            ):
                self._has_timer_turn = True
                self.submit(self._run_timer)
            self._schedule_wakeup()
        except Exception as error:
            self.fail(error)

    def _run_timer(self) -> Decision:
        self._has_timer_turn = False
        return self.shard.tick(self._now_ms()) or Output()

    # Ending

    def resign(self) -> None:
        """Stop serving because another leader epoch began; requests that wait find the new one.

        A decision in progress comes to an end, but writes nothing.
        """
        try:
            deliver(self.shard.unload(self._now_ms()).replies)
        except Exception:  # its successor replays the log in any case
            logger.exception("unload failed topic=%s partition=%d", self.TOPIC, self.index)
        self._stop(KafkaError(ErrorCode.NOT_COORDINATOR, "another leader epoch has begun"))

    def fail(self, error: Exception) -> None:
        """Stop serving because of an error; without effect after the first."""
        if self._is_stopped:
            logger.warning("failed after unloading topic=%s partition=%d", self.TOPIC, self.index)
            return
        self._stop(_unavailable())
        self._context.failed(self, error)

    def _stop(self, error: KafkaError) -> None:
        self._commits.stop()
        self.is_loaded = False
        self._is_stopped = True
        self._context.clock.cancel(self._timer_key)
        self._due.clear()
        for turn in self._turns.clear():
            if turn.waiter is not None:
                turn.waiter.set(error)
        for waiter in tuple(self._waiters):
            waiter.set(error)


def _unavailable() -> KafkaError:
    return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator failed and reloads")


def _batches(output: Output) -> list[list[CoordinatorRecord]]:
    """Return the output's records in batches: one batch, or several when they may be split."""
    records = output.records
    if not records:
        return []
    if output.atomic:
        return [records]
    return [
        records[start : start + _SPLIT_RECORDS] for start in range(0, len(records), _SPLIT_RECORDS)
    ]
