"""Logs that the cleaner skips after a failed pass, and until when.

Kafka takes the directory offline after an I/O error (`LogCleaner.CleanerThread.cleanLog`), and
skips a log with corrupt records until a restart (`LogCleanerManager.markPartitionUncleanable`).
Here an error that may pass (a full disk, a killed helper process) is retried with growing delays.
A log with corrupt records is uncleanable until its start offset moves, perhaps past them.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog

RETRY_MS_MIN: Final = 1_000
RETRY_MS_MAX: Final = 3_600_000


@attrs.define(slots=True)
class _Failure:
    """`retry_at_ms` is None for a log that is uncleanable."""

    count: int = 0
    retry_at_ms: float | None = 0.0
    log_start_offset: int = 0


class CompactionFailures:
    """The logs whose last cleaning pass failed. Times are in ms of any monotonic clock."""

    def __init__(self) -> None:
        self._by_log: dict[PartitionLog, _Failure] = {}

    def retry(self, log: "PartitionLog", now_ms: float, backoff_ms: float) -> float:
        """Delay the next pass after an error that may pass; return the delay in ms.

        The delay is `backoff_ms` at first and doubles with each further failure.
        """
        failure = self._by_log.setdefault(log, _Failure())
        delay_ms = min(max(backoff_ms, RETRY_MS_MIN) * 2.0 ** min(failure.count, 20), RETRY_MS_MAX)
        failure.count += 1
        failure.retry_at_ms = now_ms + delay_ms
        return delay_ms

    def mark_uncleanable(self, log: "PartitionLog") -> None:
        """The log has records that cannot be cleaned."""
        self._by_log[log] = _Failure(0, None, log.log_start_offset)

    def forget(self, log: "PartitionLog") -> None:
        """A pass over the log succeeded."""
        self._by_log.pop(log, None)

    def prune(self) -> None:
        """Forget deleted logs (`maintainUncleanablePartitions`)."""
        for log in [each for each in self._by_log if each.is_gone]:
            del self._by_log[log]

    def allows(self, log: "PartitionLog", now_ms: float) -> bool:
        """True when the log may be cleaned now."""
        failure = self._by_log.get(log)
        if failure is None:
            return True
        if failure.retry_at_ms is None:
            return failure.log_start_offset != log.log_start_offset
        return failure.retry_at_ms <= now_ms

    def uncleanable(self) -> Iterator["PartitionLog"]:
        """Yield the uncleanable logs."""
        return (log for log, failure in self._by_log.items() if failure.retry_at_ms is None)

    def waiting(self) -> Iterator["PartitionLog"]:
        """Yield the logs that wait for a retry."""
        return (log for log, failure in self._by_log.items() if failure.retry_at_ms is not None)
