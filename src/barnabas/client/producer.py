"""An idempotent producer with acks=all: a record is written once, however often it is sent.

One batch per partition is in flight; sends that come meanwhile share the next batch. A partition's
sender task lives as long as there is something to send.
"""

import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs
import trio

from barnabas.client.core.metadata_cache import LeaderHint, PartitionLeader
from barnabas.client.core.producer_sequences import (
    BatchIdentity,
    PartitionSequence,
    Verdict,
    decide,
    may_append,
)
from barnabas.client.failures import (
    Address,
    ClientError,
    ConnectionFailureError,
    DeliveryError,
    raise_for,
)
from barnabas.client.kafka_client import KafkaClient, is_retriable
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.errors import ErrorCode, KafkaError, error_code
from barnabas.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from barnabas.protocol.batches.compression import Codec

PartitionResponse = ProduceResponse.PartitionProduceResponse

UNKNOWN_OFFSET: Final = -1
"""The offset of records that the broker reports as long since appended."""

_ACKS_ALL: Final = -1
_NAMED_VERSION_MAX: Final = 12
_NO_TRANSACTION_TIMEOUT: Final = 0x7FFF_FFFF
_RECORD_OVERHEAD: Final = 32


@attrs.frozen
class NewRecord:
    """A record to write. Without a timestamp (ms since the epoch) it gets the time of the send."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None

    @property
    def size(self) -> int:
        """Roughly the bytes that it takes in a batch."""
        content = len(self.key or b"") + len(self.value or b"")
        headers = sum(len(name) + len(value or b"") + 4 for name, value in self.headers)
        return _RECORD_OVERHEAD + content + headers


class _Send:
    """One call of `Producer.send`, waiting for its offset."""

    def __init__(self, records: Sequence[NewRecord], deadline: float) -> None:
        self.records = records
        self.size = sum(record.size for record in records)
        self.deadline = deadline
        self.settled = trio.Event()
        self.offset = UNKNOWN_OFFSET
        self.error: Exception | None = None

    def fail(self, error: Exception) -> None:
        self.error = error
        self.settled.set()

    def succeed(self, offset: int) -> None:
        self.offset = offset
        self.settled.set()


class Producer:
    """Writes records to partitions of one cluster; ends with its client."""

    def __init__(self, client: KafkaClient) -> None:
        self._client = client
        self._senders: dict[tuple[str, int], _PartitionSender] = {}

    async def send(self, topic: str, partition: int, records: Sequence[NewRecord]) -> int:
        """Write records and return the offset of the first one, once all in-sync replicas have it.

        The records of one call are in one batch. The offset is `UNKNOWN_OFFSET` in the
        rare case that the broker recognizes a duplicate that is too old to have an offset.

        Raises KafkaError when the broker refuses the records; they are not written then. Raises
        DeliveryError when they are not acknowledged within `delivery.timeout.ms`; its
        `maybe_appended` is True when they may be written nevertheless. A cancelled call may still
        write.
        """
        if not records:
            raise ValueError("nothing to send")
        key = topic, partition
        sender = self._senders.get(key)
        if sender is None:
            sender = self._senders[key] = _PartitionSender(self._client, topic, partition)
        deadline = trio.current_time() + self._client.config.delivery_timeout_s
        send = _Send(records, deadline)
        sender.add(send)
        await send.settled.wait()
        if send.error is not None:
            raise send.error
        return send.offset


class _Batch:
    """Sends that travel together, and the state of their delivery."""

    def __init__(self, sends: list[_Send]) -> None:
        now_ms = time.time_ns() // 1_000_000
        self.sends = sends
        self.is_in_doubt = False
        """True when an earlier attempt may have been appended."""
        self.is_on_its_way = False
        """True while an attempt may be with the broker."""
        self.last_error: Exception | None = None
        self._records = [
            Record(
                offset=index,
                timestamp=now_ms if record.timestamp is None else record.timestamp,
                key=record.key,
                value=record.value,
                headers=record.headers,
            )
            for index, record in enumerate(record for send in sends for record in send.records)
        ]
        self._identity: BatchIdentity | None = None
        self._data = bytearray()

    @property
    def maybe_appended(self) -> bool:
        """True when the batch may be in the log."""
        return self.is_in_doubt or self.is_on_its_way

    def attempt_ended(self, *, maybe_appended: bool) -> None:
        """Note what the end of an attempt says of the log."""
        self.is_on_its_way = False
        self.is_in_doubt = self.is_in_doubt or maybe_appended

    @property
    def record_count(self) -> int:
        """The records of all its sends."""
        return len(self._records)

    @property
    def deadline(self) -> float:
        """When its oldest send has waited long enough."""
        return min(send.deadline for send in self.sends)

    def encoded(self, identity: BatchIdentity, codec: "Codec") -> bytearray:
        """Return the batch's bytes; those of a retry are the same."""
        if identity != self._identity:
            self._data = build_batch(
                self._records,
                codec=codec,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                base_sequence=identity.base_sequence,
            )
            self._identity = identity
        return self._data

    def succeed(self, base_offset: int) -> None:
        """Return its offset to every send."""
        offset = base_offset
        for send in self.sends:
            send.succeed(offset if base_offset >= 0 else UNKNOWN_OFFSET)
            offset += len(send.records)

    def fail(self, error: Exception) -> None:
        """Fail every send."""
        for send in self.sends:
            send.fail(error)


