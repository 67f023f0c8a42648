"""Requests that wait at a simulated broker: for records, for replicas, or for deletions."""

from collections.abc import Callable, Sequence

import attrs

from barnabas.cluster.replication import Partition
from barnabas.log import AppendInfo
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.delete_records import DeleteRecordsResponse
from barnabas.server.api.handlers.data import fetch_handler
from barnabas.server.replication.deletion_wait import Deletion
from barnabas.testing.simulation.network import Respond
from barnabas.testing.simulation.world import Process


@attrs.frozen(slots=True)
class SimProduce:
    """One batch for one partition, in the words of a Produce request."""

    topic: str
    partition: int
    batch: bytes
    acks: int
    timeout_ms: int
    transactional_id: str | None = None
    adds_partition: bool = False
    """True for a producer of the second version, whose first write adds the partition."""


@attrs.frozen(slots=True)
class SimProduced:
    """The outcome of a `SimProduce`: an error, or the offset of the first record.

    `leader_epoch` is the epoch of the leader that appended it.
    """

    error: ErrorCode
    offset: int = -1
    leader_epoch: int = -1


class ParkedFetch:
    """A fetch that waits for records or for its time."""

    def __init__(
        self,
        process: Process,
        fetching: fetch_handler.Fetching,
        respond: Respond,
        wait_ms: int,
    ) -> None:
        self._process = process
        self._fetching = fetching
        self._respond = respond
        self._is_over = False
        self._is_woken = False
        self._watch = fetching.start_watching()
        self._watch.wake = self._wake
        process.after_ms(wait_ms, self._time_out)

    def _wake(self) -> None:
        """Look again after the current event: its listeners must return quickly."""
        if not self._is_woken:
            self._is_woken = True
            self._process.after_ms(0, self._look)

    def _look(self) -> None:
        self._is_woken = False
        if not self._is_over and self._fetching.look_again():
            self._end()

    def _time_out(self) -> None:
        if not self._is_over:
            self._fetching.look_again()
            self._end()

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._watch.wake = None
            self._fetching.stop_watching()
            self._respond(self._fetching.response())


class DeletionsWait:
    """A DeleteRecords that waits until the live followers have deleted the records, too."""

    def __init__(
        self,
        process: Process,
        deletions: Sequence[Deletion],
        response: DeleteRecordsResponse,
        respond: Respond,
        timeout_ms: int,
    ) -> None:
        self._deletions = deletions
        self._response = response
        self._respond = respond
        self._is_over = False
        for deletion in deletions:
            deletion.partition.listeners[self] = None
        process.after_ms(timeout_ms, self._time_out)
        self._look()

    def partition_changed(self, partition: Partition) -> None:
        """Answer when every deletion is known to be done, or to have failed."""
        del partition
        self._look()

    def _look(self) -> None:
        if not self._is_over and all(not each.is_open or each.look() for each in self._deletions):
            self._end()

    def _time_out(self) -> None:
        if not self._is_over:
            for deletion in self._deletions:
                deletion.time_out()
            self._end()

    def _end(self) -> None:
        self._is_over = True
        for deletion in self._deletions:
            deletion.partition.listeners.pop(self, None)
        self._respond(self._response)


class AcksWait:
    """A produce with acks=all that waits for the in-sync replicas."""

    def __init__(
        self,
        process: Process,
        partition: Partition,
        info: AppendInfo,
        respond: Respond,
        request: SimProduce,
        on_acked: Callable[[Partition, int], None],
    ) -> None:
        self._partition = partition
        self._offset = info.first_offset
        self._leader_epoch = partition.leader_epoch
        self._last_offset = info.last_offset
        self._respond = respond
        self._is_over = False
        partition.listeners[self] = None
        self._on_acked = on_acked
        process.after_ms(request.timeout_ms, self._settle, ErrorCode.REQUEST_TIMED_OUT)
        self.partition_changed(partition)

    def partition_changed(self, partition: Partition) -> None:
        """Answer when the outcome is known."""
        outcome = partition.acks_outcome(self._last_offset)
        if outcome is not None:
            self._settle(outcome)

    def _settle(self, outcome: ErrorCode) -> None:
        if not self._is_over:
            self._is_over = True
            self._partition.listeners.pop(self, None)
            is_acked = outcome is ErrorCode.NONE
            if is_acked:
                self._on_acked(self._partition, self._last_offset)
            offset = self._offset if is_acked else -1
            self._respond(SimProduced(outcome, offset, self._leader_epoch))
