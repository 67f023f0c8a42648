"""The copy of what arrives at the ends of logs that the flow has caught up with.

A Spark job takes some tens of milliseconds to start, for which each new record would wait. So the
driver itself copies what is little: one fetch waits at each leader of the source, and its batches
are produced as a task produces them, with the position in the same transaction or as the end of a
mirror topic.

Anything unusual ends the copy of a partition: a failure, another leader epoch, another process of
the flow. The next range of offsets, a task's, handles it with the means of `range_copies`; nothing
depends on what was left behind here.
"""

import abc
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import trio

from barnabas.client import ClientError, KafkaClient
from barnabas.client.core.metadata_cache import PartitionLeader
from barnabas.pipeline.delivery.driver.group_offsets import GroupEntry
from barnabas.pipeline.mirror.batch_copy import CopiedData, IdenticalCopy, TransactionalCopy
from barnabas.pipeline.mirror.flow_values import NO_EPOCH, CopyFigures, FlowPlan, Partition
from barnabas.pipeline.mirror.mirrormaker.offset_translation import CopiedRun, points_of
from barnabas.pipeline.mirror.range_copies import count_batch, noting, position_metadata
from barnabas.pipeline.mirror.source_fetches import FetchedData
from barnabas.pipeline.mirror.tail_fetches import TailFetches, TailPosition, tail_connection
from barnabas.pipeline.mirror.target_produces import TargetProduces
from barnabas.pipeline.mirror.target_transaction import TargetTransaction
from barnabas.protocol.batches.batch_header import CorruptBatch
from barnabas.protocol.errors import KafkaError

_UNTIL: Final = (1 << 63) - 1
_WAIT_MS: Final = 500
_UNANSWERED_S: Final = 0.1


class TailEndsError(Exception):
    """A partition whose copy a task has to continue; the text is for the log."""


class TailCopy(abc.ABC):
    """The copy of one partition; `figures` say where it is."""

    def __init__(self, figures: CopyFigures) -> None:
        self.figures = figures
        self._counted_s = 0.0

    @property
    def position(self) -> TailPosition:
        """Return where to fetch next."""
        figures = self.figures
        return TailPosition(figures.where, figures.position, figures.leader_epoch)

    @abc.abstractmethod
    async def copy(self, fetched: FetchedData) -> None:
        """Copy the batches of a response, and note them.

        Raises TailEndsError, KafkaError, ClientError, CorruptBatch.
        """

    def end(self) -> None:
        """Complete the figures: the age of the newest record is its age when it was copied."""
        if self.figures.newest_ms is not None:
            self.figures.newest_ms += int((time.monotonic() - self._counted_s) * 1000)

    def _count(self, batches: Iterable[CopiedData]) -> None:
        for batch in batches:
            count_batch(self.figures, batch)
            self._counted_s = time.monotonic()


class IdenticalTail(TailCopy):
    """A partition whose batches keep their offsets."""

    def __init__(self, target: KafkaClient, figures: CopyFigures) -> None:
        super().__init__(figures)
        self._copy = IdenticalCopy(figures.position, _UNTIL, figures.leader_epoch)
        self._produces = TargetProduces(target, figures.where, None)

    async def copy(self, fetched: FetchedData) -> None:
        """Copy; a new leader epoch must be committed first, which a task does."""
        batches = self._copy.take(fetched.data, fetched.aborted)
        for batch in batches:
            if batch.leader_epoch != self.figures.leader_epoch:
                raise TailEndsError(f"leader epoch {batch.leader_epoch} begins")
        for batch in batches:
            await self._produces.send(batch)
        await self._produces.flush()
        self._count(batches)
        self.figures.position = self._copy.position


