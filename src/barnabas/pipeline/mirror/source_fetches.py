"""The fetches of a copy: whole batches of one partition of the source, response by response."""

from typing import Final

import attrs
import trio

from barnabas.client import KafkaClient
from barnabas.client.core.fetched_records import Aborted
from barnabas.client.core.metadata_cache import LeaderHint, PartitionLeader
from barnabas.client.failures import Address
from barnabas.pipeline.mirror.flow_values import NO_EPOCH, Partition
from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse

_LANE: Final = "mirror fetch"
_NAMED_VERSION_MAX: Final = 12
_EPOCH_VERSION_MIN: Final = 12
"""The oldest version with the leader epoch of the reader's last batch; brokers since 2.7."""
_READ_COMMITTED: Final = 1
_MAX_WAIT_MS: Final = 500
_BYTES_MIN: Final = 1 << 20
_UNANSWERED_S: Final = 0.1


class DivergedLogError(Exception):
    """The log is not the one that was read before: an unclean election took records back."""

    def __init__(self, end_offset: int) -> None:
        super().__init__(end_offset)
        self.end_offset = end_offset
        """The first offset that differs."""


@attrs.frozen
class FetchedData:
    """The data of one response."""

    data: bytes = attrs.field(repr=False)
    aborted: tuple[Aborted, ...]
    end: int
    """The end of what the leader could return: the last stable offset, or the high watermark."""

    @classmethod
    def of(cls, answer: FetchResponse.PartitionData, *, read_committed: bool) -> "FetchedData":
        """Return the data of a partition in a response."""
        aborted = tuple(
            Aborted(item.first_offset, item.producer_id)
            for item in answer.aborted_transactions or ()
        )
        end = answer.last_stable_offset if read_committed else answer.high_watermark
        return cls(bytes(answer.records or b""), aborted, end)


class SourceFetches:
    """Fetches from the leader of one partition."""

    def __init__(self, client: KafkaClient, where: Partition, *, read_committed: bool) -> None:
        self._client = client
        self._topic, self._partition = where
        self._read_committed = read_committed
        self._bytes_max = max(_BYTES_MIN, client.config.fetch_max_bytes)

    async def fetch(self, offset: int, leader_epoch: int = NO_EPOCH) -> FetchedData:
        """Return what is stored from an offset on.

        With the leader epoch of the batch that ends at the offset, the leader compares its log with
        that (KIP-595). Raises DivergedLogError, KafkaError, ConnectionFailureError.
        """
        while True:
            known = leader_epoch if await self._takes_epochs() else NO_EPOCH
            response = await self._client.ask_leader(
                self._topic,
                self._partition,
                lambda leader: self._request(leader, offset, known),  # noqa: B023
                FetchResponse,
                lane=_LANE,
                max_named_version=_NAMED_VERSION_MAX,
            )
            found = self._found(response)
            if found is not None:
                return found
            await trio.sleep(_UNANSWERED_S)  # a broker that throttles answers without the partition

    async def _takes_epochs(self) -> bool:
        """True when the leader's version of Fetch has the epoch of the last batch."""
        client = self._client
        leader = await client.leader(self._topic, self._partition)
        address = client.metadata.brokers.get(leader.node_id)
        if address is None:
            return False  # the request itself fails, and is repeated
        connection = await client.pool.connection(address, _LANE)
        return connection.versions.choose(FetchRequest.API_KEY) >= _EPOCH_VERSION_MIN

    def _request(self, leader: PartitionLeader, offset: int, leader_epoch: int) -> FetchRequest:
        wanted = FetchRequest.FetchPartition(
            partition=self._partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=offset,
            last_fetched_epoch=leader_epoch,
            partition_max_bytes=self._bytes_max,
        )
        topic = FetchRequest.FetchTopic(
            topic=self._topic, topic_id=leader.topic_id, partitions=[wanted]
        )
        return FetchRequest(
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=self._bytes_max,
            isolation_level=_READ_COMMITTED if self._read_committed else 0,
            topics=[topic],
        )

    def _found(self, response: FetchResponse) -> FetchedData | None:
        """Return the data of the partition, None without it. Raises as `fetch`."""
        client, topic, partition = self._client, self._topic, self._partition
        client.check_partition(response.error_code, topic, partition)
        for found in response.responses:
            for each in found.partitions:
                leader = each.current_leader
                nodes = {node.node_id: node for node in response.node_endpoints}
                node = nodes.get(leader.leader_id)
                address = Address(node.host, node.port) if node is not None else None
                hint = LeaderHint(leader.leader_id, leader.leader_epoch, address)
                client.check_partition(each.error_code, topic, partition, hint)
                if each.diverging_epoch.end_offset >= 0:
                    raise DivergedLogError(each.diverging_epoch.end_offset)
                return FetchedData.of(each, read_committed=self._read_committed)
        return None


def first_offset(data: bytes, otherwise: int) -> int:
    """Return the base offset of the first batch of a response; `otherwise` without any."""
    return next((header.base_offset for _, header in iter_batches(data)), otherwise)
