"""A Produce request whose answer waits: for the in-sync replicas, for the disk, or for both."""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.server.api.context import Deferred
from barnabas.server.api.handler_services import DataContext
from barnabas.server.replication.request_deadlines import Deadline, Expiry

if TYPE_CHECKING:
    from barnabas.cluster.replication import Partition

PartitionResponse = ProduceResponse.PartitionProduceResponse


class PendingProduce:
    """Resolves `deferred` when each partition has reached what the request asked for.

    The answers are filled in already; here only error codes are added (Kafka's `DelayedProduce`).
    """

    __slots__ = ("_deadline", "_replicating", "_response", "_syncing", "deferred")

    def __init__(
        self,
        context: DataContext,
        request: ProduceRequest,
        response: ProduceResponse,
        appended: Iterable[tuple[PartitionResponse, "Partition", int]],
    ) -> None:
        self.deferred = Deferred()
        self._response = response
        self._deadline: Deadline | None = None
        self._replicating: dict[Partition, list[tuple[PartitionResponse, int]]] = {}
        self._syncing = 0
        for answer, partition, last_offset in appended:
            if request.acks == -1 and partition.log.high_watermark <= last_offset:
                partition.listeners.add(self)
                self._replicating.setdefault(partition, []).append((answer, last_offset))
            if partition.flush_due:
                self._syncing += 1
                sync = partial(self._sync, context, answer, partition)
                context.services.start_soon(sync)
        if self._replicating:
            seconds = request.timeout_ms / 1000
            self._deadline = Expiry.current().after(seconds, self._expired)
        self._resolve_if_done()

    def partition_changed(self, partition: "Partition") -> None:
        """A high watermark rose, or leadership went."""
        waiting = self._replicating.get(partition)
        if waiting is None:
            return
        left: list[tuple[PartitionResponse, int]] = []
        for answer, last_offset in waiting:
            outcome = partition.acks_outcome(last_offset)
            if outcome is None:
                left.append((answer, last_offset))
            elif outcome is not ErrorCode.NONE:
                answer.error_code = outcome
        if left:
            self._replicating[partition] = left
            return
        del self._replicating[partition]
        partition.listeners.discard(self)
        self._resolve_if_done()

    def _expired(self) -> None:
        for partition, waiting in self._replicating.items():
            partition.listeners.discard(self)
            for answer, _ in waiting:
                answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._replicating.clear()
        self._resolve_if_done()

    async def _sync(
        self, context: DataContext, answer: PartitionResponse, partition: "Partition"
    ) -> None:
        if not await context.services.flush(partition):
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        self._syncing -= 1
        self._resolve_if_done()

    def _resolve_if_done(self) -> None:
        if self._replicating or self._syncing:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self.deferred.resolve(self._response)
