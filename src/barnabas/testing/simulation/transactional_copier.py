"""Transactional copies in the simulation: consume, produce, commit offsets, end, exactly once.

A copier reads one partition with read_committed and writes each value to the same partition of
another topic. Its offsets are part of the transaction. When anything fails, it begins again with a
new epoch and the committed offsets, as Kafka's `KafkaProducer` users do after `ProducerFenced` or a
fatal error; two copiers with one transactional id fence each other.
"""

from typing import Any, Final

import attrs

from barnabas.coordinator.core.routing import partition_for
from barnabas.coordinator.groups.committed_offsets import FetchGroup
from barnabas.coordinator.transactions.transaction_state import TV_2
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.errors import ErrorCode, KafkaError, error_code
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC
from barnabas.testing.simulation.broker_waits import SimProduce
from barnabas.testing.simulation.coordinator_calls import (
    AddPartitions,
    EndTransaction,
    FetchOffsets,
    Producer,
)
from barnabas.testing.simulation.fatal_errors import FATAL_ERRORS
from barnabas.testing.simulation.read_committed import visible_records
from barnabas.testing.simulation.scripted_client import (
    Script,
    ScriptedClient,
    Send,
    Sleep,
    leader_in,
)
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.sim_partition_log import fetched_bytes

TRANSACTION_TIMEOUT_MS: Final = 10_000
_READ_COMMITTED: Final = 1
_RETRY_MS: Final = 100
_BATCH_MAX: Final = 100
_ATTEMPTS: Final = 5
_LATE_MS: Final = 30_000

FetchTopic = OffsetFetchRequest.OffsetFetchRequestTopics


@attrs.frozen(slots=True, kw_only=True)
class CopyJob:
    """A copy to make: one partition of `source` to the same one of `target`."""

    source: str
    target: str
    partition: int

    @property
    def name(self) -> str:
        """The transactional id, and the id of the group."""
        return f"copy-{self.partition}"


