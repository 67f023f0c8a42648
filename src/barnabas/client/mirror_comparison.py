"""Comparing a mirror with its source: the batches of both logs, in the order of their offsets.

Both have the same offsets, and a batch is the same when its crc is: it covers everything except the
offset, the length and the leader epoch.
"""

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from barnabas.client.admin_calls import list_offset
from barnabas.client.batch_reader import BatchReader
from barnabas.client.kafka_client import KafkaClient
from barnabas.protocol.batches.batch_header import BatchHeader
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse

_EARLIEST: Final = -2
_LATEST: Final = -1


@attrs.frozen
class Difference:
    """The first batch that is not the same on both sides; what a side has, empty for nothing."""

    offset: int
    source: str
    target: str

    def __str__(self) -> str:
        source, target = self.source or "no batch", self.target or "no batch"
        return f"offset {self.offset}: the source has {source}, the target has {target}"


@attrs.frozen
class Comparison:
    """One partition: the compared offsets, and how far the target is behind."""

    topic: str
    partition: int
    start: int
    end: int
    behind: int
    batches: int
    difference: Difference | None


async def compare(
    source: KafkaClient, target: KafkaClient, topic: str, partition: int
) -> Comparison:
    """Compare the offsets that both sides have now, up to the first difference.

    Raises KafkaError, ClientError.
    """
    ends = [await list_offset(each, topic, partition, _LATEST) for each in (source, target)]
    starts = [await list_offset(each, topic, partition, _EARLIEST) for each in (source, target)]
    start, end = max(starts), min(ends)
    sides = [_Side(each, topic, partition, start, end) for each in (source, target)]
    count, difference = 0, None
    while difference is None:
        first, second = await sides[0].next(), await sides[1].next()
        if first is None and second is None:
            break
        if first is None or second is None or _place(first) != _place(second):
            offset = min(each.base_offset for each in (first, second) if each is not None)
            difference = Difference(offset, *_shown(first, second, offset))
        count += difference is None
    behind = max(ends[0] - ends[1], 0)
    return Comparison(topic, partition, start, max(start, end), behind, count, difference)


class _Side:
    """The batches of one side, up to an end."""

    def __init__(
        self, client: KafkaClient, topic: str, partition: int, start: int, end: int
    ) -> None:
        self._reader = BatchReader(client, topic, partition, start)
        self._end = end
        self._ready: list[BatchHeader] = []

    async def next(self) -> BatchHeader | None:
        """Return the next batch; None at the end."""
        while not self._ready:
            if self._reader.position >= self._end:
                return None
            self._ready = (await self._reader.fetch())[::-1]
        header = self._ready.pop()
        return header if header.base_offset < self._end else None


def _place(header: BatchHeader) -> tuple[int, int, int]:
    return header.base_offset, header.last_offset, header.crc


def _shown(first: BatchHeader | None, second: BatchHeader | None, offset: int) -> Sequence[str]:
    return [
        f"{each.record_count} records up to offset {each.last_offset} with crc {each.crc:08x}"
        if each is not None and each.base_offset == offset
        else ""
        for each in (first, second)
    ]


async def partitions(
    source: KafkaClient, target: KafkaClient, matches: Callable[[str], object]
) -> list[tuple[str, int]]:
    """Return the partitions of both clusters whose topics match. Raises KafkaError, ClientError."""
    found = [await _partitions(each) for each in (source, target)]
    common = found[0] & found[1]
    return sorted(each for each in common if matches(each[0]))


async def _partitions(client: KafkaClient) -> set[tuple[str, int]]:
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)

    async def attempt() -> MetadataResponse:
        return await client.ask_any(request, MetadataResponse)

    response = await client.retry("listing the topics", attempt)
    return {
        (topic.name or "", partition.partition_index)
        for topic in response.topics
        if not topic.is_internal
        for partition in topic.partitions
    }
