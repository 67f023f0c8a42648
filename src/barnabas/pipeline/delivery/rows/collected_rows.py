"""Records that a task makes of a source's rows, as rows for the tasks that write them."""

from typing import Any, Final

from barnabas.pipeline.delivery.rows.arrow_library import pa

FAILED: Final = "_failed"
"""The column that is true for dead letters."""
SCHEMA: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, "
    f"headers ARRAY<STRUCT<key: STRING, value: BINARY>>, timestamp_ms BIGINT, {FAILED} BOOLEAN"
)


class CollectedRows:
    """Takes records as a producer does, and returns them as rows in the columns of SCHEMA.

    The dead letter of a record that failed is a marked row; a row without a topic when it has none.
    """

    def __init__(self) -> None:
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._topics: list[str | None] = []
        self._partitions: list[int | None] = []
        self._headers: list[list[dict[str, Any]] | None] = []
        self._timestamps_ms: list[int | None] = []
        self._failed: list[bool] = []

    def __len__(self) -> int:
        return len(self._failed)

    def produce(
        self,
        topic: str | None,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        timestamp_ms: int,
        headers: list[tuple[str, bytes | None]] | None,
    ) -> None:
        """Take a record."""
        self._keys.append(key)
        self._values.append(value)
        self._topics.append(topic)
        self._partitions.append(None if partition < 0 else partition)
        pairs = [{"key": name, "value": data} for name, data in headers or ()]
        self._headers.append(pairs or None)
        self._timestamps_ms.append(timestamp_ms or None)
        self._failed.append(False)

    def mark_failed(self, first: int) -> None:
        """Mark the dead letter of a record, which is the row `first` if there is one."""
        if len(self) == first:
            self.produce(None, None, None, -1, 0, None)
        self._failed[first] = True

    def poll(self) -> None:
        """Do nothing: rows cannot fail here."""

    def as_batch(self) -> Any:
        """Return the rows as an Arrow batch."""
        header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
        columns = {
            "key": pa.array(self._keys, pa.binary()),
            "value": pa.array(self._values, pa.binary()),
            "topic": pa.array(self._topics, pa.string()),
            "partition": pa.array(self._partitions, pa.int32()),
            "headers": pa.array(self._headers, pa.list_(header)),
            "timestamp_ms": pa.array(self._timestamps_ms, pa.int64()),
            FAILED: pa.array(self._failed, pa.bool_()),
        }
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
