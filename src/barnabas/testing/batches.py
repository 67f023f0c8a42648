"""Record batches for tests, as a client or a transaction coordinator sends them."""

from collections.abc import Sequence
from typing import Final

from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.batches.control_batches import TransactionMarker, marker_batch
from barnabas.protocol.batches.record_decoding import Record

NOW_MS: Final = 1_800_000_000_000
"""The timestamp of records without another one."""


def batch(
    *values: bytes | None,
    timestamps: Sequence[int] = (),
    keys: Sequence[bytes | None] = (),
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> bytearray:
    """Return a batch as a client sends it; `producer` is its id, epoch and base sequence."""
    records = [
        Record(
            number,
            timestamps[number] if timestamps else NOW_MS,
            keys[number] if keys else None,
            value,
        )
        for number, value in enumerate(values)
    ]
    return build_batch(
        records,
        codec=codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        is_transactional=transactional,
    )


def marker(
    producer_id: int, epoch: int = 0, *, commit: bool, coordinator_epoch: int = 0, ms: int = NOW_MS
) -> bytearray:
    """Return the control batch that ends a transaction."""
    return marker_batch(TransactionMarker(commit, coordinator_epoch), producer_id, epoch, ms)
