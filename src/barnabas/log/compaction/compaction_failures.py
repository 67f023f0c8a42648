"""Which logs the cleaner leaves alone after a pass that failed, and until when.

Kafka takes the directory offline when the system refuses (`LogCleaner.CleanerThread.cleanLog`),
and leaves a log with bad records until a restart (`LogCleanerManager.markPartitionUncleanable`).
Here a refusal that may pass, a full disk or a helper process that was killed, is tried again, each
time later. Bad records do not get better: such a log is uncleanable until its start has moved,
perhaps past them.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog

RETRY_MS_MIN: Final = 1_000
RETRY_MS_MAX: Final = 3_600_000


@attrs.define(slots=True)
class _Setback:
    """`retry_at_ms` is None for a log that cannot be cleaned as it is."""

    failures: int = 0
    retry_at_ms: float | None = 0.0
    log_start_offset: int = 0


class CompactionFailures:
    """The logs whose last pass failed. Times are in ms of any clock that does not go back."""

    def __init__(self) -> None:
        self._by_log: dict[PartitionLog, _Setback] = {}

    def retry(self, log: "PartitionLog", now_ms: float, backoff_ms: float) -> float:
        """Put the log off for a reason that may pass; for how many ms.

        That is `backoff_ms` at first, twice as long after each further failure.
        """
        setback = self._by_log.setdefault(log, _Setback())
        delay_ms = min(
            max(backoff_ms, RETRY_MS_MIN) * 2.0 ** min(setback.failures, 20), RETRY_MS_MAX
        )
        setback.failures += 1
        setback.retry_at_ms = now_ms + delay_ms
        return delay_ms

    def give_up(self, log: "PartitionLog") -> None:
        """Its records cannot be cleaned."""
        self._by_log[log] = _Setback(0, None, log.log_start_offset)

    def forget(self, log: "PartitionLog") -> None:
        """A pass over the log went well."""
        self._by_log.pop(log, None)

    def prune(self) -> None:
        """Forget logs that are no more (`maintainUncleanablePartitions`)."""
        for log in [each for each in self._by_log if each.is_gone]:
            del self._by_log[log]

    def allows(self, log: "PartitionLog", now_ms: float) -> bool:
        """Whether the log may be cleaned now."""
        setback = self._by_log.get(log)
        if setback is None:
            return True
        if setback.retry_at_ms is None:
            return setback.log_start_offset != log.log_start_offset
        return setback.retry_at_ms <= now_ms

    def uncleanable(self) -> Iterator["PartitionLog"]:
        """The logs that are left alone for good."""
        return (log for log, setback in self._by_log.items() if setback.retry_at_ms is None)

    def waiting(self) -> Iterator["PartitionLog"]:
        """The logs that are tried again later."""
        return (log for log, setback in self._by_log.items() if setback.retry_at_ms is not None)
