"""A transaction at the target: records, and the position in the source after them, or neither.

The requests are those of a producer before transactions of version 2 (KIP-890), which every Kafka
since 0.11 answers. `begin` takes the transactional id over: it aborts what an earlier copy has left
open, and fences its producer. The position is read after that, so no other copy can move it.
"""

import contextlib
from collections.abc import Callable
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
# The newest versions that are not of transactions of version 2, or not for brokers only.
_INIT_MAX: Final = 5
_ADD_PARTITIONS_MAX: Final = 3
_ADD_OFFSETS_MAX: Final = 3
_COMMIT_OFFSETS_MAX: Final = 3
_END_MAX: Final = 4
_FETCH_ONE_GROUP_MAX: Final = 7

R = TypeVar("R", bound=Message)
T = TypeVar("T")


class TargetTransaction:
    """One transaction of the flow, in one partition of the target."""

    def __init__(
        self, client: KafkaClient, transactional_id: str, group_id: str, where: Partition
    ) -> None:
        self._client = client
        self._id = transactional_id
        self._group_id = group_id
        self._topic, self._partition = where
        self._identity = ProducerIdentity(-1, -1)

    async def begin(self, timeout_ms: int) -> ProducerIdentity:
        """Take the transactional id over and return the identity to write with."""
        request = InitProducerIdRequest(
            transactional_id=self._id, transaction_timeout_ms=timeout_ms
        )

        def check(response: InitProducerIdResponse) -> ProducerIdentity:
            raise_for(response.error_code, f"transactional id {self._id}")
            return ProducerIdentity(response.producer_id, response.producer_epoch)

        self._identity = await self._ask(
            TRANSACTION, request, InitProducerIdResponse, check, _INIT_MAX
        )
        return self._identity

    async def position(self) -> GroupEntry:
        """Return the committed position; offset -1 when there is none."""
        topic = OffsetFetchRequest.OffsetFetchRequestTopic(
            name=self._topic, partition_indexes=[self._partition]
        )
        request = OffsetFetchRequest(group_id=self._group_id, topics=[topic], require_stable=True)

        def check(response: OffsetFetchResponse) -> GroupEntry:
            raise_for(response.error_code, f"group {self._group_id}")
            for found in response.topics:
                for each in found.partitions:
                    raise_for(each.error_code, f"group {self._group_id}")
                    return GroupEntry.of(each)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "no offset in the response")

        return await self._ask(GROUP, request, OffsetFetchResponse, check, _FETCH_ONE_GROUP_MAX)

    async def add_partition(self) -> None:
        """Make the partition a part of the transaction, before its first batch."""
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
            name=self._topic, partitions=[self._partition]
        )
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._identity.producer_id,
            v3_and_below_producer_epoch=self._identity.epoch,
            v3_and_below_topics=[topic],
        )

        def check(response: AddPartitionsToTxnResponse) -> None:
            for found in response.results_by_topic_v3_and_below:
                for each in found.results_by_partition:
                    raise_for(each.partition_error_code, f"{self._topic}-{self._partition}")

        await self._ask(
            TRANSACTION, request, AddPartitionsToTxnResponse, check, _ADD_PARTITIONS_MAX
        )

    async def commit(self, position: GroupEntry) -> None:
        """Commit the batches that were produced, and the position after them."""
        identity = self._identity
        added = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=self._group_id,
        )

        def added_check(response: AddOffsetsToTxnResponse) -> None:
            raise_for(response.error_code, f"group {self._group_id}")

        await self._ask(TRANSACTION, added, AddOffsetsToTxnResponse, added_check, _ADD_OFFSETS_MAX)
        await self._commit_position(position)
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

    async def _commit_position(self, position: GroupEntry) -> None:
        partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=self._partition,
            committed_offset=position.offset,
            committed_leader_epoch=position.leader_epoch,
            committed_metadata=position.metadata,
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=self._group_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                    name=self._topic, partitions=[partition]
                )
            ],
        )

        def check(response: TxnOffsetCommitResponse) -> None:
            for found in response.topics:
                for each in found.partitions:
                    raise_for(each.error_code, f"group {self._group_id}")

        await self._ask(GROUP, request, TxnOffsetCommitResponse, check, _COMMIT_OFFSETS_MAX)

    async def _end(self, *, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            committed=committed,
        )

        def check(response: EndTxnResponse) -> None:
            raise_for(response.error_code, f"transactional id {self._id}")

        await self._ask(TRANSACTION, request, EndTxnResponse, check, _END_MAX)

    async def _ask(
        self,
        kind: int,
        request: Message,
        answer: type[R],
        check: Callable[[R], T],
        version_max: int,
    ) -> T:
        """Return what `check` makes of the coordinator's response; retriable errors are retried."""

        key = self._id if kind == TRANSACTION else self._group_id

        async def attempt() -> T:
            return await self._client.ask_coordinator(
                key, _LANE, request, answer, check, kind=kind, max_version=version_max
            )

        return await self._client.retry(f"{type(request).__name__} of {self._id}", attempt)
