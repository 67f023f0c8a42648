"""Records for a producer as columns, which cost less to walk than records."""

from collections.abc import Iterator, Sequence
from itertools import repeat
from operator import length_hint
from typing import Any, Final, TypeAlias

import attrs

Headers: TypeAlias = list[tuple[str, bytes | None]]
RecordArguments: TypeAlias = tuple[
    str, bytes | None, bytes | None, int, int, Sequence[tuple[str, bytes | None]] | None
]
"""Topic, value, key, partition, timestamp and headers of a record."""

_VALUES: Final = 1


@attrs.frozen
class ProducedColumns:
    """Records by column. Topic and partition may be the same for all, headers may be missing."""

    topics: list[str] | str
    values: list[bytes | None]
    keys: list[bytes | None]
    partitions: list[int] | int
    timestamps_ms: list[int]
    headers: Sequence[Headers | None] | None

    def __len__(self) -> int:
        return len(self.values)

    def record(self, index: int) -> RecordArguments:
        """Return one record."""
        topics, partitions = self.topics, self.partitions
        return (
            topics if isinstance(topics, str) else topics[index],
            self.values[index],
            self.keys[index],
            partitions if isinstance(partitions, int) else partitions[index],
            self.timestamps_ms[index],
            None if self.headers is None else self.headers[index],
        )

    def remaining(self) -> "RemainingRecords":
        """Return all records, for calls that take one after the other."""
        topics, partitions = self.topics, self.partitions
        return RemainingRecords(
            len(self),
            (
                repeat(topics) if isinstance(topics, str) else iter(topics),
                iter(self.values),
                iter(self.keys),
                repeat(partitions) if isinstance(partitions, int) else iter(partitions),
                repeat(None),
                repeat(None),
                iter(self.timestamps_ms),
                repeat(None) if self.headers is None else iter(self.headers),
            ),
        )


@attrs.frozen
class RemainingRecords:
    """The records that no call has taken: iterators in the order of librdkafka's parameters.

    Those of callbacks, between partition and timestamp, are None.
    """

    count: int
    """The number of all records."""
    columns: tuple[Iterator[Any], ...]

    def newest(self) -> int:
        """Return the index of the record that was taken last."""
        return self.count - length_hint(self.columns[_VALUES]) - 1