class TransactionalTail(TailCopy):
    """A partition whose offsets differ at the target: one transaction for each response."""

    def __init__(self, plan: FlowPlan, target: KafkaClient, figures: CopyFigures) -> None:
        super().__init__(figures)
        self._plan = plan
        self._target = target
        self._name = plan.transactional_id_of(figures.where)
        self._there = plan.at_target(figures.where)
        self._transaction = TargetTransaction(target, self._name, plan.group_id, self._there)
        self._copy: TransactionalCopy | None = None
        self._runs: list[CopiedRun] = []

    async def copy(self, fetched: FetchedData) -> None:
        """Copy, and commit the position after the batches with them."""
        copy = self._copy or await self._begin()
        batches = copy.take(fetched.data, fetched.aborted)
        if batches:
            try:
                metadata = position_metadata(self._plan, self.figures.topic)
                entry = GroupEntry(copy.position, metadata, copy.leader_epoch)
                await self._send(batches)
                await self._transaction.commit(entry)
            except BaseException:
                await self._transaction.abandon()
                raise
            self.figures.transactions += 1
        self._count(batches)
        self.figures.position, self.figures.leader_epoch = copy.position, copy.leader_epoch

    async def _begin(self) -> TransactionalCopy:
        """Fence other processes of the flow. Raises TailEndsError when one has copied more."""
        figures = self.figures
        identity = await self._transaction.begin(self._plan.transaction_timeout_ms)
        committed = await self._transaction.position()
        if committed.offset > figures.position:
            raise TailEndsError(f"the target has position {committed.offset}")
        self._copy = TransactionalCopy(figures.position, _UNTIL, identity, figures.leader_epoch)
        return self._copy

    async def _send(self, batches: Iterable[CopiedData]) -> None:
        await self._transaction.add_partition()
        note = noting(self._runs) if self._plan.sync_step else None
        produces = TargetProduces(self._target, self._there, self._name, note)
        for batch in batches:
            await produces.send(batch)
        await produces.flush()

    def end(self) -> None:
        """Complete the figures, with the offset syncs."""
        super().end()
        self.figures.syncs = points_of(self._runs, self._plan.sync_step) if self._runs else ()


def tail_starts(
    positions: Mapping[Partition, int], epochs: Mapping[Partition, int]
) -> list[CopyFigures]:
    """Return figures for the tails of partitions to begin with."""
    return [
        CopyFigures(*where, position, leader_epoch=epochs.get(where, NO_EPOCH))
        for where, position in positions.items()
    ]


class TailCopier:
    """Copies partitions with the clients of the driver."""

    def __init__(self, plan: FlowPlan, source: KafkaClient, target: KafkaClient) -> None:
        self._plan = plan
        self._source = source
        self._target = target

    async def copy(self, starts: Iterable[CopyFigures], for_s: float) -> dict[Partition, str]:
        """Copy for a time what arrives, from the positions of figures on, and note it in them.

        Return the partitions that a task has to continue, with the reasons.
        """
        tails = {figures.where: self._tail(figures) for figures in starts}
        ended: dict[Partition, str] = {}
        by_leader: defaultdict[int, dict[Partition, PartitionLeader]] = defaultdict(dict)
        for where in tails:
            try:
                leader = await self._source.leader(*where)
            except (KafkaError, ClientError) as error:
                ended[where] = str(error)
            else:
                by_leader[leader.node_id][where] = leader
        stop_at = trio.current_time() + for_s
        async with trio.open_nursery() as nursery:
            for node_id, leaders in by_leader.items():
                mine = {where: tails[where] for where in leaders}
                nursery.start_soon(self._follow, node_id, leaders, mine, ended, stop_at)
        for tail in tails.values():
            tail.end()
        return ended

    def _tail(self, figures: CopyFigures) -> TailCopy:
        if self._plan.is_identical:
            return IdenticalTail(self._target, figures)
        return TransactionalTail(self._plan, self._target, figures)

    async def _follow(
        self,
        node_id: int,
        leaders: dict[Partition, PartitionLeader],
        tails: dict[Partition, TailCopy],
        ended: dict[Partition, str],
        stop_at: float,
    ) -> None:
        """Copy the partitions of one leader; those that end are moved from `tails` to `ended`."""
        try:
            connection = await tail_connection(self._source, node_id)
            fetches = TailFetches(
                self._source, connection, leaders, read_committed=not self._plan.is_identical
            )
            while tails and (left_s := stop_at - trio.current_time()) > 0:
                wanted = [tail.position for tail in tails.values()]
                found = await fetches.fetch(wanted, min(_WAIT_MS, math.ceil(left_s * 1000)))
                if not found:  # a broker that throttles answers without the partitions
                    await trio.sleep(_UNANSWERED_S)
                async with trio.open_nursery() as nursery:
                    for where, result in found.items():
                        if where in tails:
                            nursery.start_soon(_copy_one, tails, where, result, ended)
        except (KafkaError, ClientError) as error:
            ended |= dict.fromkeys(tails, str(error))


async def _copy_one(
    tails: dict[Partition, TailCopy],
    where: Partition,
    result: FetchedData | KafkaError,
    ended: dict[Partition, str],
) -> None:
    """Copy what was fetched of a partition, or move it to `ended`."""
    try:
        if isinstance(result, KafkaError):
            raise result
        if result.data:
            await tails[where].copy(result)
    except (TailEndsError, KafkaError, ClientError, CorruptBatch) as error:
        ended[where] = str(error)
        del tails[where]
