"""The numbers that a task returns: what it did, to be added up over the tasks of a batch."""

from typing import Any, Final

import attrs

from barnabas.pipeline.delivery.rows.arrow_library import pa

SCHEMA: Final = (
    "records LONG, written LONG, dead_letters LONG, transactions LONG, fenced LONG, "
    "skipped LONG, trimmed LONG, oldest_ms LONG"
)
SUMS: Final = ("records", "written", "dead_letters", "transactions", "fenced", "skipped", "trimmed")


@attrs.define
class Figures:
    """Numbers of one task."""

    records: int = 0
    written: int = 0
    dead_letters: int = 0
    transactions: int = 0
    fenced: int = 0
    skipped: int = 0
    trimmed: int = 0
    oldest_ms: int | None = None
    """Timestamp of the oldest record, in milliseconds since 1970."""

    def see_timestamp(self, timestamp_ms: int) -> None:
        """Note the timestamp of a record."""
        if self.oldest_ms is None or timestamp_ms < self.oldest_ms:
            self.oldest_ms = timestamp_ms

    def as_batch(self) -> Any:
        """Return the numbers as an Arrow batch of one row, in the columns of SCHEMA."""
        columns = {
            name: pa.array([value], pa.int64()) for name, value in attrs.asdict(self).items()
        }
        return pa.RecordBatch.from_pydict(columns)
