"""One led partition of `__consumer_offsets`: its shard, its log, and who waits for what.

Outputs of the shard are appended and replayed in one go, without giving up the loop, so the next
decision sees them; replies go out when the high watermark has passed what was appended before
them. On a single node that is at once.
"""

import logging
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any

import attrs
import trio

from barnabas.cluster.replication import Partition, ReplicaManager
from barnabas.coordinator.output import Output, Reply, append_error
from barnabas.coordinator.output import Record as CoordinatorRecord
from barnabas.coordinator.shard import GroupShard
from barnabas.log import PartitionLog
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.records.batch import (
    BatchHeader,
    CorruptBatch,
    Record,
    build_batch,
    iter_batches,
    read_records,
)
from barnabas.protocol.records.compression import Codec
from barnabas.protocol.records.coordinator import (
    UnknownRecordTypeError,
    encode_coordinator_key,
    encode_coordinator_value,
)
from barnabas.protocol.records.groups import decode_group_record
from barnabas.server.internal_topics import OFFSETS_TOPIC

logger = logging.getLogger(__name__)


# A loading coordinator lets the loop go after this many records.
_RECORDS_IN_A_SLICE = 500
_READ_BYTES = 1 << 20
# What may be split over batches are tombstones: this many stay well below any message size.
_SPLIT_RECORDS = 500

# A control record's key: its version and type.
_CONTROL_KEY = Struct(">hh")
_COMMIT_MARKER = 1


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
class _Held:
    """Replies that wait until the high watermark reaches `offset`."""

    offset: int
    deadline_ms: int
    replies: list[Reply]


class GroupPartition:
    """A partition that this node coordinates, from its election to its resignation.

    `now_ms` is the coordinator's clock. `stamp_ms` is the wall clock of the records' timestamps.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        index: int,
        shard: GroupShard,
        *,
        now_ms: Callable[[], int],
        stamp_ms: Callable[[], int],
        commit_timeout_ms: int,
        codec: Codec,
    ) -> None:
        self.index = index
        self.shard = shard
        self.is_loaded = False
        # Topics deleted while loading, whose offsets go once that is done.
        self.deleted_topics: dict[str, Any] = {}
        self._replicas = replicas
        self._now_ms = now_ms
        self._stamp_ms = stamp_ms
        self._commit_timeout_ms = commit_timeout_ms
        self._codec = codec
        self._partition: Partition | None = None
        # The end of what this coordinator wrote or read, and up to where it is known committed.
        self._written = 0
        self._committed = 0
        self._held: deque[_Held] = deque()

    # Loading

    async def load(self) -> None:
        """Replay the partition from its start to its end, then serve.

        Raises KafkaError where the partition is not (yet, or any more) led here.
        """
        partition = self._replicas.partition(OFFSETS_TOPIC, self.index)
        started_ms = self._now_ms()
        # A partition that was never written to has no log yet, and needs none until it is.
        if self._replicas.logs.get(OFFSETS_TOPIC, self.index) is not None:
            self._written = await self._replay(partition.log)
            self._committed = partition.high_watermark
        self._partition = partition
        self.shard.loaded(self._now_ms())
        self.is_loaded = True
        self.forget_topics({})
        if self._written:
            elapsed_ms = self._now_ms() - started_ms
            logger.info(
                "loaded groups partition=%d offset=%d ms=%d",
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
                _, marker = _CONTROL_KEY.unpack_from(record.key)
                self.shard.end_transaction(header.producer_id, commit=marker == _COMMIT_MARKER)
                continue
            try:
                key, value = decode_group_record(record.key, record.value)
            except UnknownRecordTypeError as error:
                logger.warning(
                    "ignored partition=%d offset=%d: %s", self.index, record.offset, error
                )
                continue
            self.shard.replay(key, value, record_offset=record.offset, producer_id=producer_id)
        return len(records)

    # Carrying out decisions

    def carry_out(self, output: Output) -> None:
        """Append, replay, answer, and go on with what follows from it."""
        following: Output | None = output
        while following is not None:
            following = self._carry_out(following)

    def _carry_out(self, output: Output) -> Output | None:
        try:
            for records in _batches(output):
                self._append(records)
        except KafkaError as error:
            return self._refuse(output, append_error(error.code))
        if output.replies:
            self._send(output.replies)
        return None if output.then is None else output.then(self._now_ms())

    def _append(self, records: list[CoordinatorRecord]) -> None:
        """Writes one batch and replays it; raises the append's KafkaError, with nothing done."""
        if self._partition is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition has moved")
        stamp_ms = self._stamp_ms()
        batch = build_batch(
            [
                Record(
                    offset=delta,
                    timestamp=stamp_ms,
                    key=encode_coordinator_key(record.key),
                    value=None
                    if record.value is None
                    else encode_coordinator_value(record.value, record.version),
                )
                for delta, record in enumerate(records)
            ],
            codec=self._codec,
        )
        result = self._replicas.append(
            OFFSETS_TOPIC, self.index, batch, required_acks=-1, origin="coordinator"
        )
        for offset, record in enumerate(records, result.first_offset):
            self.shard.replay(record.key, record.value, record_offset=offset)
        self._written = result.last_offset + 1

    def _refuse(self, output: Output, error: ErrorCode) -> Output | None:
        logger.warning("append refused partition=%d error=%s", self.index, error.name)
        if output.refused is not None:
            if output.replies:
                self._send(output.replies)
            return output.refused(error, self._now_ms())
        fail(output.replies, error)
        return None

    def _send(self, replies: list[Reply]) -> None:
        partition = self._partition
        if self._committed < self._written and partition is not None:
            self._committed = partition.high_watermark
        if self._committed >= self._written or partition is None:
            deliver(replies)
            return
        partition.listeners.add(self)
        deadline_ms = self._now_ms() + self._commit_timeout_ms
        self._held.append(_Held(self._written, deadline_ms, replies))

    def partition_changed(self, partition: Partition) -> None:
        """Replies go out as far as the high watermark has come."""
        while self._held and self._held[0].offset <= partition.high_watermark:
            deliver(self._held.popleft().replies)
        if not self._held:
            partition.listeners.discard(self)

    # Time and ending

    def next_wakeup(self) -> int | None:
        """When `tick` has something to do, in milliseconds of the coordinator's clock."""
        wakeup_ms = self.shard.next_wakeup()
        if self._held:
            deadline_ms = self._held[0].deadline_ms
            return deadline_ms if wakeup_ms is None else min(wakeup_ms, deadline_ms)
        return wakeup_ms

    def tick(self) -> None:
        """Run the timers that are due; what was not committed in time is answered as such."""
        now_ms = self._now_ms()
        while (output := self.shard.tick(now_ms)) is not None:
            self.carry_out(output)
        while self._held and self._held[0].deadline_ms <= now_ms:
            fail(self._held.popleft().replies, append_error(ErrorCode.REQUEST_TIMED_OUT))

    def forget_topics(self, deleted: dict[str, Any]) -> None:
        """Remove the offsets of deleted topics (names with ids), after loading if need be."""
        self.deleted_topics |= deleted
        if self.is_loaded and self.deleted_topics:
            topics, self.deleted_topics = self.deleted_topics, {}
            self.carry_out(self.shard.topics_deleted(topics))

    def resign(self) -> None:
        """Another node leads: whoever waits is told so."""
        if self._partition is not None:
            self._partition.listeners.discard(self)
            self._partition = None
        self.is_loaded = False
        for held in self._held:
            fail(held.replies, ErrorCode.NOT_COORDINATOR)
        self._held.clear()
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
