"""Quotas of the partitions that clients create and delete a second (KIP-599).

`ClientQuotas` (`api.node_quotas`) imports this with the first quota.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.security.token_bucket import TokenBucket
from barnabas.server.api.client_meters import ClientMeters, Meter

if TYPE_CHECKING:
    from barnabas.server.api.context import AnyContext


class MutationQuota(ClientMeters[TokenBucket]):
    """The quotas of partitions, of `controller_mutation_rate` a second."""

    def mutations(self, context: "AnyContext", *, is_strict: bool) -> "Mutations | None":
        """Return the count of a request's partitions; None without a quota.

        A strict quota that is used up refuses them. A quota that is not only holds the client
        back.
        """
        meter = self._meter(context)
        return None if meter is None else Mutations(meter, self._now_ms, is_strict=is_strict)

    def finish(self, context: "AnyContext", mutations: "Mutations") -> None:
        """Hold the client back for what is left of the time, after its request."""
        self._hold_back(context, mutations.throttle_ms())

    def _new_counter(self, now_ms: int) -> TokenBucket:
        return TokenBucket(self._windows, self._window_ms, now_ms)


class Mutations:
    """The partitions that one request creates or deletes."""

    def __init__(
        self, meter: Meter[TokenBucket], now_ms: Callable[[], int], *, is_strict: bool
    ) -> None:
        self._meter = meter
        self._now_ms = now_ms
        self._is_strict = is_strict
        self._until_ms = 0

    def charge(self, partitions: int) -> None:
        """Count partitions before they are created or deleted.

        Raises KafkaError THROTTLING_QUOTA_EXCEEDED when a strict quota is used up.
        """
        now_ms = self._now_ms()
        bucket, limit = self._meter.counter, self._meter.limit
        if not self._is_strict:
            bucket.take(partitions, limit, now_ms)
        throttle_ms = bucket.throttle_ms(limit, now_ms)
        if throttle_ms:
            self._until_ms = now_ms + throttle_ms
        if not self._is_strict:
            return
        if throttle_ms:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)  # without a message, as Kafka
        bucket.take(partitions, limit, now_ms)

    def throttle_ms(self) -> int:
        """Return for how long the client must be held back from now on."""
        return max(self._until_ms - self._now_ms(), 0)
