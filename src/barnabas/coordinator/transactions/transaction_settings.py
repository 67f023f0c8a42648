"""The settings that a transaction coordinator obeys, with Kafka's defaults."""

import attrs


@attrs.frozen
class TransactionSettings:
    """Kafka's property is named beside each; times are milliseconds."""

    max_timeout_ms: int = 900_000  # transaction.max.timeout.ms
    expiration_ms: int = 7 * 24 * 3_600_000  # transactional.id.expiration.ms
    # transaction.remove.expired.transaction.cleanup.interval.ms
    expiration_interval_ms: int = 3_600_000
    # transaction.abort.timed.out.transaction.cleanup.interval.ms: how long after a refused
    # attempt a transaction that ran out of time is aborted again.
    abort_interval_ms: int = 10_000
    # How long after a failed attempt a marker is sent again; doubled each time, up to the second.
    marker_retry_ms: int = 100
    marker_retry_max_ms: int = 5_000

    def marker_delay_ms(self, attempts: int) -> int:
        """How long to wait after that many failed ones."""
        return min(self.marker_retry_ms << min(attempts, 16), self.marker_retry_max_ms)
