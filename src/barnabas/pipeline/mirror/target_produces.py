"""The Produce requests of a copy: several of one partition in flight, answered in order."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from barnabas.client import KafkaClient
from barnabas.client.broker_connection import BrokerConnection, PostedRequest
from barnabas.client.failures import ConnectionFailureError
from barnabas.pipeline.mirror.batch_copy import CopiedData
from barnabas.pipeline.mirror.flow_values import Partition
from barnabas.protocol.batches.compression import Buffer
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.types import ZERO_UUID

PRODUCE_LANE: Final = "mirror produce"
TRANSACTION_MAX: Final = 11
"""The newest version that is not of transactions of version 2 (KIP-890)."""
NAMED_MAX: Final = 12
"""The newest version that names topics; later ones have their ids."""
ACKS_ALL: Final = -1
IN_FLIGHT_MAX: Final = 5
"""A leader recognizes the last five batches of a producer."""


def check_produced(
    client: KafkaClient, answer: ProduceResponse.PartitionProduceResponse, where: Partition
) -> None:
    """Raise the error of a partition, with the broker's text when there is one."""
    try:
        client.check_partition(answer.error_code, *where)
    except KafkaError as error:
        if not answer.error_message:
            raise
        text = f"{where[0]}-{where[1]}: {answer.error_message}"
        raise KafkaError(error.code, text) from None


async def await_answers(posted: Iterable[PostedRequest[ProduceResponse]]) -> None:
    """Return when requests are answered or lost.

    An abort must not overtake a batch, which would begin a transaction that nothing ends.
    """
    for each in posted:
        with contextlib.suppress(ConnectionFailureError):
            await each.response()


class TargetProduces:
    """Sends batches to the leader of one partition, as it was at the first batch.

    A failure leaves later batches unsent. The caller then begins again: a transaction is aborted,
    and a mirror topic says where its log ends.
    """

    def __init__(
        self,
        client: KafkaClient,
        where: Partition,
        transactional_id: str | None,
        note: Callable[[CopiedData, int], None] | None = None,
    ) -> None:
        """`note` gets each batch that was appended, and the offset of its first record."""
        self._client = client
        self._note = note
        self._topic, self._partition = where
        self._transactional_id = transactional_id
        self._posted: deque[tuple[PostedRequest[ProduceResponse], CopiedData]] = deque()
        self._connection: BrokerConnection | None = None
        self._topic_id = ZERO_UUID

    async def send(self, batch: CopiedData) -> None:
        """Send a batch, after a response where as many requests as allowed are in flight.

        Raises KafkaError, ConnectionFailureError.
        """
        while len(self._posted) >= IN_FLIGHT_MAX:
            await self._settle()
        connection = await self._connected()
        newest = TRANSACTION_MAX
        if self._transactional_id is None:
            newest = NAMED_MAX if self._topic_id == ZERO_UUID else None
        request = self._request(batch.data)
        posted = await connection.post(request, ProduceResponse, max_version=newest)
        self._posted.append((posted, batch))

    async def flush(self) -> None:
        """Return when every batch is acknowledged. Raises KafkaError, ConnectionFailureError."""
        while self._posted:
            await self._settle()

    async def _settle(self) -> None:
        """Await the oldest response; after a failure, all of them."""
        posted, batch = self._posted.popleft()
        try:
            self._check(await posted.response(), batch)
        except (KafkaError, ConnectionFailureError) as error:
            if isinstance(error, ConnectionFailureError):
                self._client.metadata.forget_leader(self._topic, self._partition)
            await await_answers(posted for posted, _ in self._posted)
            raise

    def _check(self, response: ProduceResponse, batch: CopiedData) -> None:
        for topic in response.responses:
            for answer in topic.partition_responses:
                check_produced(self._client, answer, (self._topic, self._partition))
                if self._note is not None:
                    self._note(batch, answer.base_offset)
                return
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "a Produce response without the partition")

    async def _connected(self) -> BrokerConnection:
        """Return the connection of all batches: a second one could overtake the first."""
        if self._connection is None:
            client, topic, partition = self._client, self._topic, self._partition
            leader = await client.leader(topic, partition)
            self._topic_id = leader.topic_id
            address = client.metadata.brokers.get(leader.node_id)
            if address is None:
                client.metadata.forget_leader(topic, partition)
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition}")
            try:
                self._connection = await client.pool.connection(address, PRODUCE_LANE)
            except ConnectionFailureError:
                client.metadata.forget_leader(topic, partition)
                raise
        return self._connection

    def _request(self, data: Buffer) -> ProduceRequest:
        partition = ProduceRequest.PartitionProduceData(index=self._partition, records=data)
        topic = ProduceRequest.TopicProduceData(
            name=self._topic, topic_id=self._topic_id, partition_data=[partition]
        )
        return ProduceRequest(
            transactional_id=self._transactional_id,
            acks=ACKS_ALL,
            timeout_ms=round(self._client.config.request_timeout_s * 1000),
            topic_data=[topic],
        )
