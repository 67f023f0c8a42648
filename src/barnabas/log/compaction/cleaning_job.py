"""What the node asks of the helper process: one pass over one log."""

from collections.abc import Sequence
from typing import Any, Self

import attrs

from barnabas.log.segment.segment_index import AbortedTxn


@attrs.frozen(kw_only=True)
class CleanJob:
    """One pass over one log. Offsets; times in ms, sizes in bytes.

    `segments` are those below `first_uncleanable`, from the log's first on: (base offset, size).
    Keys are looked for from `first_dirty` on, at most `keys_max` in a table of `slots` places.
    `producers` has the last offset of each active producer (-1: only a marker) and its epoch;
    `aborted` the transactions that have records there.
    """

    directory: str
    segments: Sequence[tuple[int, int]]
    first_dirty: int
    first_uncleanable: int
    slots: int
    keys_max: int
    buffer_bytes: int
    segment_bytes_max: int
    index_bytes_max: int
    index_interval_bytes: int
    delete_retention_ms: int
    now_ms: int
    bytes_per_second: float
    producers: dict[int, tuple[int, int]]
    aborted: Sequence[AbortedTxn]

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """What `attrs.asdict` and JSON made of one."""
        producers = {int(key): (each[0], each[1]) for key, each in fields["producers"].items()}
        segments = [(each[0], each[1]) for each in fields["segments"]]
        aborted = [AbortedTxn(*each) for each in fields["aborted"]]
        values: dict[str, Any] = {
            **fields,
            "producers": producers,
            "segments": segments,
            "aborted": aborted,
        }
        return cls(**values)
