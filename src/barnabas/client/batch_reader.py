"""Reading the batches of a partition as they are, without their records."""

from barnabas.client.record_reader import PartitionReader
from barnabas.protocol.batches.batch_header import BatchHeader, iter_batches


class BatchReader(PartitionReader):
    """Reads the headers of one partition's batches in order; `position` is the next offset.

    Control batches and those of aborted transactions are among them. Raises as `RecordReader`.
    """

    async def fetch(self, max_wait_s: float | None = None) -> list[BatchHeader]:
        """Return batches from the one at the position on, and move the position behind them.

        The first one may begin before the position. Empty when none came in time.
        """
        return await self.repeat(self._fetch_once, max_wait_s)

    async def _fetch_once(self, wait_s: float) -> list[BatchHeader]:
        data = await self.fetch_data(wait_s)
        headers = [header for _, header in iter_batches(bytes(data.records or b""))]
        if headers:
            self.position = headers[-1].next_offset
        return headers
