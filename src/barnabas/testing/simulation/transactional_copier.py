"""Transactional copies in the simulation: consume, produce, commit offsets, end, exactly once.

A copier reads one partition with read_committed and writes each value to the same partition of
another topic. Its offsets are part of the transaction. When anything fails, it begins again with a
new epoch and the committed offsets, as Kafka's `KafkaProducer` users do after `ProducerFenced` or a
fatal error; two copiers with one transactional id fence each other.
"""

from typing import Any, Final, NamedTuple

import attrs

from barnabas.coordinator.transactions.transaction_state import TV_2
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from barnabas.testing.simulation.data_clients import produce_request, produced
from barnabas.testing.simulation.fatal_errors import FATAL_ERRORS
from barnabas.testing.simulation.read_committed import visible_records
from barnabas.testing.simulation.scripted_client import (
    Script,
    ScriptedClient,
    Send,
    Sleep,
    leader_in,
    raise_error,
)
from barnabas.testing.simulation.sim_cluster import SimCluster

TRANSACTION_TIMEOUT_MS: Final = 10_000
_READ_COMMITTED: Final = 1
_RETRY_MS: Final = 100
_BATCH_MAX: Final = 100
_ATTEMPTS: Final = 5
_LATE_MS: Final = 30_000
_PRODUCE_V1, _TXN_OFFSET_COMMIT_V1, _END_TXN_V1 = 11, 4, 4
"""The highest versions of a producer with the first version of transactions."""
_ADD_PARTITIONS_OF_CLIENTS: Final = 3
"""Later versions of AddPartitionsToTxn are for brokers."""


class Producer(NamedTuple):
    """A transactional producer in one epoch."""

    transactional_id: str
    id: int
    epoch: int


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
        raise_error(response.error_code)
        return Producer(self._job.name, response.producer_id, response.producer_epoch)

    def _committed_offset(self) -> Script:
        job = self._job
        self._request = "OffsetFetch"
        source = self.known_topic(job.source)
        wanted = OffsetFetchRequest.OffsetFetchRequestTopics(
            name=source.name, topic_id=source.id, partition_indexes=[job.partition]
        )
        group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=job.name, topics=[wanted])
        response = yield from self.call_coordinator(
            job.name, OffsetFetchRequest(groups=[group], require_stable=True)
        )
        fetched = response.groups[0]
        raise_error(fetched.error_code)
        found = fetched.topics[0].partitions[0]
        raise_error(found.error_code)
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
        topic = self.known_topic(job.source)
        leader = topic.partitions[job.partition].leader
        if leader < 0:
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
        raise_error(response.error_code)
        answer = response.responses[0].partitions[0]
        raise_error(answer.error_code)
        transactions: list[Any] = answer.aborted_transactions or []
        aborted = [(each.producer_id, each.first_offset) for each in transactions]
        found, end = visible_records(bytes(answer.records or b""), offset, aborted)
        if len(found) > _BATCH_MAX:
            return found[:_BATCH_MAX], found[_BATCH_MAX - 1].offset + 1
        return found, end

    def _add_partitions(self, producer: Producer) -> Script:
        """Add what the transaction writes, as a producer of the first version does."""
        job, request = self._job, AddPartitionsToTxnRequest
        self._request = "AddPartitionsToTxn"
        topic = request.AddPartitionsToTxnTopic(name=job.target, partitions=[job.partition])
        response = yield from self.call_coordinator(
            producer.transactional_id,
            request(
                v3_and_below_transactional_id=producer.transactional_id,
                v3_and_below_producer_id=producer.id,
                v3_and_below_producer_epoch=producer.epoch,
                v3_and_below_topics=[topic],
            ),
            _ADD_PARTITIONS_OF_CLIENTS,
        )
        for answered in response.results_by_topic_v3_and_below:
            for each in answered.results_by_partition:
                raise_error(each.partition_error_code)
        self._request = "AddOffsetsToTxn"
        response = yield from self.call_coordinator(
            producer.transactional_id,
            AddOffsetsToTxnRequest(
                transactional_id=producer.transactional_id,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                group_id=job.name,
            ),
        )
        raise_error(response.error_code)

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
        for _ in range(_ATTEMPTS):
            request = produce_request(
                self.known_topic(job.target), job.partition, bytes(batch), transactional_id=job.name
            )
            leader = self._leader(job.target, job.partition)
            response = yield Send(leader, request, self._version_max(_PRODUCE_V1))
            code = produced(response).error_code
            if code not in _RETRIABLE:
                raise_error(code)
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
            self._version_max(_TXN_OFFSET_COMMIT_V1),
        )
        for answered in response.topics:
            for each in answered.partitions:
                raise_error(each.error_code)

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
            producer.transactional_id, request, self._version_max(_END_TXN_V1)
        )
        raise_error(response.error_code)
        if not is_commit:
            raise KafkaError(ErrorCode.TRANSACTION_ABORTABLE, "aborted by choice")
        if self._version < TV_2:
            return producer, False
        return Producer(producer[0], response.producer_id, response.producer_epoch), True

    def _version_max(self, first: int) -> int | None:
        """Return the highest version to send: `first` is that of the first version."""
        return None if self._version >= TV_2 else first

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
