"""The log as replication uses it, so that a simulation can replace the files.

`barnabas.log.PartitionLog` and `barnabas.testing.sim_log.SimLog` fit it; a test holds them equal.
"""

from typing import Protocol

from barnabas.log import AppendInfo
from barnabas.log.partition.batch_validation import Origin


class LogLike(Protocol):
    """One replica's records and offsets.

    Every change keeps log start offset <= high watermark <= log end offset. The methods raise
    KafkaError; KAFKA_STORAGE_ERROR means that the disk failed.
    """

    @property
    def log_start_offset(self) -> int:
        """The offset of the first record."""
        ...

    @property
    def high_watermark(self) -> int:
        """The offset below which the records are committed."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        ...

    @property
    def latest_epoch(self) -> int:
        """The last leader epoch of the log, -1 before any; it may have no records yet."""
        ...

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the last epoch up to `epoch` and its end offset; (-1, -1) if it is unknown."""
        ...

    def start_leader_epoch(self, epoch: int, start_offset: int) -> None:
        """A leader starts its epoch at `start_offset`."""
        ...

    def append_as_leader(
        self,
        records: bytearray | memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = "client",
    ) -> AppendInfo:
        """Append one batch; its offset and leader epoch are set in place."""
        ...

    def append_as_follower(
        self, records: bytes | bytearray | memoryview, *, now_ms: int, leader_epoch: int
    ) -> None:
        """Append the complete batches up to `leader_epoch` as the leader has them."""
        ...

    def append_as_mirror(
        self, records: bytearray | memoryview, *, leader_epoch: int, now_ms: int
    ) -> AppendInfo:
        """Append batches of another cluster's log with their offsets, as its mirror's leader."""
        ...

    def note_mirror_epochs(self, epoch: int) -> None:
        """Batches of leader epochs below `epoch` are mirrored; -1: the log never was a mirror."""
        ...

    def open_transactions_of_mirror(self, leader_epoch: int) -> list[tuple[int, int]]:
        """Return producer id and epoch of transactions that were open when the mirror ended."""
        ...

    def advance_high_watermark(self, offset: int) -> None:
        """All in-sync replicas have the records below `offset`."""
        ...

    def advance_log_start(self, offset: int) -> None:
        """Remove the records below `offset`."""
        ...

    def truncate_to(self, offset: int) -> None:
        """Remove the records from `offset` on, and the leader epochs that start there or above."""
        ...

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records; the next one gets `offset`."""
        ...
