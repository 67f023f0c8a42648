"""The quotas of a node's clients by the metadata: one attribute for each kind, and its counts."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from barnabas.cluster.metadata.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
    QuotaKey,
)

if TYPE_CHECKING:
    from barnabas.cluster.metadata.delta import MetadataDelta
    from barnabas.cluster.metadata.image import MetadataImage
    from barnabas.server.api.client_meters import ClientMeters
    from barnabas.server.api.client_throttle import ByteQuota, RequestTimeQuota
    from barnabas.server.api.mutation_throttle import MutationQuota

    QuotaT = TypeVar("QuotaT", bound=ClientMeters[Any])

_KINDS: Final = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
)
Limits = list[tuple[QuotaEntity, float]]


class ThrottleCounts:
    """Counts since the node started. They outlast the quotas, and what is counted of each client.

    `exempt_ns` is the time of requests that the quotas do not concern, for the kind of request
    time; it is counted while a client has such a quota.
    """

    __slots__ = ("exempt_ns", "number", "total_ms")

    def __init__(self) -> None:
        self.number = 0
        self.total_ms = 0
        self.exempt_ns = 0

    def add(self, throttle_ms: int) -> None:
        """Count a client that is held back; nothing when it is not."""
        if throttle_ms:
            self.number += 1
            self.total_ms += throttle_ms


@attrs.frozen
class QuotaWindows:
    """The number of windows that a quota is measured over, and the length of one."""

    number: int
    ms: int


class ClientQuotas:
    """The quotas of the bytes of Produce requests and Fetch responses, of request time, and of
    the partitions that are created and deleted.

    They follow the metadata. A kind that no client has is None, which is all that a request reads.
    `limit_addresses` gets the quotas of all kinds, for those of addresses. `counts` has what each
    kind did, by its key.
    """

    __slots__ = (
        "_limit_addresses",
        "_mutation_windows",
        "_now_ms",
        "_windows",
        "counts",
        "fetch",
        "mutations",
        "produce",
        "request_time",
    )

    def __init__(
        self,
        windows: QuotaWindows,
        mutation_windows: QuotaWindows,
        now_ms: Callable[[], int],
        limit_addresses: Callable[[Mapping[QuotaKey, float]], object] | None = None,
    ) -> None:
        self._windows = windows
        self._mutation_windows = mutation_windows
        self._now_ms = now_ms
        self._limit_addresses = limit_addresses
        self.counts: Final = {key: ThrottleCounts() for key in _KINDS}
        self.produce: ByteQuota | None = None
        self.fetch: ByteQuota | None = None
        self.request_time: RequestTimeQuota | None = None
        self.mutations: MutationQuota | None = None

    def apply(self, image: "MetadataImage", delta: "MetadataDelta") -> None:
        """Follow a change of the metadata."""
        if delta.client_quotas:
            self.start(image)

    def start(self, image: "MetadataImage") -> None:
        """Take the quotas of an image."""
        limits: dict[str, Limits] = {}
        for (entity, key), value in image.client_quotas.items():
            limits.setdefault(key, []).append((entity, value))
        if limits:
            self._limit(limits)
        else:
            self.produce = self.fetch = self.request_time = self.mutations = None
        if self._limit_addresses is not None:
            self._limit_addresses(image.client_quotas)

    def _limit(self, limits: Mapping[str, Limits]) -> None:
        from barnabas.server.api.client_throttle import ByteQuota, RequestTimeQuota
        from barnabas.server.api.mutation_throttle import MutationQuota

        rates, tokens = self._windows, self._mutation_windows
        self.produce = self._limited(limits, PRODUCER_BYTE_RATE, self.produce, ByteQuota, rates)
        self.fetch = self._limited(limits, CONSUMER_BYTE_RATE, self.fetch, ByteQuota, rates)
        self.request_time = self._limited(
            limits, REQUEST_PERCENTAGE, self.request_time, RequestTimeQuota, rates
        )
        self.mutations = self._limited(
            limits, CONTROLLER_MUTATION_RATE, self.mutations, MutationQuota, tokens
        )

    def _limited(
        self,
        limits: Mapping[str, Limits],
        key: str,
        current: "QuotaT | None",
        kind: "type[QuotaT]",
        windows: QuotaWindows,
    ) -> "QuotaT | None":
        """Return the quota of one kind; None when no client has it."""
        mine = limits.get(key)
        if mine is None:
            return None
        from barnabas.security.quota_index import QuotaIndex

        quota = current
        if quota is None:
            quota = kind(windows.number, windows.ms, self._now_ms, self.counts[key])
        quota.limit_by(QuotaIndex(mine))
        return quota