class TransactionalCopier(ScriptedClient):
    """One copier; `version` is its version of transactions (KIP-890)."""

    def __init__(
        self, cluster: SimCluster, number: int, job: CopyJob, version: int, pause_ms: int
    ) -> None:
        super().__init__(cluster, number)
        self._pause_ms = pause_ms
        self._job = job
        self._version = version
        self.committed = 0
        self.errors: dict[str, int] = {}
        self.fatal_errors: list[str] = []
        self._request = ""
        self._excused_until_ms = 0
        self._began_ms = 0

    def script(self) -> Script:
        """Copy until stopped, with a new epoch after each failure."""
        while not self.is_stopped:
            try:
                producer = yield from self._begin()
                offset = yield from self._committed_offset()
                yield from self._copy(producer, offset)
            except KafkaError as error:
                name = error.code.name
                self.errors[name] = self.errors.get(name, 0) + 1
                self._note_failure(error.code)
                yield Sleep(self.random.randrange(20, 4 * _RETRY_MS))

    def _note_failure(self, code: ErrorCode) -> None:
        """Note an error that ends a producer, unless the coordinator may have fenced it.

        A transaction times out, and an InitProducerId without a response may arrive later.
        """
        now_ms = self.process.now_ms
        if self._request == "InitProducerId" and code is ErrorCode.NETWORK_EXCEPTION:
            self._excused_until_ms = now_ms + _LATE_MS
        is_overdue = now_ms - self._began_ms > TRANSACTION_TIMEOUT_MS
        if is_overdue or now_ms < self._excused_until_ms:
            return
        if code in FATAL_ERRORS.get(self._request, ()):
            self.fatal_errors.append(f"{self._request} {code.name} at {now_ms} ms")

    # Steps

    def _begin(self) -> Script:
        request = InitProducerIdRequest(
            transactional_id=self._job.name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        self._request = "InitProducerId"
        response = yield from self.call_coordinator(self._job.name, request)
        _check(response.error_code)
        return Producer(self._job.name, response.producer_id, response.producer_epoch)

    def _committed_offset(self) -> Script:
        job = self._job
        self._request = "OffsetFetch"
        wanted = FetchTopic(name=job.source, partition_indexes=[job.partition])
        group = FetchGroup(group_id=job.name, topics=[wanted])
        fetched = yield from self.call_coordinator(job.name, FetchOffsets(group))
        _check(fetched.error_code)
        found = fetched.topics[0].partitions[0]
        _check(found.error_code)
        return max(found.committed_offset, 0)

    def _copy(self, producer: Producer, offset: int) -> Script:
        sequence = 0
        while not self.is_stopped:
            self._request = "Fetch"
            records, following = yield from self._poll(offset)
            if not records:
                offset = following
                yield Sleep(_RETRY_MS)
                continue
            self._began_ms = self.process.now_ms
            if self._version < TV_2:
                yield from self._add_partitions(producer)
            yield from self._produce(producer, sequence, records)
            yield from self._commit_offset(producer, following)
            producer, is_new = yield from self._end(producer)
            sequence = 0 if is_new else sequence + len(records)
            offset = following
            self.committed += 1
            yield Sleep(self._pause_ms)

    def _poll(self, offset: int) -> Script:
        """Return at most a hundred records from an offset on, and the offset after them."""
        job = self._job
        image = self.image()
        topic = None if image is None else image.topics_by_name.get(job.source)
        leader = -1 if topic is None else topic.partitions[job.partition].leader
        if topic is None or leader < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        wanted = FetchRequest.FetchPartition(
            partition=job.partition, fetch_offset=offset, partition_max_bytes=20_000
        )
        request = FetchRequest(
            replica_state=FetchRequest.ReplicaState(replica_id=-1, replica_epoch=-1),
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=20_000,
            session_epoch=-1,
            isolation_level=_READ_COMMITTED,
            topics=[FetchRequest.FetchTopic(topic_id=topic.id, partitions=[wanted])],
        )
        response = yield Send(leader, request)
        answer = response.responses[0].partitions[0]
        _check(answer.error_code)
        transactions: list[Any] = answer.aborted_transactions or []
        aborted = [(each.producer_id, each.first_offset) for each in transactions]
        found, end = visible_records(fetched_bytes(answer.records), offset, aborted)
        if len(found) > _BATCH_MAX:
            return found[:_BATCH_MAX], found[_BATCH_MAX - 1].offset + 1
        return found, end

    def _add_partitions(self, producer: Producer) -> Script:
        self._request = "AddPartitionsToTxn"
        partitions = (self._job.target, self._job.partition), self._offsets_partition()
        yield from self.call_coordinator(
            producer.transactional_id, AddPartitions(producer, partitions, 0)
        )

    def _offsets_partition(self) -> tuple[str, int]:
        image = self.image()
        topic = None if image is None else image.topics_by_name.get(OFFSETS_TOPIC)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return OFFSETS_TOPIC, partition_for(self._job.name, len(topic.partitions))

    def _produce(self, producer: Producer, sequence: int, records: list[Record]) -> Script:
        job = self._job
        batch = build_batch(
            [Record(delta, 0, None, record.value) for delta, record in enumerate(records)],
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        self._request = "Produce"
        adds = self._version >= TV_2
        request = SimProduce(job.target, job.partition, bytes(batch), -1, 5_000, job.name, adds)
        for _ in range(_ATTEMPTS):
            response = yield Send(self._leader(job.target, job.partition), request)
            if response.error not in _RETRIABLE:
                _check(response.error)
                return
            yield Sleep(_RETRY_MS)  # the same sequence again
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)

    def _commit_offset(self, producer: Producer, offset: int) -> Script:
        self._request = "TxnOffsetCommit"
        job, request = self._job, TxnOffsetCommitRequest
        partition = request.TxnOffsetCommitRequestPartition(
            partition_index=job.partition, committed_offset=offset
        )
        topic = request.TxnOffsetCommitRequestTopic(name=job.source, partitions=[partition])
        response = yield from self.call_coordinator(
            job.name,
            request(
                transactional_id=job.name,
                group_id=job.name,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                topics=[topic],
            ),
        )
        for answered in response.topics:
            for each in answered.partitions:
                _check(each.error_code)

    def _end(self, producer: Producer) -> Script:
        """Commit, or abort and fail; return the producer of the next transaction."""
        self._request = "EndTxn"
        is_commit = self.random.random() < 0.9
        request = EndTxnRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=is_commit,
        )
        response = yield from self.call_coordinator(
            producer.transactional_id, EndTransaction(request, self._version)
        )
        _check(response.error_code)
        if not is_commit:
            raise KafkaError(ErrorCode.TRANSACTION_ABORTABLE, "aborted by choice")
        if self._version < TV_2:
            return producer, False
        return Producer(producer[0], response.producer_id, response.producer_epoch), True

    def _leader(self, topic: str, number: int) -> int:
        return leader_in(self.image(), topic, number)


_RETRIABLE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


def _check(code: int) -> None:
    """Raise KafkaError for an error code."""
    if code:
        raise KafkaError(error_code(code))
