"""Aggregates whose changes contain the values that they replace, for filters of their tables."""

from collections.abc import Iterator, Mapping, Sequence

import attrs

from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.kernel_protocol import Kernel
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side, Timed, Value


@attrs.frozen
class WithOldValues:
    """A kernel whose values are JSON: here they are `{"v":VALUE,"o":OLD}`, null for a tombstone.

    The state and its signature are those of the kernel, so a filter may be added or removed.
    """

    kernel: Kernel

    @property
    def signature(self) -> Mapping[str, Value]:
        """Return the signature of the kernel."""
        return self.kernel.signature

    @property
    def first(self) -> Side:
        """Return the side that the kernel takes first."""
        return self.kernel.first

    @property
    def timed(self) -> Timed:
        """Return which rows move the stream time of the kernel."""
        return self.kernel.timed

    @property
    def acts_on_time(self) -> bool:
        """True when the kernel does."""
        return self.kernel.acts_on_time

    def step(self, rows: Sequence[Row], state: BucketState) -> Iterator[Row]:
        """Take rows in the order of `in_stream_order`; yield changes with both values."""
        for row in self.kernel.step(rows, state):
            yield row._replace(
                value=b'{"v":%b,"o":%b}' % (row.value or b"null", row.old or b"null")
            )
