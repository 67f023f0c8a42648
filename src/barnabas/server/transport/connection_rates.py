"""Rates of new connections: to a node, to a listener, and from an address.

The rules are those of Kafka's `ConnectionQuotas`. A listener above its rate, or that of the node,
accepts the next connection after a delay of at most one window. A connection from an address above
its rate is closed after such a delay, and counts nowhere.
"""

import logging
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from barnabas.cluster.metadata.client_quotas import (
    CONNECTION_CREATION_RATE,
    IP,
    QuotaKey,
    address_of,
)
from barnabas.config.properties.vocabulary import INT_MAX
from barnabas.security.quota_rate import QuotaRate
from barnabas.server.api.node_quotas import ThrottleCounts

if TYPE_CHECKING:
    from barnabas.server.transport.acceptor import Limits, Listener

logger = logging.getLogger(__name__)

_IDLE_MS: Final = 3_600_000
"""The rate of an address that makes no connection for so long is forgotten, as in Kafka."""
_ADDRESSES_MAX: Final = 10_000
"""The rates of the addresses that were used longest ago are forgotten."""
_NO_HOST: Final = ""


class ConnectionRates:
    """The rates of the last `windows` windows of `window_ms`, and the limits of addresses.

    `delays` has, by listener, the connections that were accepted late, and `refusals` those that
    were closed late.
    """

    def __init__(self, windows: int, window_ms: int, now_ms: Callable[[], int]) -> None:
        self._windows = windows
        self._window_ms = window_ms
        self._now_ms = now_ms
        self._rates: dict[str, QuotaRate] = {}
        self._of_hosts: OrderedDict[str, QuotaRate] = OrderedDict()
        self._limits_of_hosts: dict[str, float] = {}
        self._default_limit: float | None = None
        self.delays: defaultdict[str, ThrottleCounts] = defaultdict(ThrottleCounts)
        self.refusals: defaultdict[str, ThrottleCounts] = defaultdict(ThrottleCounts)

    def limit_addresses(self, quotas: Mapping[QuotaKey, float]) -> None:
        """Replace the limits of addresses by those of the metadata; what was counted remains.

        A host name, which Apache Kafka accepts, limits nothing.
        """
        limits: dict[str, float] = {}
        for (entity, key), value in quotas.items():
            if key != CONNECTION_CREATION_RATE or [kind for kind, _ in entity] != [IP]:
                continue
            name = entity[0][1]
            host = _NO_HOST if name is None else address_of(name)
            if host is None:
                logger.warning("a quota limits nothing: %r is not an address", name)
            else:
                limits[host] = value
        self._default_limit = limits.pop(_NO_HOST, None)
        self._limits_of_hosts = limits

    def delay_ms(self, listener: "Listener", limits: "Limits") -> int:
        """Count a connection of a listener; return for how long it must wait."""
        now_ms = self._now_ms()
        own_max = limits.listener_creation_rate_max.get(listener.name, INT_MAX)
        delay_ms = self._counted(listener.name, own_max, now_ms)
        if listener.name != limits.protected_listener:
            most = limits.creation_rate_max
            delay_ms = max(delay_ms, self._counted(_node_key(listener), most, now_ms))
        self.delays[listener.name].add(delay_ms)
        return delay_ms

    def refusal_ms(self, listener: "Listener", limits: "Limits", host: str) -> int:
        """Count a connection from an address; return after how long it must be closed.

        0 when the address is within its rate. A connection that is refused counts nowhere.
        """
        host = host.partition("%")[0]  # without the zone of a link-local address
        most = self._limits_of_hosts.get(host, self._default_limit)
        if most is None:
            return 0
        now_ms = self._now_ms()
        rate = self._rate_of_host(host, now_ms)
        rate.record(1, now_ms)
        throttle_ms = min(rate.throttle_ms(most, now_ms), self._window_ms)
        self.refusals[listener.name].add(throttle_ms)
        if throttle_ms:
            rate.record(-1, now_ms)
            self._rates[listener.name].record(-1, now_ms)
            if listener.name != limits.protected_listener:
                self._rates[_node_key(listener)].record(-1, now_ms)
        return throttle_ms

    def _counted(self, key: str, most: int, now_ms: int) -> int:
        rate = self._rates.get(key)
        if rate is None:
            rate = self._rates[key] = QuotaRate(self._windows, self._window_ms, now_ms)
        rate.record(1, now_ms)
        if most >= INT_MAX:
            return 0
        return min(rate.throttle_ms(most, now_ms), self._window_ms)

    def _rate_of_host(self, host: str, now_ms: int) -> QuotaRate:
        rates = self._of_hosts
        rate = rates.get(host)
        if rate is not None:
            rates.move_to_end(host)
            return rate
        while rates:
            oldest = next(iter(rates))
            if now_ms - rates[oldest].last_ms < _IDLE_MS and len(rates) < _ADDRESSES_MAX:
                break
            del rates[oldest]
        rate = rates[host] = QuotaRate(self._windows, self._window_ms, now_ms)
        return rate


def _node_key(listener: "Listener") -> str:
    """Return the key of the rate of all listeners of a kind, which no listener is named."""
    return f"{listener.kind}://"
