"""A transaction at the target: records, and the position in the source after them, or neither.

`begin` takes the transactional id over: it aborts what an earlier copy has left open, and fences
its producer. The positions are read after that, so no other copy can move them.

A partition is copied under one of two transactional ids: its own, by a task, or that of the flow's
tail, by the driver. Each takes over its own id first, and the other id after that: so a copy that
reads a position has fenced every other one, or is fenced itself.

The requests are those of a producer before transactions of version 2 (KIP-890), which every Kafka
since 0.11 answers. With `begin(is_short=True)` they are those of version 2 where the target has it:
the target adds partitions and the group to the transaction by itself, which saves two requests.
"""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

import trio

from barnabas.client import ClientError, KafkaClient
from barnabas.client.failures import raise_for
from barnabas.client.kafka_client import GROUP, TRANSACTION
from barnabas.pipeline.delivery.driver.group_offsets import GroupEntry
from barnabas.pipeline.mirror.batch_copy import ProducerIdentity
from barnabas.pipeline.mirror.flow_values import Partition
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from barnabas.protocol.messages_base import Message

_LANE: Final = "transactions"
_ABORT_S: Final = 5.0
MARKERS_S: Final = 0.01
"""A retry waits for the markers of the transaction before, which are written after its end."""
_FEATURE: Final = "transaction.version"
_SHORT_LEVEL: Final = 2
# The newest versions that are not of transactions of version 2, or not for brokers only.
_INIT_MAX: Final = 5
_ADD_PARTITIONS_MAX: Final = 3
_ADD_OFFSETS_MAX: Final = 3
_COMMIT_OFFSETS_MAX: Final = 3
_END_MAX: Final = 4
_FETCH_ONE_GROUP_MAX: Final = 7

R = TypeVar("R", bound=Message)
T = TypeVar("T")
V = TypeVar("V")


