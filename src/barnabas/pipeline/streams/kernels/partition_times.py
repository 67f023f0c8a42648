"""The stream time of partitions from one micro-batch to the next, for the tasks of kernels."""

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from barnabas.pipeline.streams.kernels.kernel_rows import UNKNOWN_MS


class Lane(NamedTuple):
    """Rows whose stream time is one: those of a partition of a topic, on one side of a kernel."""

    side: int
    partition: int
    source: str
    """The topic, or another name of what the rows come from."""

    @property
    def name(self) -> str:
        """Return the text that identifies the lane within a query."""
        return f"{self.partition}-{self.side}-{self.source}"


class PartitionTimes(Protocol):
    """The times at the end of micro-batches, which the checkpoint of a query keeps."""

    def before(self, lane: str) -> int:
        """Return the time at the end of the micro-batch before, UNKNOWN_MS without rows."""
        ...

    def keep(self, lane: str, time_ms: int) -> None:
        """Keep the time at the end of this micro-batch."""
        ...


class BatchTimes:
    """Times that begin again with each micro-batch: rows are dropped later, never earlier."""

    def before(self, lane: str) -> int:
        """Return UNKNOWN_MS."""
        return UNKNOWN_MS

    def keep(self, lane: str, time_ms: int) -> None:
        """Forget the time."""


BATCH_TIMES: Final = BatchTimes()


class Backlog(Protocol):
    """The records that micro-batches left unread, as the checkpoint of a query keeps them."""

    @property
    def is_open(self) -> bool:
        """True when this micro-batch, or the one before it, may have left records unread."""
        ...

    def newest_before(self, lane: str) -> int:
        """Return the largest timestamp since the backlog began, UNKNOWN_MS without rows."""
        ...

    def keep(self, lane: str, newest_ms: int) -> None:
        """Keep the largest timestamp since the backlog began."""
        ...

    def partitions(self) -> Iterable[tuple[str, int, bool]]:
        """Return (topic, partition, True when it has unread records); in the first task only."""
        ...


class NoBacklog:
    """Micro-batches that have all there is."""

    is_open = False

    def newest_before(self, lane: str) -> int:
        """Return UNKNOWN_MS."""
        return UNKNOWN_MS

    def keep(self, lane: str, newest_ms: int) -> None:
        """Forget the time."""

    def partitions(self) -> Iterable[tuple[str, int, bool]]:
        """Return nothing."""
        return ()


NO_BACKLOG: Final = NoBacklog()
