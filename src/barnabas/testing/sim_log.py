"""A log in memory for simulations: a `LogLike` that can lose its power.

Batches are kept as they were appended. `flush` makes them durable, `checkpoint` the high watermark
and the log start. After a kill (`crash`) all batches remain; after a power loss (`lose_power`) only
the durable ones surely do. It has no segments, indexes, producers or retention, and checks only
what replication depends on.
"""

from barnabas.log import AppendInfo
from barnabas.log.partition.batch_validation import Origin
from barnabas.log.partition.partition_log import EPOCH_MAX
from barnabas.protocol.batches.batch_header import (
    BatchHeader,
    CorruptBatch,
    assign_offset,
    crc_matches,
    iter_batches,
)
from barnabas.protocol.errors import ErrorCode, KafkaError


class SimLog:
    """One partition's records and offsets, without files."""

    def __init__(self) -> None:
        self.batches: list[tuple[BatchHeader, bytes]] = []
        self.epochs: dict[int, int] = {}
        """The start offset of each leader epoch, ascending."""
        self.log_start_offset = 0
        self.high_watermark = 0
        self.log_end_offset = 0
        self.synced_end = 0
        self.mirror_end_epoch = -1
        self.mirror_end = -1
        self._first = 0  # where the log would start without `advance_log_start`
        self._checkpointed = (0, 0)
        self._written_epochs: dict[int, int] = {}

    @property
    def latest_epoch(self) -> int:
        """The last leader epoch of the log, -1 before any; it may have no records yet."""
        return max(self.epochs, default=-1)

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch of the record at `offset`, -1 if unknown."""
        return max((each for each, start in self.epochs.items() if start <= offset), default=-1)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the last epoch up to `epoch` and its end offset; (-1, -1) if it is unknown."""
        if epoch < 0 or epoch > self.latest_epoch:
            return -1, -1
        found = max((each for each in self.epochs if each <= epoch), default=epoch)
        later = [start for each, start in self.epochs.items() if each > found]
        return found, min(later, default=self.log_end_offset)

    def records(self) -> bytes:
        """Return all batches that have records at or above the log start."""
        return self.records_from(self.log_start_offset)

    def records_from(self, offset: int) -> bytes:
        """Return all batches that have records at or above an offset."""
        return b"".join(data for header, data in self.batches if header.last_offset >= offset)

    # Appending

    def start_leader_epoch(self, epoch: int, start_offset: int) -> None:
        """A leader starts its epoch at `start_offset`."""
        if epoch > self.latest_epoch:
            if self.latest_epoch < self.mirror_end_epoch <= epoch:
                self._end_mirror()
            self._drop_epochs(start_offset)
            self.epochs = {**self.epochs, epoch: start_offset}

    def append_as_leader(
        self,
        records: bytearray | memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = "client",
    ) -> AppendInfo:
        """Append one batch; its offset and leader epoch are set in place."""
        del now_ms, origin
        first = self.log_end_offset
        assign_offset(records, 0, first, leader_epoch)
        (_, header), *_ = iter_batches(records)
        self._append(header, bytes(records))
        return AppendInfo(first, header.last_offset)

    def append_as_follower(
        self,
        records: bytes | bytearray | memoryview,
        *,
        now_ms: int,
        leader_epoch: int = EPOCH_MAX,
    ) -> None:
        """Append the complete batches up to `leader_epoch` as the leader has them.

        Raises KafkaError CORRUPT_MESSAGE and OFFSET_OUT_OF_RANGE, as `PartitionLog`.
        """
        del now_ms
        try:
            for position, header in iter_batches(records):
                if header.partition_leader_epoch > leader_epoch:
                    return
                if not crc_matches(records, position, header):
                    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "wrong crc")
                if header.base_offset < self.log_end_offset:
                    raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "below the log end offset")
                self._append(header, bytes(records[position : position + header.size]))
        except CorruptBatch as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error

    def append_as_mirror(
        self, records: bytearray | memoryview, *, leader_epoch: int, now_ms: int
    ) -> AppendInfo:
        """Append batches of another cluster's log with their offsets, as its mirror's leader."""
        del now_ms
        batches = list(iter_batches(records))
        end = self.log_end_offset
        new = [each for each in batches if each[1].last_offset >= end]
        for _, header in new:
            if not header.base_offset - header.partition_leader_epoch <= end <= header.base_offset:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the log ends at {end}")
            end = header.next_offset
        for position, header in new:
            assign_offset(records, position, header.base_offset, leader_epoch)
            placed = header._replace(partition_leader_epoch=leader_epoch)
            self._append(placed, bytes(records[position : position + header.size]))
        first, last = batches[0][1], batches[-1][1]
        return AppendInfo(first.base_offset, last.last_offset, duplicate=not new)

    def _append(self, header: BatchHeader, data: bytes) -> None:
        epoch = header.partition_leader_epoch
        is_mirrored = epoch < self.mirror_end_epoch
        self.start_leader_epoch(epoch, self.log_end_offset if is_mirrored else header.base_offset)
        self._written_epochs = self.epochs
        self.batches.append((header, data))
        self.log_end_offset = header.next_offset

    # The end of a mirror

    def note_mirror_epochs(self, epoch: int) -> None:
        """Batches of leader epochs below `epoch` are mirrored; -1: the log never was a mirror."""
        self.mirror_end_epoch = epoch

    def open_transactions_of_mirror(self, leader_epoch: int) -> list[tuple[int, int]]:
        """Return no transaction: this log has no producers."""
        del leader_epoch
        return []

    def _end_mirror(self) -> None:
        self.mirror_end = self.log_end_offset

    # Offsets

    def advance_high_watermark(self, offset: int) -> None:
        """All in-sync replicas have the records below `offset`."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"high watermark {offset}")
        self.high_watermark = offset

    def advance_log_start(self, offset: int) -> None:
        """Remove the records below `offset`."""
        if offset > self.high_watermark:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"log start offset {offset}")
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        self._start_epochs_at(offset)

    def truncate_to(self, offset: int) -> None:
        """Remove the records from `offset` on, and the leader epochs that start there or above."""
        if offset >= self.log_end_offset:
            self._drop_epochs(self.log_end_offset)
            self._written_epochs = self.epochs
        elif offset <= self._first:
            self.truncate_fully_and_start_at(offset)
        else:
            self.batches = [each for each in self.batches if each[0].base_offset < offset]
            self._drop_epochs(offset)
            self._cut(offset, min(self.log_start_offset, offset), min(self.high_watermark, offset))

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records; the next one gets `offset`."""
        self.batches.clear()
        self.epochs = {}
        self._first = offset
        self._cut(offset, offset, offset)

    def _cut(self, offset: int, log_start: int, high_watermark: int) -> None:
        """End the log at `offset`; checkpoint offsets that move back, as `PartitionLog`."""
        self.log_end_offset = offset
        self._written_epochs = self.epochs
        moved_back = (
            self.synced_end > offset
            or self.log_start_offset > log_start
            or self.high_watermark > high_watermark
        )
        self.synced_end = min(self.synced_end, offset)
        self.log_start_offset, self.high_watermark = log_start, high_watermark
        if moved_back:
            self.checkpoint()

    def _drop_epochs(self, offset: int) -> None:
        self.epochs = {each: start for each, start in self.epochs.items() if start < offset}

    def _start_epochs_at(self, offset: int) -> None:
        kept = max((each for each, start in self.epochs.items() if start <= offset), default=-1)
        self.epochs = {
            each: max(start, offset) for each, start in self.epochs.items() if each >= kept
        }

    # Durability

    def flush(self) -> None:
        """Make all batches durable."""
        self.synced_end = self.log_end_offset

    def checkpoint(self) -> None:
        """Make the high watermark and the log start durable."""
        log_start = self.log_start_offset
        self._checkpointed = self.high_watermark, log_start if log_start > self._first else 0

    def crash(self) -> None:
        """The process was killed: the batches remain, and the checkpointed offsets return."""
        self._restart()

    def lose_power(self, kept: int) -> None:
        """The power was lost: `kept` of the unsynced batches remain, and the synced ones."""
        unsynced = [each for each in self.batches if each[0].last_offset >= self.synced_end]
        synced_count = len(self.batches) - len(unsynced)
        self.batches = self.batches[: synced_count + kept]
        self._restart()

    def _restart(self) -> None:
        """Recover: the last batch ends the log, and all of them state their epochs again."""
        self.mirror_end_epoch = -1  # until the metadata is here again
        end = self.log_end_offset = self.batches[-1][0].next_offset if self.batches else self._first
        self.epochs = self._written_epochs
        self._drop_epochs(end)
        for header, _ in self.batches:
            self.start_leader_epoch(header.partition_leader_epoch, header.base_offset)
        self.synced_end = end
        high_watermark, log_start = self._checkpointed
        self.log_start_offset = min(max(log_start, self._first), end)
        self.high_watermark = min(max(high_watermark, self.log_start_offset), end)
        self._start_epochs_at(self.log_start_offset)
        if end < max(high_watermark, log_start):
            self.checkpoint()  # before the next append, as `LogManager`
