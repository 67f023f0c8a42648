"""Tails whose offsets differ at the target: one transaction for all partitions of a response.

The transactions have the transactional id of the flow's tail. A partition joins them when it first
has data: then the id of its ranges is taken over, which fences tasks of the flow, and the position
at the target must be the one of the tail. A task fences the tail in the same way.

A transaction that fails ends the copy of each partition in it; the next data of another partition
takes the ids over again.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import trio

from barnabas.client import ClientError, KafkaClient
from barnabas.pipeline.delivery.driver.group_offsets import GroupEntry
from barnabas.pipeline.mirror.batch_copy import CopiedData, TransactionalCopy
from barnabas.pipeline.mirror.flow_values import CopyFigures, FlowPlan, Partition
from barnabas.pipeline.mirror.mirrormaker.offset_translation import CopiedRun, points_of
from barnabas.pipeline.mirror.range_copies import noting, position_metadata
from barnabas.pipeline.mirror.source_fetches import FetchedData
from barnabas.pipeline.mirror.tail_produces import PartitionBatches, TailProduces
from barnabas.pipeline.mirror.tail_state import TailCopies, TailState
from barnabas.pipeline.mirror.target_transaction import TargetTransaction
from barnabas.protocol.batches.batch_header import CorruptBatch
from barnabas.protocol.errors import KafkaError

_UNTIL: Final = (1 << 63) - 1


class _TransactionalTail(TailState):
    """A partition of the tail; without a copy before its first data."""

    def __init__(self, figures: CopyFigures, sync_step: int) -> None:
        super().__init__(figures)
        self.copy: TransactionalCopy | None = None
        self._sync_step = sync_step
        self._runs: list[CopiedRun] = []
        self.note = noting(self._runs) if sync_step else None

    def continue_in(self, figures: CopyFigures) -> None:
        """Count in other figures from now on."""
        super().continue_in(figures)
        self._runs.clear()

    def complete(self) -> None:
        """Complete the figures, with the offset syncs."""
        super().complete()
        self.figures.syncs = points_of(self._runs, self._sync_step) if self._runs else ()


class TransactionalTails(TailCopies[_TransactionalTail]):
    """Copies with the position of each partition in the transaction of its batches."""

    def __init__(self, plan: FlowPlan, target: KafkaClient) -> None:
        super().__init__()
        self._plan = plan
        self._target = target
        self._transaction = self._transaction_of(plan.tail_transactional_id)
        self._has_begun = False
        self._one_at_a_time = trio.Lock()

    def _new(self, figures: CopyFigures) -> _TransactionalTail:
        return _TransactionalTail(figures, self._plan.sync_step)

    async def copy(self, found: Mapping[Partition, FetchedData]) -> dict[Partition, str]:
        """Copy in one transaction, after that of another leader's response."""
        async with self._one_at_a_time:
            is_copied = False
            try:
                ended = await self._join(found.keys())
                ended |= await self._copy_together(found.keys() - ended.keys(), found)
                is_copied = True
            except (KafkaError, ClientError) as error:
                ended = dict.fromkeys(found, str(error))
            finally:
                if not is_copied:
                    self._end()
            for where in ended:
                self.leave(where)
            return ended

    async def _join(self, wanted: Iterable[Partition]) -> dict[Partition, str]:
        """Fence the tasks of partitions that have no copy yet; return those that end.

        A partition ends when the target has another position: another process has copied more.
        """
        new = {where: tail for where in wanted if (tail := self._tails[where]).copy is None}
        if not new:
            return {}
        timeout_ms = self._plan.transaction_timeout_ms
        if not self._has_begun:
            await self._transaction.begin(timeout_ms, is_short=True)
            self._has_begun = True
        for where in new:
            name = self._plan.transactional_id_of(where)
            await self._transaction_of(name).begin(timeout_ms)
        there = {where: self._plan.at_target(where) for where in new}
        committed = await self._transaction.positions(there.values())
        ended: dict[Partition, str] = {}
        for where, tail in new.items():
            position, figures = committed[there[where]].offset, tail.figures
            if position > figures.position:
                ended[where] = f"the target has position {position}"
            else:
                identity = self._transaction.identity
                at, epoch = figures.position, figures.leader_epoch
                tail.copy = TransactionalCopy(at, _UNTIL, identity, epoch)
        return ended

    async def _copy_together(
        self, wanted: Iterable[Partition], found: Mapping[Partition, FetchedData]
    ) -> dict[Partition, str]:
        """Copy partitions that have joined; return those that end, because of damaged data."""
        ended: dict[Partition, str] = {}
        taken: dict[Partition, list[CopiedData]] = {}
        for where in wanted:
            try:
                taken[where] = self._copy_of(where).take(found[where].data, found[where].aborted)
            except CorruptBatch as error:
                ended[where] = str(error)
        batches = {where: each for where, each in taken.items() if each}
        if batches:
            await self._commit(batches)
        for where, each in taken.items():
            copy = self._copy_of(where)
            self._tails[where].count(each)
            self._tails[where].move(copy.position, copy.leader_epoch)
        return ended

    async def _commit(self, batches: Mapping[Partition, list[CopiedData]]) -> None:
        """Produce, and commit the positions after the batches with them."""
        plan, transaction = self._plan, self._transaction
        there = {where: plan.at_target(where) for where in batches}
        entries: dict[Partition, GroupEntry] = {}
        for where in batches:
            copy, metadata = self._copy_of(where), position_metadata(plan, where[0])
            entries[there[where]] = GroupEntry(copy.position, metadata, copy.leader_epoch)
        try:
            await transaction.add(there.values())
            produces = TailProduces(self._target, transaction)
            await produces.send(
                [
                    PartitionBatches(there[where], each, self._tails[where].note)
                    for where, each in batches.items()
                ]
            )
            await transaction.commit(entries)
        except BaseException:
            await transaction.abandon()
            raise
        self._tails[next(iter(batches))].figures.transactions += 1

    def _copy_of(self, where: Partition) -> TransactionalCopy:
        """Return the copy of a partition that has joined, which writes as the transaction does."""
        copy = self._tails[where].copy
        if copy is None:
            raise RuntimeError(f"{where[0]}-{where[1]} has not joined the transactions of the tail")
        copy.write_as(self._transaction.identity)
        return copy

    def _end(self) -> None:
        """Have every partition join again: the transaction has failed, or another one fences it."""
        self._has_begun = False
        for tail in self._tails.values():
            tail.copy = None

    def _transaction_of(self, transactional_id: str) -> TargetTransaction:
        return TargetTransaction(self._target, transactional_id, self._plan.group_id)
