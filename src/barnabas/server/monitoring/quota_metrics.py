"""Metrics of quotas: how often each kind held clients back, and for how long."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from barnabas.cluster.metadata.client_quotas import CONNECTION_CREATION_RATE, REQUEST_PERCENTAGE

if TYPE_CHECKING:
    from barnabas.server.api.node_quotas import ClientQuotas
    from barnabas.server.transport.connection_rates import ConnectionRates


def quota_families(quotas: "ClientQuotas") -> Iterator[Any]:
    """Yield the requests that quotas throttled, and for how long; the time that is exempt."""
    from prometheus_client.core import CounterMetricFamily

    requests = CounterMetricFamily(
        "barnabas_throttled_requests",
        "Requests after which a quota held the client back",
        labels=["quota"],
    )
    seconds = CounterMetricFamily(
        "barnabas_throttle_seconds", "Time that quotas held clients back", labels=["quota"]
    )
    for key, counts in quotas.counts.items():
        requests.add_metric([key], counts.number)
        seconds.add_metric([key], counts.total_ms / 1000)
    yield requests
    yield seconds
    yield CounterMetricFamily(
        "barnabas_exempt_request_seconds",
        "Time of requests between brokers while a client has a quota of request time",
        quotas.counts[REQUEST_PERCENTAGE].exempt_ns / 1e9,
    )


def connection_rate_families(rates: "ConnectionRates") -> Iterator[Any]:
    """Yield the connections that were accepted or closed late, and by how much."""
    from prometheus_client.core import CounterMetricFamily

    labels = ["listener", "quota"]
    number = CounterMetricFamily(
        "barnabas_throttled_connections",
        "Connections that were accepted late, or closed because of their address",
        labels=labels,
    )
    seconds = CounterMetricFamily(
        "barnabas_connection_throttle_seconds",
        "Time until connections were accepted, or closed because of their address",
        labels=labels,
    )
    kinds = (
        ("max.connection.creation.rate", rates.delays),
        (CONNECTION_CREATION_RATE, rates.refusals),
    )
    for quota, by_listener in kinds:
        for listener, counts in by_listener.items():
            number.add_metric([listener, quota], counts.number)
            seconds.add_metric([listener, quota], counts.total_ms / 1000)
    yield number
    yield seconds