class TargetTransaction:
    """The transactions of one transactional id, one after the other."""

    def __init__(self, client: KafkaClient, transactional_id: str, group_id: str) -> None:
        self._client = client
        self.transactional_id = transactional_id
        self._group_id = group_id
        self.identity = ProducerIdentity(-1, -1)
        """The identity to write with; a commit may change it."""
        self.is_short = False
        """True for transactions of version 2."""

    async def begin(self, timeout_ms: int, *, is_short: bool = False) -> ProducerIdentity:
        """Take the transactional id over and return the identity to write with."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms
        )

        def check(response: InitProducerIdResponse) -> ProducerIdentity:
            raise_for(response.error_code, f"transactional id {self.transactional_id}")
            return ProducerIdentity(response.producer_id, response.producer_epoch)

        self.identity = await self._ask(
            TRANSACTION, request, InitProducerIdResponse, check, _INIT_MAX
        )
        self.is_short = is_short and await self._has_short()
        return self.identity

    async def _has_short(self) -> bool:
        """True when the target has transactions of version 2."""
        connection = await self._client.connection_to_coordinator(
            self.transactional_id, _LANE, TRANSACTION
        )
        return connection.versions.features.get(_FEATURE, 0) >= _SHORT_LEVEL

    async def positions(self, partitions: Iterable[Partition]) -> dict[Partition, GroupEntry]:
        """Return the committed positions; offset -1 where there is none."""
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=numbers)
            for name, numbers in _by_topic((each, each[1]) for each in partitions)
        ]
        request = OffsetFetchRequest(group_id=self._group_id, topics=topics, require_stable=True)

        def check(response: OffsetFetchResponse) -> dict[Partition, GroupEntry]:
            raise_for(response.error_code, f"group {self._group_id}")
            found: dict[Partition, GroupEntry] = {}
            for topic in response.topics:
                for each in topic.partitions:
                    raise_for(each.error_code, f"group {self._group_id}")
                    found[topic.name, each.partition_index] = GroupEntry.of(each)
            return found

        return await self._ask(GROUP, request, OffsetFetchResponse, check, _FETCH_ONE_GROUP_MAX)

    async def add(self, partitions: Iterable[Partition]) -> None:
        """Make partitions a part of the transaction, before their first batches."""
        if self.is_short:
            return
        topics = [
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=numbers)
            for name, numbers in _by_topic((each, each[1]) for each in partitions)
        ]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=topics,
        )

        def check(response: AddPartitionsToTxnResponse) -> None:
            for topic in response.results_by_topic_v3_and_below:
                for each in topic.results_by_partition:
                    raise_for(each.partition_error_code, f"{topic.name}-{each.partition_index}")

        await self._ask(
            TRANSACTION, request, AddPartitionsToTxnResponse, check, _ADD_PARTITIONS_MAX
        )

    async def commit(self, positions: Mapping[Partition, GroupEntry]) -> None:
        """Commit the batches that were produced, and the positions after them."""
        if not self.is_short:
            await self._add_group()
        await self._commit_positions(positions)
        await self._end(committed=True)

    async def abort(self) -> None:
        """Abort the transaction."""
        await self._end(committed=False)

    async def abandon(self) -> None:
        """Abort within some seconds, also in a task that is cancelled.

        A failure is ignored: the next transaction of the id aborts this one.
        """
        scope = trio.CancelScope(deadline=trio.current_time() + _ABORT_S, shield=True)
        with scope, contextlib.suppress(KafkaError, ClientError):
            await self.abort()

    async def _add_group(self) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            group_id=self._group_id,
        )

        def check(response: AddOffsetsToTxnResponse) -> None:
            raise_for(response.error_code, f"group {self._group_id}")

        await self._ask(TRANSACTION, request, AddOffsetsToTxnResponse, check, _ADD_OFFSETS_MAX)

    async def _commit_positions(self, positions: Mapping[Partition, GroupEntry]) -> None:
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self._group_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=name, partitions=entries)
                for name, entries in _by_topic(
                    (each, _committed(each, entry)) for each, entry in positions.items()
                )
            ],
        )

        def check(response: TxnOffsetCommitResponse) -> None:
            for found in response.topics:
                for each in found.partitions:
                    raise_for(each.error_code, f"group {self._group_id}")

        newest = None if self.is_short else _COMMIT_OFFSETS_MAX
        await self._ask(GROUP, request, TxnOffsetCommitResponse, check, newest)

    async def _end(self, *, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            committed=committed,
        )

        def check(response: EndTxnResponse) -> ProducerIdentity:
            raise_for(response.error_code, f"transactional id {self.transactional_id}")
            return ProducerIdentity(response.producer_id, response.producer_epoch)

        newest = None if self.is_short else _END_MAX
        identity = await self._ask(TRANSACTION, request, EndTxnResponse, check, newest)
        if self.is_short:
            self.identity = identity

    async def _ask(
        self,
        kind: int,
        request: Message,
        answer: type[R],
        check: Callable[[R], T],
        version_max: int | None,
    ) -> T:
        """Return what `check` makes of the coordinator's response; retriable errors are retried."""
        key = self.transactional_id if kind == TRANSACTION else self._group_id

        async def attempt() -> T:
            while True:
                try:
                    return await self._client.ask_coordinator(
                        key, _LANE, request, answer, check, kind=kind, max_version=version_max
                    )
                except KafkaError as error:
                    if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                        raise
                await trio.sleep(MARKERS_S)

        what = f"{type(request).__name__} of {self.transactional_id}"
        return await self._client.retry(what, attempt)


def _by_topic(found: Iterable[tuple[Partition, V]]) -> Iterable[tuple[str, list[V]]]:
    """Return the values of partitions by topic."""
    topics: defaultdict[str, list[V]] = defaultdict(list)
    for (name, _), value in found:
        topics[name].append(value)
    return topics.items()


def _committed(
    where: Partition, entry: GroupEntry
) -> TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
        partition_index=where[1],
        committed_offset=entry.offset,
        committed_leader_epoch=entry.leader_epoch,
        committed_metadata=entry.metadata,
    )
