"""The copy of what arrives at the ends of logs that the flow has caught up with.

A Spark job takes some tens of milliseconds to start, for which each new record would wait. So the
driver itself copies what is little: one fetch waits at each leader of the source, and its batches
are produced as a task produces them, with the position in the same transaction or as the end of a
mirror topic.

Anything unusual ends the copy of a partition: a failure, another leader epoch, another process of
the flow. The next range of offsets, a task's, handles it with the means of `range_copies`; nothing
depends on what was left behind here.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import trio

from barnabas.client import ClientError, KafkaClient
from barnabas.client.core.metadata_cache import PartitionLeader
from barnabas.pipeline.mirror.batch_copy import IdenticalCopy
from barnabas.pipeline.mirror.flow_values import NO_EPOCH, CopyFigures, FlowPlan, Partition
from barnabas.pipeline.mirror.source_fetches import FetchedData
from barnabas.pipeline.mirror.tail_fetches import TailFetches, tail_connection
from barnabas.pipeline.mirror.tail_state import TailCopies, TailState
from barnabas.pipeline.mirror.tail_transactions import TransactionalTails
from barnabas.pipeline.mirror.target_produces import TargetProduces
from barnabas.protocol.batches.batch_header import CorruptBatch
from barnabas.protocol.errors import KafkaError

_UNTIL: Final = (1 << 63) - 1
_WAIT_MS: Final = 500
_UNANSWERED_S: Final = 0.1


class TailEndsError(Exception):
    """A partition whose copy a task has to continue; the text is for the log."""


class IdenticalTail(TailState):
    """A partition whose batches keep their offsets."""

    def __init__(self, target: KafkaClient, figures: CopyFigures) -> None:
        super().__init__(figures)
        self._copy = IdenticalCopy(figures.position, _UNTIL, figures.leader_epoch)
        self._produces = TargetProduces(target, figures.where, None)

    async def copy(self, fetched: FetchedData) -> None:
        """Copy; a new leader epoch must be committed first, which a task does.

        Raises TailEndsError, KafkaError, ClientError, CorruptBatch.
        """
        batches = self._copy.take(fetched.data, fetched.aborted)
        for batch in batches:
            if batch.leader_epoch != self.figures.leader_epoch:
                raise TailEndsError(f"leader epoch {batch.leader_epoch} begins")
        for batch in batches:
            await self._produces.send(batch)
        await self._produces.flush()
        self.count(batches)
        self.move(self._copy.position, self.figures.leader_epoch)


class IdenticalTails(TailCopies[IdenticalTail]):
    """Copies without transactions: the end of the target's log is the position."""

    def __init__(self, target: KafkaClient) -> None:
        super().__init__()
        self._target = target

    def _new(self, figures: CopyFigures) -> IdenticalTail:
        return IdenticalTail(self._target, figures)

    async def copy(self, found: Mapping[Partition, FetchedData]) -> dict[Partition, str]:
        """Copy each partition by itself."""
        ended: dict[Partition, str] = {}

        async def copy_one(where: Partition, fetched: FetchedData) -> None:
            try:
                await self._tails[where].copy(fetched)
            except (TailEndsError, KafkaError, ClientError, CorruptBatch) as error:
                ended[where] = str(error)
                self.leave(where)

        async with trio.open_nursery() as nursery:
            for where, fetched in found.items():
                nursery.start_soon(copy_one, where, fetched)
        return ended


def tail_starts(
    positions: Mapping[Partition, int], epochs: Mapping[Partition, int]
) -> list[CopyFigures]:
    """Return figures for the tails of partitions to begin with."""
    return [
        CopyFigures(*where, position, leader_epoch=epochs.get(where, NO_EPOCH))
        for where, position in positions.items()
    ]


class TailCopier:
    """Copies partitions with the clients of the driver; it serves until a task copies any."""

    def __init__(self, plan: FlowPlan, source: KafkaClient, target: KafkaClient) -> None:
        self.plan = plan
        self._source = source
        self._copies = (
            IdenticalTails(target) if plan.is_identical else TransactionalTails(plan, target)
        )

    async def copy(self, starts: Iterable[CopyFigures], for_s: float) -> dict[Partition, str]:
        """Copy for a time what arrives, from the positions of figures on, and note it in them.

        A partition that an earlier call has copied continues where that was. Return the partitions
        that a task has to continue, with the reasons.
        """
        tails: dict[Partition, TailState] = {
            figures.where: self._copies.begin(figures) for figures in starts
        }
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
        for where, tail in tails.items():
            tail.complete()
            if where in ended:
                self._copies.leave(where)
        return ended

    async def _follow(
        self,
        node_id: int,
        leaders: dict[Partition, PartitionLeader],
        tails: dict[Partition, TailState],
        ended: dict[Partition, str],
        stop_at: float,
    ) -> None:
        """Copy the partitions of one leader; those that end are moved from `tails` to `ended`."""
        try:
            connection = await tail_connection(self._source, node_id)
            fetches = TailFetches(
                self._source, connection, leaders, read_committed=not self.plan.is_identical
            )
            while tails and (left_s := stop_at - trio.current_time()) > 0:
                wanted = [tail.position for tail in tails.values()]
                found = await fetches.fetch(wanted, min(_WAIT_MS, math.ceil(left_s * 1000)))
                if not found:  # a broker that throttles answers without the partitions
                    await trio.sleep(_UNANSWERED_S)
                for where, reason in (await self._copy_found(found, tails)).items():
                    ended[where] = reason
                    del tails[where]
        except (KafkaError, ClientError) as error:
            ended |= dict.fromkeys(tails, str(error))

    async def _copy_found(
        self,
        found: Mapping[Partition, FetchedData | KafkaError],
        tails: Mapping[Partition, TailState],
    ) -> dict[Partition, str]:
        """Copy what was fetched; return the partitions that end."""
        ended: dict[Partition, str] = {}
        fetched: dict[Partition, FetchedData] = {}
        for where, result in found.items():
            if where not in tails:
                continue
            if isinstance(result, KafkaError):
                ended[where] = str(result)
            elif result.data:
                fetched[where] = result
        if fetched:
            ended |= await self._copies.copy(fetched)
        return ended
