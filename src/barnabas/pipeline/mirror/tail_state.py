"""The state of one partition in the tail of a flow, and what the copies of tails have in common."""

import abc
import time
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from barnabas.pipeline.mirror.batch_copy import CopiedData
from barnabas.pipeline.mirror.flow_values import CopyFigures, Partition
from barnabas.pipeline.mirror.range_copies import count_batch
from barnabas.pipeline.mirror.source_fetches import FetchedData
from barnabas.pipeline.mirror.tail_fetches import TailPosition


class TailState:
    """The figures of a partition, which say where it is."""

    def __init__(self, figures: CopyFigures) -> None:
        self.figures = figures
        self._counted_s = 0.0

    @property
    def position(self) -> TailPosition:
        """Return where to fetch next."""
        figures = self.figures
        return TailPosition(figures.where, figures.position, figures.leader_epoch)

    def move(self, position: int, leader_epoch: int) -> None:
        """Note that everything before a position is copied or left out."""
        self.figures.position, self.figures.leader_epoch = position, leader_epoch

    def count(self, batches: Iterable[CopiedData]) -> None:
        """Add batches that were copied."""
        for batch in batches:
            count_batch(self.figures, batch)
            self._counted_s = time.monotonic()

    def continue_in(self, figures: CopyFigures) -> None:
        """Count in other figures from now on, which get the position."""
        figures.position, figures.leader_epoch = self.figures.position, self.figures.leader_epoch
        self.figures = figures

    def complete(self) -> None:
        """Complete the figures: the age of the newest record is its age when it was copied."""
        if self.figures.newest_ms is not None:
            self.figures.newest_ms += int((time.monotonic() - self._counted_s) * 1000)


T = TypeVar("T", bound=TailState)


class TailCopies(abc.ABC, Generic[T]):
    """The copies of several partitions, which stay usable until they end."""

    def __init__(self) -> None:
        self._tails: dict[Partition, T] = {}

    def begin(self, figures: CopyFigures) -> T:
        """Return the state of a partition; it continues where it was when it has one."""
        tail = self._tails.get(figures.where)
        if tail is None:
            tail = self._tails[figures.where] = self._new(figures)
        else:
            tail.continue_in(figures)
        return tail

    def leave(self, where: Partition) -> None:
        """Forget the state of a partition."""
        self._tails.pop(where, None)

    @abc.abstractmethod
    def _new(self, figures: CopyFigures) -> T:
        """Return the state of a partition that has none."""

    @abc.abstractmethod
    async def copy(self, found: Mapping[Partition, FetchedData]) -> dict[Partition, str]:
        """Copy the batches of a response, and note them.

        Return the partitions that a task has to continue, with the reasons; they have no state
        any longer.
        """
