"""The job of one cleaning pass over one log, as the node sends it to a helper process."""

from collections.abc import Sequence
from typing import Any, Self

import attrs

from barnabas.log.segment.segment_index import AbortedTxn


@attrs.frozen(kw_only=True)
class CleanJob:
    """One pass over one log. Offsets; times in ms, sizes in bytes.

    `segments` are all segments below `first_uncleanable`, as (base offset, size). Keys are
    collected from `first_dirty` on, at most `keys_max` in a map of `slots` slots. `producers` has
    the last offset (-1: only a marker) and the epoch of each active producer; `aborted` has the
    aborted transactions with records in these segments.
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
        """Return the job from the JSON form of `attrs.asdict`."""
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
