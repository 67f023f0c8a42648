"""A large state without one record for each key: rows that have a hundred thousand keys each.

The rows of a bucket are keyed by one of its keys, so they pass through the same query; its kernel
has the signature of the one that is measured, which continues from the state.
"""

import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from barnabas.pipeline.data.key_partitioner import partition_of
from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.kernel_rows import Row
from barnabas.pipeline.streams.kernels.stream_aggregates import StreamAggregate

KEY_BYTES: Final = 13
"""`user-` and eight digits."""
CHUNK: Final = 5_000_000
_SEED: Final = 0x9747B28C
_MIX: Final = 0x5BD1E995
_np: Final[Any] = importlib.import_module("numpy")


class Loading(StreamAggregate):
    """A count that takes the keys of a row's value, and has counted each of them once."""

    def step(self, rows: Sequence[Row], state: BucketState) -> Iterator[Row]:
        aggregates = state.task(0).store("aggregates")
        for row in rows:
            keys: bytes = row.value
            for start in range(0, len(keys), KEY_BYTES):
                aggregates[keys[start : start + KEY_BYTES]] = [b"1", row.timestamp_ms]
        yield from ()


def write_keys(target: Path, first: int, count: int, buckets: int) -> None:
    """Write rows with `count` keys from number `first` on as a file of Parquet."""
    pa, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    rows = [
        keys
        for start in range(first, first + count, CHUNK)
        for keys in _by_bucket(start, min(CHUNK, first + count - start), buckets)
    ]
    columns = {
        "key": pa.array([keys[:KEY_BYTES] for keys in rows], pa.binary()),
        "value": pa.array(rows, pa.binary()),
        "timestamp_ms": pa.array([0] * len(rows), pa.int64()),
    }
    parquet.write_table(pa.table(columns), str(target), compression="none")


def _by_bucket(first: int, count: int, buckets: int) -> Iterator[bytes]:
    """Yield the keys of each bucket one after the other."""
    keys = _keys(first, count)
    numbers = (_murmur2(keys) & 0x7FFFFFFF) % buckets
    if int(numbers[0]) != partition_of(keys[0].tobytes(), buckets):
        raise AssertionError("keys are not in the buckets of the query")
    order = _np.argsort(numbers, kind="stable")
    sizes = _np.bincount(numbers, minlength=buckets)
    ordered = keys[order].tobytes()
    start = 0
    for size in (sizes * KEY_BYTES).tolist():
        if size:
            yield ordered[start : start + size]
        start += size


def _keys(first: int, count: int) -> Any:
    """Return keys as rows of bytes."""
    found = _np.empty((count, KEY_BYTES), _np.uint8)
    found[:, :5] = _np.frombuffer(b"user-", _np.uint8)
    numbers = _np.arange(first, first + count)
    for place in range(KEY_BYTES - 1, 4, -1):
        found[:, place] = 48 + numbers % 10
        numbers //= 10
    return found


def _murmur2(keys: Any) -> Any:
    """Return the hash of rows of bytes as Kafka's producer has it."""
    count, size = keys.shape
    words = keys[:, : size // 4 * 4].copy().view("<u4")
    mix = _np.uint32(_MIX)
    found = _np.full(count, _SEED ^ size, _np.uint32)
    for place in range(words.shape[1]):
        word = words[:, place] * mix
        word = (word ^ (word >> _np.uint32(24))) * mix
        found = (found * mix) ^ word
    for place in range(size % 4 - 1, -1, -1):
        found ^= keys[:, size // 4 * 4 + place].astype(_np.uint32) << _np.uint32(8 * place)
    if size % 4:
        found *= mix
    found = (found ^ (found >> _np.uint32(13))) * mix
    return found ^ (found >> _np.uint32(15))
