"""Rows for tests of kernels, and steps over them in batches with a stored state between."""

import contextlib
from collections.abc import Iterable, Iterator

from hypothesis import strategies as st

from barnabas.pipeline.streams.kernels import state_pages
from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.kernel_protocol import Kernel
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side

KEYS = [b"a", b"b", b"c"]


def record(
    key: bytes | None, value: object, time_ms: int, side: Side = Side.LEFT, partition: int = 0
) -> Row:
    return Row(key, value, time_ms, side, partition)


def rows(
    *,
    sides: Iterable[Side] = (Side.LEFT,),
    values: st.SearchStrategy[object] | None = None,
    keys: Iterable[bytes | None] = KEYS,
    until_ms: int = 60,
    most: int = 30,
) -> st.SearchStrategy[list[Row]]:
    """Rows of one partition with unordered timestamps, in the order of their arrival."""
    value = st.one_of(st.none(), st.integers(0, 9)) if values is None else values
    entry = st.builds(
        record,
        st.sampled_from(list(keys)),
        value,
        st.integers(0, until_ms),
        st.sampled_from(list(sides)),
    )
    return st.lists(entry, max_size=most)


def run(kernel: Kernel, taken: Iterable[Row], state: BucketState | None = None) -> list[Row]:
    """Return the outputs of rows that a kernel takes one by one."""
    bucket = BucketState() if state is None else state
    return [row for one in taken for row in kernel.step([one], bucket)]


@contextlib.contextmanager
def pages_of(entries: int, size: int = state_pages.PAGE_BYTES) -> Iterator[None]:
    """Make the pages of states smaller."""
    limits = state_pages.PAGE_ENTRIES, state_pages.PAGE_BYTES
    state_pages.PAGE_ENTRIES, state_pages.PAGE_BYTES = entries, size
    try:
        yield
    finally:
        state_pages.PAGE_ENTRIES, state_pages.PAGE_BYTES = limits


def facts(found: Iterable[Row]) -> Iterator[tuple[object, ...]]:
    """Yield what the outside sees of output rows."""
    for row in found:
        yield row.key, row.window, row.value, row.timestamp_ms
