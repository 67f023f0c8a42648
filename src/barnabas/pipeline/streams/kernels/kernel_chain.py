"""Several kernels as one, where the outputs of each stay in the bucket of their key."""

from collections.abc import Iterator, Mapping, Sequence

import attrs

from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.kernel_protocol import Kernel
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side, Timed, Value


@attrs.frozen
class Chain:
    """Kernels one after the other, such as a windowed aggregate and `Suppress`.

    Each row passes all kernels before the next row enters. A kernel that changes keys may only be
    the last one: its outputs belong to other buckets.
    """

    kernels: Sequence[Kernel] = attrs.field(validator=attrs.validators.min_len(1))

    @property
    def signature(self) -> Mapping[str, Value]:
        """Return the signatures of all kernels, by place."""
        names = [str(kernel.signature.get("kernel")) for kernel in self.kernels]
        parts = {f"{place}": dict(kernel.signature) for place, kernel in enumerate(self.kernels)}
        return {"kernel": " > ".join(names), **parts}

    @property
    def first(self) -> Side:
        """Return the side that the first kernel takes first."""
        return self.kernels[0].first

    @property
    def timed(self) -> Timed:
        """Return which rows move the stream time of the first kernel."""
        return self.kernels[0].timed

    @property
    def acts_on_time(self) -> bool:
        """True when one of the kernels does."""
        return any(kernel.acts_on_time for kernel in self.kernels)

    def step(self, rows: Sequence[Row], state: BucketState) -> Iterator[Row]:
        """Take rows in the order of `in_stream_order`; yield what leaves the last kernel."""
        for row in rows:
            yield from self._outputs([row], 0, state)

    def _outputs(self, rows: Sequence[Row], place: int, state: BucketState) -> Iterator[Row]:
        if place == len(self.kernels):
            yield from (row for row in rows if row.side is not Side.TIME)
            return
        part = state.part(str(place))
        for row in rows:
            outputs = list(self.kernels[place].step([row], part))
            if row.side is Side.TIME:
                outputs.append(row)
            yield from self._outputs(outputs, place + 1, state)
