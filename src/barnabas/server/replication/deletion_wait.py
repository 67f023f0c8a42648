"""Waiting until all live replicas have deleted records (Kafka: DelayedDeleteRecords)."""

from collections.abc import Iterable

import attrs

from barnabas import tasks
from barnabas.cluster.replication import Partition
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.delete_records import DeleteRecordsResponse

PartitionResult = DeleteRecordsResponse.DeleteRecordsPartitionResult

NO_LOW_WATERMARK = -1


@attrs.define(eq=False)
class Deletion:
    """Records below `offset` that the leader has deleted; `result` is the part of the response."""

    partition: Partition
    offset: int
    result: PartitionResult
    is_open: bool = True

    def look(self) -> bool:
        """Fill in the result if it is known now; return True when it is."""
        try:
            self.partition.check_leader()
            low_watermark = self.partition.low_watermark
        except KafkaError as error:
            self._end(error.code, NO_LOW_WATERMARK)
        else:
            if low_watermark >= self.offset:
                self._end(ErrorCode.NONE, low_watermark)
        return not self.is_open

    def time_out(self) -> None:
        """A live replica did not delete the records in time."""
        if self.is_open:
            self._end(ErrorCode.REQUEST_TIMED_OUT, NO_LOW_WATERMARK)

    def _end(self, code: ErrorCode, low_watermark: int) -> None:
        self.is_open = False
        self.result.error_code = code
        self.result.low_watermark = low_watermark


class _Waiter:
    """Listens to the partitions of one request."""

    def __init__(self, deletions: Iterable[Deletion]) -> None:
        self.open = [each for each in deletions if not each.look()]
        self.done = tasks.event()

    def partition_changed(self, partition: Partition) -> None:
        """Look at the partition's deletions (`PartitionListener`)."""
        self.open = [
            each for each in self.open if each.partition is not partition or not each.look()
        ]
        if not self.open:
            self.done.set()


async def wait_for_deletions(deletions: Iterable[Deletion], timeout_ms: int) -> None:
    """Return when every result is filled in; after `timeout_ms` with REQUEST_TIMED_OUT."""
    waiter = _Waiter(deletions)
    waiting = {each.partition for each in waiter.open}
    if not waiting:
        return
    for partition in waiting:
        partition.listeners[waiter] = None
    try:
        with tasks.move_on_after(max(0, timeout_ms) / 1000):
            await waiter.done.wait()
    finally:
        for partition in waiting:
            partition.listeners.pop(waiter, None)
    for deletion in waiter.open:
        deletion.time_out()
