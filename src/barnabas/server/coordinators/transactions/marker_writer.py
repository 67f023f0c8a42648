"""Writing the markers that end transactions in the partitions that this node leads.

A coordinator sends WriteTxnMarkers to the leaders; where that is this node itself, the request
does not travel. `MarkerDestination` is what both ways have in common.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

import trio

from barnabas.cluster.replication import Partition
from barnabas.protocol.batches.control_batches import TransactionMarker, marker_batch
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC
from barnabas.server.replication.request_deadlines import Deadline, Expiry

if TYPE_CHECKING:
    from barnabas.server.node.node import Node

Marker = WriteTxnMarkersRequest.WritableTxnMarker
MarkerResult = WriteTxnMarkersResponse.WritableTxnMarkerResult
TopicResult = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
PartitionResult = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult

Done = Callable[[WriteTxnMarkersResponse], None]
Unsynced = dict[Partition, list[PartitionResult]]
"""Partitions that have to be on the disk before these answers hold."""

_TV_2 = 2


class MarkerDestination(Protocol):
    """A broker that writes markers."""

    def write(self, request: WriteTxnMarkersRequest, done: Done) -> None:
        """Call `done` with the response, at once or when the markers are replicated."""
        ...


class LocalMarkers:
    """The partitions that this node leads."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._timeout_s = node.config.get_int("request.timeout.ms") / 1000

    def write(self, request: WriteTxnMarkersRequest, done: Done) -> None:
        """Append all markers; done when every in-sync replica has them, or time is up.

        Where flush.messages wants them on the disk, that too.
        """
        appended: list[tuple[PartitionResult, Partition, int]] = []
        unsynced: Unsynced = {}
        response = WriteTxnMarkersResponse(
            markers=[
                MarkerResult(
                    producer_id=marker.producer_id,
                    topics=self._write_marker(marker, appended, unsynced),
                )
                for marker in request.markers
            ]
        )
        if unsynced:
            done = partial(self._sync, unsynced, done)
        if appended:
            _Replicating(response, appended, done, self._timeout_s)
        else:
            done(response)

    def _sync(self, unsynced: Unsynced, done: Done, response: WriteTxnMarkersResponse) -> None:
        self._node.transport.start_soon(partial(self._synced, unsynced, done, response))

    async def _synced(
        self, unsynced: Unsynced, done: Done, response: WriteTxnMarkersResponse
    ) -> None:
        for partition, answers in unsynced.items():
            if not await self._node.disk.flush(partition):
                for answer in answers:
                    answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        done(response)

    def _write_marker(
        self,
        marker: Marker,
        appended: list[tuple[PartitionResult, Partition, int]],
        unsynced: Unsynced,
    ) -> list[TopicResult]:
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
                    if partition.log.high_watermark <= offset:
                        appended.append((answer, partition, offset))
                    if partition.flush_due:
                        unsynced.setdefault(partition, []).append(answer)
                result.partitions.append(answer)
            results.append(result)
        return results

    def _append(self, marker: Marker, topic: str, number: int) -> tuple[Partition, int]:
        """Write one marker; its partition and offset. KafkaError."""
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a marker needs a producer id and epoch")
        node = self._node
        partition = node.replicas.partition(topic, number)
        _check_epoch(marker, partition)
        batch = _control_batch(marker, node.now_ms())
        node.transactions.guards.transaction_ended(topic, number, marker.producer_id)
        if topic != OFFSETS_TOPIC:
            info = partition.append(
                batch, required_acks=-1, origin="coordinator", now_ms=node.now_ms()
            )
            return partition, info.last_offset
        groups = node.groups.led.get(number)
        if groups is None or not groups.is_loaded:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the groups are loading")
        offset = groups.append_batch(batch)
        groups.end_transaction(marker.producer_id, commit=marker.transaction_result)
        return partition, offset


def _check_epoch(marker: Marker, partition: Partition) -> None:
    """In the second version a marker's epoch is above that of the records it ends (KAFKA-19446).

    So a marker that was delayed cannot end the transaction after it. One that was written
    already, whose transaction is over, may be written again.
    """
    if marker.transaction_version < _TV_2:
        return
    entry = partition.log.producers.producers.get(marker.producer_id)
    if entry is None or marker.producer_epoch > entry.epoch:
        return
    if marker.producer_epoch < entry.epoch or entry.txn_first_offset >= 0:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"the marker's epoch {marker.producer_epoch} is not above {entry.epoch}, which "
            f"producer {marker.producer_id} has written in",
        )


def _control_batch(marker: Marker, now_ms: int) -> bytearray:
    ending = TransactionMarker(bool(marker.transaction_result), marker.coordinator_epoch)
    return marker_batch(ending, marker.producer_id, marker.producer_epoch, now_ms)


class _Replicating:
    """Markers that are appended and not yet committed."""

    def __init__(
        self,
        response: WriteTxnMarkersResponse,
        appended: list[tuple[PartitionResult, Partition, int]],
        done: Done,
        timeout_s: float,
    ) -> None:
        self._response = response
        self._done = done
        self._waiting: dict[Partition, list[tuple[PartitionResult, int]]] = {}
        for answer, partition, offset in appended:
            self._waiting.setdefault(partition, []).append((answer, offset))
            partition.listeners.add(self)
        self._deadline: Deadline = Expiry.current().after(timeout_s, self._expired)

    def partition_changed(self, partition: Partition) -> None:
        """A high watermark rose, or leadership went."""
        left: list[tuple[PartitionResult, int]] = []
        for answer, offset in self._waiting.pop(partition, ()):
            outcome = partition.acks_outcome(offset)
            if outcome is None:
                left.append((answer, offset))
            else:
                answer.error_code = outcome
        if left:
            self._waiting[partition] = left
            return
        partition.listeners.discard(self)
        if not self._waiting:
            self._deadline.cancel()
            self._done(self._response)

    def _expired(self) -> None:
        for partition, waiting in self._waiting.items():
            partition.listeners.discard(self)
            for answer, _ in waiting:
                answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._waiting.clear()
        self._done(self._response)


async def write_here(
    destination: MarkerDestination, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """Write markers and wait for the response."""
    event = trio.Event()
    found: list[WriteTxnMarkersResponse] = []

    def done(response: WriteTxnMarkersResponse) -> None:
        found.append(response)
        event.set()

    destination.write(request, done)
    if not found:
        await event.wait()
    return found[0]
