"""Reading a partition from an offset on."""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from barnabas.client.core.fetched_records import Aborted, visible_records
from barnabas.client.core.metadata_cache import LeaderHint, PartitionLeader
from barnabas.client.failures import Address, ConnectionFailureError
from barnabas.client.kafka_client import KafkaClient, is_retriable
from barnabas.protocol.batches.batch_header import CorruptBatch
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse

T = TypeVar("T")

PartitionData = FetchResponse.PartitionData

_READ_COMMITTED: Final = 1
_NAMED_VERSION_MAX: Final = 12
_CORRUPT_ATTEMPTS: Final = 3


class PartitionReader:
    """Reads one partition in order; `position` is the offset that it reads next.

    A wrong leader, a lost connection or a broker that starts again are waited out. Raises
    KafkaError: OFFSET_OUT_OF_RANGE when the position is not in the log, or for lacking
    authorization.
    """

    def __init__(
        self,
        client: KafkaClient,
        topic: str,
        partition: int,
        position: int,
        *,
        read_committed: bool = False,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.position = position
        self.high_watermark = -1
        """The end of the partition as of the last fetch, -1 before the first."""
        self._client = client
        self._read_committed = read_committed
        self._lane = f"fetch {topic}-{partition}"

    async def repeat(
        self, fetch_once: Callable[[float], Awaitable[T]], max_wait_s: float | None
    ) -> T:
        """Return the result of `fetch_once`, which waits up to `max_wait_s` for data.

        It is called again as long as the partition's leader cannot be reached.
        """
        wait_s = self._client.config.fetch_max_wait_s if max_wait_s is None else max_wait_s
        what = f"fetching {self.topic}-{self.partition}"
        failures = corrupt = 0
        while True:
            try:
                return await fetch_once(wait_s)
            except CorruptBatch as error:
                corrupt += 1
                if corrupt == _CORRUPT_ATTEMPTS:
                    raise KafkaError(
                        ErrorCode.CORRUPT_MESSAGE, f"{what} at offset {self.position}: {error}"
                    ) from None
                last: Exception = error
            except (KafkaError, ConnectionFailureError) as error:
                if not is_retriable(error):
                    raise
                last = error
            failures += 1
            await self._client.back_off(what, failures, last)

    def close(self) -> None:
        """Close the reader's connection; a later fetch opens a new one."""
        self._client.pool.close_lane(self._lane)

    async def fetch_data(self, wait_s: float) -> PartitionData:
        """Return what the leader has from the position on. Raises KafkaError for its error."""
        response = await self._client.ask_leader(
            self.topic,
            self.partition,
            lambda leader: self._request(leader, wait_s),
            FetchResponse,
            lane=self._lane,
            timeout_s=self._client.config.request_timeout_s + wait_s,
            max_named_version=_NAMED_VERSION_MAX,
        )
        data = self._partition_data(response)
        self.high_watermark = data.high_watermark
        return data

    def _request(self, leader: PartitionLeader, wait_s: float) -> FetchRequest:
        config = self._client.config
        wanted = FetchRequest.FetchPartition(
            partition=self.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=self.position,
            partition_max_bytes=config.fetch_max_bytes,
        )
        topic = FetchRequest.FetchTopic(
            topic=self.topic, topic_id=leader.topic_id, partitions=[wanted]
        )
        return FetchRequest(
            max_wait_ms=round(wait_s * 1000),
            min_bytes=1,
            max_bytes=config.fetch_max_bytes,
            isolation_level=_READ_COMMITTED if self._read_committed else 0,
            topics=[topic],
        )

    def _partition_data(self, response: FetchResponse) -> PartitionData:
        """Return the partition's part of a response. Raises KafkaError for its error."""
        self._client.check_partition(response.error_code, self.topic, self.partition)
        for topic in response.responses:
            for data in topic.partitions:
                hint = _leader_hint(response, data)
                self._client.check_partition(data.error_code, self.topic, self.partition, hint)
                return data
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "a fetch response without the partition")


class RecordReader(PartitionReader):
    """Reads the records of one partition.

    Three ways to read: `fetch` for what is there now, `until` an end that `admin_calls.list_offset`
    gave, and `async for` without an end. A position that reaches the end has read everything before
    it: control records and aborted transactions move the position too.
    """

    def __aiter__(self) -> "RecordIterator":
        """Iterate over all records, waiting for new ones."""
        return RecordIterator(self, None)

    def until(self, end: int) -> "RecordIterator":
        """Iterate over the records before `end`, then stop."""
        return RecordIterator(self, end)

    async def fetch(self, max_wait_s: float | None = None) -> list[Record]:
        """Return records at the position and move it behind them; none came in time when empty.

        It waits for the first record up to `max_wait_s` (`fetch.max.wait.ms`), and as long as the
        partition's leader cannot be reached.
        """
        return await self.repeat(self._fetch_once, max_wait_s)

    async def _fetch_once(self, wait_s: float) -> list[Record]:
        data = await self.fetch_data(wait_s)
        aborted = None
        if self._read_committed:
            aborted = [
                Aborted(item.first_offset, item.producer_id)
                for item in data.aborted_transactions or ()
            ]
        fetched = visible_records(bytes(data.records or b""), self.position, aborted)
        self.position = fetched.next_offset
        return fetched.records


class RecordIterator:
    """One loop over a reader's records; a loop that is left early leaves the rest to be read."""

    def __init__(self, reader: RecordReader, end: int | None) -> None:
        self._reader = reader
        self._end = end
        self._ready: deque[Record] = deque()
        self._next_position = 0

    def __aiter__(self) -> "RecordIterator":
        """Return itself."""
        return self

    async def __anext__(self) -> Record:
        """Return the next record before the end."""
        reader, end = self._reader, self._end
        while not self._ready:
            if end is not None and reader.position >= end:
                raise StopAsyncIteration
            self._ready.extend(await reader.fetch())
            self._next_position = reader.position
        record = self._ready.popleft()
        if end is not None and record.offset >= end:
            self._ready.clear()
            reader.position = end
            raise StopAsyncIteration
        reader.position = record.offset + 1 if self._ready else self._next_position
        return record


def _leader_hint(response: FetchResponse, data: PartitionData) -> LeaderHint:
    leader = data.current_leader
    addresses = {item.node_id: Address(item.host, item.port) for item in response.node_endpoints}
    return LeaderHint(leader.leader_id, leader.leader_epoch, addresses.get(leader.leader_id))
