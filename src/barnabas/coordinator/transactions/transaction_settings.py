"""The settings of a transaction coordinator, with Kafka's defaults."""

import attrs


@attrs.frozen
class TransactionSettings:
    """The settings; a comment names Kafka's property. Times are milliseconds."""

    max_timeout_ms: int = 900_000  # transaction.max.timeout.ms
    expiration_ms: int = 7 * 24 * 3_600_000  # transactional.id.expiration.ms
    # transaction.remove.expired.transaction.cleanup.interval.ms
    expiration_interval_ms: int = 3_600_000
    # transaction.abort.timed.out.transaction.cleanup.interval.ms: after a refused abort of a
    # transaction that timed out, the time until the next attempt.
    abort_interval_ms: int = 10_000
    # The time until a failed marker is sent again; doubled each time, up to the second value.
    marker_retry_ms: int = 100
    marker_retry_max_ms: int = 5_000

    def marker_delay_ms(self, attempts: int) -> int:
        """Return the delay after the given number of failed attempts."""
        return min(self.marker_retry_ms << min(attempts, 16), self.marker_retry_max_ms)
