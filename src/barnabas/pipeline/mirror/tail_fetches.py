"""Fetches of all partitions of the flow that one broker leads: whole batches, in one request."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from barnabas.client import KafkaClient
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.core.metadata_cache import PartitionLeader
from barnabas.pipeline.mirror.flow_values import Partition
from barnabas.pipeline.mirror.source_fetches import FetchedData
from barnabas.protocol.errors import ErrorCode, KafkaError, error_code
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.types import ZERO_UUID

_LANE: Final = "mirror tail"
_NAMED_VERSION_MAX: Final = 12
_READ_COMMITTED: Final = 1
_PARTITION_BYTES: Final = 1 << 20


@attrs.frozen
class TailPosition:
    """The offset at which the fetch of a partition begins."""

    where: Partition
    offset: int
    leader_epoch: int
    """The leader epoch of the batch before the offset, where it is known."""


class TailFetches:
    """Fetches from one leader."""

    def __init__(
        self,
        client: KafkaClient,
        connection: BrokerConnection,
        leaders: Mapping[Partition, PartitionLeader],
        *,
        read_committed: bool,
    ) -> None:
        """`leaders` are those of the partitions: all of them the broker of the connection."""
        self._client = client
        self._connection = connection
        self._leaders = leaders
        self._names = {leader.topic_id: topic for (topic, _), leader in leaders.items()}
        self._has_ids = ZERO_UUID not in self._names
        self._read_committed = read_committed

    async def fetch(
        self, wanted: Sequence[TailPosition], wait_ms: int
    ) -> dict[Partition, FetchedData | KafkaError]:
        """Return what the leader has, after at most `wait_ms` without any data.

        A partition whose log is not the one that was copied has OFFSET_OUT_OF_RANGE. Raises
        KafkaError, ConnectionFailureError.
        """
        response = await self._connection.ask(
            self._request(wanted, wait_ms),
            FetchResponse,
            max_version=None if self._has_ids else _NAMED_VERSION_MAX,
        )
        if response.error_code:
            raise KafkaError(error_code(response.error_code), "fetching from the source")
        found: dict[Partition, FetchedData | KafkaError] = {}
        for topic in response.responses:
            name = self._names.get(topic.topic_id, "") if self._has_ids else topic.topic
            for each in topic.partitions:
                where = name, each.partition_index
                found[where] = self._result(where, each)
        return found

    def _request(self, wanted: Sequence[TailPosition], wait_ms: int) -> FetchRequest:
        by_topic: defaultdict[str, list[FetchRequest.FetchPartition]] = defaultdict(list)
        for each in wanted:
            topic, partition = each.where
            by_topic[topic].append(
                FetchRequest.FetchPartition(
                    partition=partition,
                    current_leader_epoch=self._leaders[each.where].epoch,
                    fetch_offset=each.offset,
                    last_fetched_epoch=each.leader_epoch,
                    partition_max_bytes=_PARTITION_BYTES,
                )
            )
        ids = {name: topic_id for topic_id, name in self._names.items()}
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=max(_PARTITION_BYTES, self._client.config.fetch_max_bytes),
            isolation_level=_READ_COMMITTED if self._read_committed else 0,
            topics=[
                FetchRequest.FetchTopic(
                    topic=name, topic_id=ids.get(name, ZERO_UUID), partitions=partitions
                )
                for name, partitions in by_topic.items()
            ],
        )

    def _result(
        self, where: Partition, answer: FetchResponse.PartitionData
    ) -> FetchedData | KafkaError:
        if answer.error_code:
            self._client.metadata.forget_leader(*where)
            return KafkaError(error_code(answer.error_code), f"{where[0]}-{where[1]}")
        if answer.diverging_epoch.end_offset >= 0:
            return KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{where[0]}-{where[1]} has diverged")
        return FetchedData.of(answer, read_committed=self._read_committed)


async def tail_connection(client: KafkaClient, node_id: int) -> BrokerConnection:
    """Return the connection of a leader's fetches.

    Raises ConnectionFailureError, and KafkaError UNSUPPORTED_VERSION for a broker that cannot
    compare leader epochs (before 2.7).
    """
    address = client.metadata.brokers.get(node_id)
    if address is None:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {node_id}")
    connection = await client.pool.connection(address, _LANE)
    newest = connection.versions.choose(FetchRequest.API_KEY)
    if newest < _NAMED_VERSION_MAX:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"broker {node_id} has Fetch v{newest}")
    return connection
