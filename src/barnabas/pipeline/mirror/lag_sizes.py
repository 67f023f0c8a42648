"""The bytes that a flow has yet to copy, estimated from the offsets that it has yet to copy."""

import contextlib
from collections.abc import Collection

from barnabas.client import ClientError, KafkaClient
from barnabas.pipeline.mirror.cluster_queries import partition_sizes
from barnabas.pipeline.mirror.flow_starts import PartitionView
from barnabas.pipeline.mirror.flow_values import CopyFigures, Partition
from barnabas.protocol.errors import KafkaError


class LagSizes:
    """Bytes by offset of each partition: of its log at the source, and then of its newest copy."""

    def __init__(self, source: KafkaClient) -> None:
        self._source = source
        self._by_offset: dict[Partition, float] = {}

    async def read(self, views: Collection[PartitionView]) -> None:
        """Read the sizes of logs, if the source lets the flow describe them."""
        pairs = [(view.topic, view.partition) for view in views]
        sizes: dict[Partition, int] = {}
        with contextlib.suppress(KafkaError, ClientError):  # Describe on the cluster may be missing
            sizes = await partition_sizes(self._source, pairs)
        for view in views:
            where = view.topic, view.partition
            count = view.source_end - view.source_start
            if where in sizes and count > 0:
                self._by_offset[where] = sizes[where] / count

    def take_in(self, done: CopyFigures, start: int) -> None:
        """Note the size of a copy that began at `start`."""
        count = done.position - start
        if done.batches and count > 0:
            self._by_offset[done.where] = done.bytes / count

    def estimate(self, where: Partition, offsets: int) -> int | None:
        """Return the size of a number of offsets; None without a size of the partition."""
        if offsets == 0:
            return 0
        by_offset = self._by_offset.get(where)
        return None if by_offset is None else round(by_offset * offsets)