class _PartitionSender:
    """The queue of one partition and the task that empties it."""

    def __init__(self, client: KafkaClient, topic: str, partition: int) -> None:
        self._client = client
        self._topic = topic
        self._partition = partition
        self._where = f"{topic}-{partition}"
        self._queue: deque[_Send] = deque()
        self._is_running = False
        self._sequence = PartitionSequence(-1, -1)
        self._codec = _codec(client.config.compression)

    def add(self, send: _Send) -> None:
        """Queue a send, and start the task unless it runs."""
        self._queue.append(send)
        if not self._is_running:
            self._is_running = True
            self._client.nursery.start_soon(self._run)

    async def _run(self) -> None:
        batch: _Batch | None = None
        try:
            while self._queue:
                batch = self._next_batch()
                await self._deliver(batch)
                batch = None
        finally:
            self._is_running = False
            closed = ClientError("the client was closed")
            for send in (*(batch.sends if batch is not None else ()), *self._queue):
                send.fail(closed)
            self._queue.clear()

    def _next_batch(self) -> _Batch:
        """Take sends off the queue up to `batch.size` bytes, one at least."""
        sends = [self._queue.popleft()]
        size = sends[0].size
        while self._queue and size + self._queue[0].size <= self._client.config.batch_size:
            sends.append(self._queue.popleft())
            size += sends[-1].size
        return _Batch(sends)

    async def _deliver(self, batch: _Batch) -> None:
        """Send a batch until its fate is known or its time is over."""
        failures = 0
        with trio.move_on_at(batch.deadline):
            while not await self._attempt(batch):
                failures += 1
                what = f"producing to {self._where}"
                await self._client.back_off(what, failures, batch.last_error)
            return
        self._give_up(batch, batch.last_error)

    async def _attempt(self, batch: _Batch) -> bool:
        """Send a batch once; True when it is settled, well or badly."""
        try:
            if self._sequence.needs_new_id:
                await self._new_producer_id()
            answer, hint = await self._send(batch)
        except (ClientError, KafkaError, ValueError) as error:
            if isinstance(error, KafkaError | ConnectionFailureError) and is_retriable(error):
                batch.last_error = error
                return False
            self._give_up(batch, error, is_final=True)
            return True
        return self._settle(batch, answer, hint)

    def _give_up(self, batch: _Batch, error: Exception | None, *, is_final: bool = False) -> None:
        """Fail a batch; its sequence is not used again if the batch may be in the log."""
        if batch.maybe_appended and not self._sequence.needs_new_id:
            self._sequence.start_epoch()
        if error is not None and is_final and not batch.maybe_appended:
            batch.fail(error)
        else:
            batch.fail(DeliveryError(self._where, error, maybe_appended=batch.maybe_appended))

    async def _new_producer_id(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT
        )
        response = await self._client.ask_any(request, InitProducerIdResponse)
        raise_for(response.error_code, about=f"a producer id for {self._where}")
        self._sequence.use_new_id(response.producer_id, response.producer_epoch)

    async def _send(self, batch: _Batch) -> tuple[PartitionResponse, LeaderHint]:
        """Return the leader's answer. Raises KafkaError when the leader is unknown."""

        def build(leader: PartitionLeader) -> ProduceRequest:
            data = batch.encoded(self._sequence.identity(), self._codec)
            batch.is_on_its_way = True
            return self._request(leader, data)

        try:
            response = await self._client.ask_leader(
                self._topic,
                self._partition,
                build,
                ProduceResponse,
                max_named_version=_NAMED_VERSION_MAX,
            )
        except ConnectionFailureError as error:
            batch.attempt_ended(maybe_appended=error.sent)
            raise
        for topic in response.responses:
            for answer in topic.partition_responses:
                return answer, _leader_hint(response, answer)
        batch.attempt_ended(maybe_appended=True)
        raise ClientError(f"a produce response without {self._where}")

    def _request(self, leader: PartitionLeader, data: bytearray) -> ProduceRequest:
        partition = ProduceRequest.PartitionProduceData(index=self._partition, records=data)
        topic = ProduceRequest.TopicProduceData(
            name=self._topic, topic_id=leader.topic_id, partition_data=[partition]
        )
        timeout_ms = round(self._client.config.request_timeout_s * 1000)
        return ProduceRequest(acks=_ACKS_ALL, timeout_ms=timeout_ms, topic_data=[topic])

    def _settle(self, batch: _Batch, answer: PartitionResponse, hint: LeaderHint) -> bool:
        """Act on the leader's answer; True when the batch is settled."""
        code = error_code(answer.error_code)
        verdict = decide(code, maybe_appended=batch.is_in_doubt)
        if verdict is Verdict.ACKED:
            self._sequence.acked(batch.record_count)
            batch.succeed(answer.base_offset if code is ErrorCode.NONE else UNKNOWN_OFFSET)
            return True
        error = KafkaError(code, answer.error_message or self._where)
        batch.last_error = error
        doubtful = verdict is Verdict.UNKNOWN or (verdict is Verdict.RETRY and may_append(code))
        batch.attempt_ended(maybe_appended=doubtful)
        if verdict is Verdict.RETRY:
            self._client.leader_failed(code, self._topic, self._partition, hint)
        elif verdict is Verdict.RETRY_NEW_EPOCH:
            self._sequence.start_epoch()
        elif verdict is Verdict.RETRY_NEW_ID:
            self._sequence.drop_id()
        else:
            self._give_up(batch, error, is_final=True)
            return True
        return False


def _leader_hint(response: ProduceResponse, answer: PartitionResponse) -> LeaderHint:
    leader = answer.current_leader
    addresses = {item.node_id: Address(item.host, item.port) for item in response.node_endpoints}
    return LeaderHint(leader.leader_id, leader.leader_epoch, addresses.get(leader.leader_id))


def _codec(name: str) -> "Codec":
    from barnabas.protocol.batches.compression import Codec

    return Codec[name.upper()]
