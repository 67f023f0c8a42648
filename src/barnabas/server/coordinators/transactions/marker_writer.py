"""Writing the markers that end transactions in the partitions that this node leads.

A coordinator sends WriteTxnMarkers to the leaders of the partitions. A request to this node itself
does not travel; `MarkerDestination` is the interface of both ways.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from barnabas import tasks
from barnabas.clock import Clock
from barnabas.cluster.replication import Partition, ReplicaManager
from barnabas.protocol.batches.control_batches import TransactionMarker, marker_batch
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC
from barnabas.server.replication.commit_wait import Appended, CommitWaits

if TYPE_CHECKING:
    from barnabas.server.coordinators.group_service import GroupCoordinator
    from barnabas.server.coordinators.transactions.verification_guards import Guards

Marker = WriteTxnMarkersRequest.WritableTxnMarker
MarkerResult = WriteTxnMarkersResponse.WritableTxnMarkerResult
TopicResult = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
PartitionResult = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult

Done = Callable[[WriteTxnMarkersResponse], None]
AppendedMarkers = list[Appended[PartitionResult]]
"""The answers for markers that were appended."""

_TV_2 = 2


class MarkerDestination(Protocol):
    """A broker that writes markers."""

    def write(self, request: WriteTxnMarkersRequest, done: Done) -> None:
        """Call `done` with the response, at once or when the markers are committed."""
        ...


class LocalMarkers:
    """Writes markers to the partitions that this node leads."""

    def __init__(
        self,
        replicas: ReplicaManager,
        groups: "GroupCoordinator",
        guards: "Guards",
        commits: CommitWaits,
        clock: Clock,
        *,
        timeout_ms: int,
    ) -> None:
        self._replicas = replicas
        self._groups = groups
        self._guards = guards
        self._commits = commits
        self._clock = clock
        self._timeout_ms = timeout_ms

    def write(self, request: WriteTxnMarkersRequest, done: Done) -> None:
        """Append all markers; done when they are committed, or the time is up."""
        appended: AppendedMarkers = []
        response = WriteTxnMarkersResponse(
            markers=[
                MarkerResult(
                    producer_id=marker.producer_id, topics=self._write_marker(marker, appended)
                )
                for marker in request.markers
            ]
        )
        self._commits.wait(appended, _settle, lambda: done(response), timeout_ms=self._timeout_ms)

    def _write_marker(self, marker: Marker, appended: AppendedMarkers) -> list[TopicResult]:
        results: list[TopicResult] = []
        for topic in marker.topics:
            result = TopicResult(name=topic.name)
            for number in topic.partition_indexes:
                answer = PartitionResult(partition_index=number)
                try:
                    partition, offset = self._append(marker, topic.name, number)
                except KafkaError as error:
                    answer.error_code = error.code
                else:
                    state = partition.leader_state
                    appended.append(Appended(answer, partition, offset, state))
                result.partitions.append(answer)
            results.append(result)
        return results

    def _append(self, marker: Marker, topic: str, number: int) -> tuple[Partition, int]:
        """Write one marker; return its partition and offset. Raises KafkaError."""
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            # Not INVALID_REQUEST: on a code that it does not expect, Apache Kafka's coordinator
            # throws. This one it takes as final.
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH, "a marker needs a producer id and epoch"
            )
        partition = self._replicas.partition(topic, number)
        if partition.is_mirror:
            # The source's markers end the transactions in it, and this one has no offset there.
            partition.check_leader()
            return partition, partition.high_watermark - 1
        _check_epoch(marker, partition)
        now_ms = self._clock.wall_ms()
        ending = TransactionMarker(bool(marker.transaction_result), marker.coordinator_epoch)
        batch = marker_batch(ending, marker.producer_id, marker.producer_epoch, now_ms)
        self._guards.transaction_ended(topic, number, marker.producer_id)
        if topic != OFFSETS_TOPIC:
            info = partition.append(batch, required_acks=-1, origin="coordinator", now_ms=now_ms)
            return partition, info.last_offset
        groups = self._groups.partitions.get(number)
        if groups is None or not groups.is_loaded:
            # A coordinator retries this code. On COORDINATOR_LOAD_IN_PROGRESS Apache Kafka's
            # coordinator throws.
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the groups are not loaded")
        offset = groups.append_batch(batch)
        groups.end_transaction(marker.producer_id, commit=marker.transaction_result)
        return partition, offset


def _settle(answer: PartitionResult, outcome: ErrorCode) -> None:
    answer.error_code = outcome


def _check_epoch(marker: Marker, partition: Partition) -> None:
    """Refuse a marker of the second version whose epoch is not above that of its records.

    A marker that was delayed can therefore not end the next transaction (KAFKA-19446). A marker
    whose transaction is over may be written again.
    """
    if marker.transaction_version < _TV_2:
        return
    entry = partition.log.producers.find(marker.producer_id)
    if entry is None or marker.producer_epoch > entry.epoch:
        return
    if marker.producer_epoch < entry.epoch or entry.txn_first_offset >= 0:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"the marker's epoch {marker.producer_epoch} is not above {entry.epoch}, in which "
            f"producer {marker.producer_id} has written",
        )


async def write_and_wait(
    destination: MarkerDestination, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """Write markers and wait for the response."""
    event = tasks.event()
    responses: list[WriteTxnMarkersResponse] = []

    def done(response: WriteTxnMarkersResponse) -> None:
        responses.append(response)
        event.set()

    destination.write(request, done)
    if not responses:
        await event.wait()
    return responses[0]
