"""The Produce requests of a tail's transaction: a batch of each partition in one request."""

import itertools
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence

import attrs
import trio

from barnabas.client import ClientError, KafkaClient
from barnabas.client.broker_connection import BrokerConnection, PostedRequest
from barnabas.client.failures import ConnectionFailureError
from barnabas.pipeline.mirror.batch_copy import CopiedData
from barnabas.pipeline.mirror.flow_values import Partition
from barnabas.pipeline.mirror.target_produces import (
    ACKS_ALL,
    IN_FLIGHT_MAX,
    NAMED_MAX,
    PRODUCE_LANE,
    TRANSACTION_MAX,
    await_answers,
    check_produced,
)
from barnabas.pipeline.mirror.target_transaction import MARKERS_S, TargetTransaction
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse


@attrs.frozen
class PartitionBatches:
    """Batches of one partition of the target, in order."""

    where: Partition
    batches: Sequence[CopiedData]
    note: Callable[[CopiedData, int], None] | None = None
    """Gets each batch that was appended, and the offset of its first record."""


@attrs.frozen
class _Sent:
    """A batch of a request that waits for its response."""

    of: PartitionBatches
    batch: CopiedData


class TailProduces:
    """Sends batches to the leaders of their partitions; a failure leaves later batches unsent."""

    def __init__(self, client: KafkaClient, transaction: TargetTransaction) -> None:
        self._client = client
        self._transaction = transaction

    async def send(self, wanted: Iterable[PartitionBatches]) -> None:
        """Send batches, and return when all are acknowledged. Raises KafkaError, ClientError."""
        leaders: defaultdict[int, list[PartitionBatches]] = defaultdict(list)
        for each in wanted:
            leaders[(await self._client.leader(*each.where)).node_id].append(each)
        if len(leaders) == 1:
            for node_id, of_leader in leaders.items():
                await self._send_to(node_id, of_leader)
            return
        failures: list[KafkaError | ClientError] = []

        async def send_to(node_id: int, of_leader: list[PartitionBatches]) -> None:
            try:
                await self._send_to(node_id, of_leader)
            except (KafkaError, ClientError) as error:  # a nursery would wrap it in a group
                failures.append(error)

        async with trio.open_nursery() as nursery:
            for node_id, of_leader in leaders.items():
                nursery.start_soon(send_to, node_id, of_leader)
        if failures:
            raise failures[0]

    async def _send_to(self, node_id: int, wanted: Sequence[PartitionBatches]) -> None:
        """Send to one leader. The first request makes partitions a part of the transaction."""
        connection = await self._connected(node_id, wanted)
        first, *others = _requests(wanted)
        deadline = trio.current_time() + self._client.config.api_timeout_s
        while again := await self._settle(first, await self._post(connection, first)):
            if trio.current_time() > deadline:
                raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "producing to the target")
            await trio.sleep(MARKERS_S)
            first = again
        posted: deque[tuple[list[_Sent], PostedRequest[ProduceResponse]]] = deque()
        try:
            for each in others:
                if len(posted) >= IN_FLIGHT_MAX:
                    await self._settle_all(*posted.popleft())
                posted.append((each, await self._post(connection, each)))
            while posted:
                await self._settle_all(*posted.popleft())
        except (KafkaError, ClientError):
            await await_answers(request for _, request in posted)
            raise

    async def _connected(
        self, node_id: int, wanted: Sequence[PartitionBatches]
    ) -> BrokerConnection:
        address = self._client.metadata.brokers.get(node_id)
        try:
            if address is None:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"node {node_id} is not known")
            return await self._client.pool.connection(address, PRODUCE_LANE)
        except (KafkaError, ConnectionFailureError):
            self._forget(wanted)
            raise

    def _forget(self, wanted: Iterable[PartitionBatches]) -> None:
        for each in wanted:
            self._client.metadata.forget_leader(*each.where)

    async def _post(
        self, connection: BrokerConnection, wanted: Iterable[_Sent]
    ) -> PostedRequest[ProduceResponse]:
        topics: defaultdict[str, list[ProduceRequest.PartitionProduceData]] = defaultdict(list)
        for sent in wanted:
            topic, number = sent.of.where
            data = ProduceRequest.PartitionProduceData(index=number, records=sent.batch.data)
            topics[topic].append(data)
        request = ProduceRequest(
            transactional_id=self._transaction.transactional_id,
            acks=ACKS_ALL,
            timeout_ms=round(self._client.config.request_timeout_s * 1000),
            topic_data=[
                ProduceRequest.TopicProduceData(name=name, partition_data=partitions)
                for name, partitions in topics.items()
            ],
        )
        newest = NAMED_MAX if self._transaction.is_short else TRANSACTION_MAX
        return await connection.post(request, ProduceResponse, max_version=newest)

    async def _settle_all(
        self, wanted: Iterable[_Sent], posted: PostedRequest[ProduceResponse]
    ) -> None:
        if await self._settle(wanted, posted):
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "producing to the target")

    async def _settle(
        self, wanted: Iterable[_Sent], posted: PostedRequest[ProduceResponse]
    ) -> list[_Sent]:
        """Await a response; return what has to be sent again.

        That is what the target could not make a part of the transaction yet, because it writes the
        markers of the transaction before. Raises KafkaError, ConnectionFailureError.
        """
        try:
            response = await posted.response()
        except ConnectionFailureError:
            self._forget(sent.of for sent in wanted)
            raise
        answers = {
            (topic.name, answer.index): answer
            for topic in response.responses
            for answer in topic.partition_responses
        }
        again: list[_Sent] = []
        for sent in wanted:
            answer = answers.get(sent.of.where)
            if answer is None:
                text = "a Produce response without the partition"
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
            if answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
                again.append(sent)
                continue
            check_produced(self._client, answer, sent.of.where)
            if sent.of.note is not None:
                sent.of.note(sent.batch, answer.base_offset)
        return again


def _requests(wanted: Iterable[PartitionBatches]) -> list[list[_Sent]]:
    """Return what each request has: at most one batch of a partition."""
    columns = [[_Sent(each, batch) for batch in each.batches] for each in wanted]
    rows = itertools.zip_longest(*columns)
    return [[sent for sent in row if sent is not None] for row in rows]
