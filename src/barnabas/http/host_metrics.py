"""Prometheus metrics of the HTTP host."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from barnabas.http.asgi import Body

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class HostMetrics:
    """Counters of requests; an application adds its own to `registry`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.in_flight = Gauge(
            "barnabas_http_requests_in_flight", "Requests being served.", registry=self.registry
        )
        self._requests = Counter(
            "barnabas_http_requests",
            "Requests served, by method and status.",
            ("method", "status"),
            registry=self.registry,
        )
        self._counters: dict[tuple[str, int], Counter] = {}
        self._seconds = Histogram(
            "barnabas_http_request_seconds",
            "Time from the request's head to the end of the response.",
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        self._unauthenticated = Gauge(
            "barnabas_http_unauthenticated_connections",
            "Open connections without a request that was authenticated.",
            registry=self.registry,
        )
        self._closed = Counter(
            "barnabas_http_unauthenticated_connections_closed",
            "Such connections that were closed, by the property that limits them.",
            ("limit",),
            registry=self.registry,
        )

    def show_unauthenticated(self, count: Callable[[], float]) -> None:
        """Show the number of unauthenticated connections that a function returns."""
        self._unauthenticated.set_function(count)

    def closed_unauthenticated(self, limit: str) -> None:
        """Count an unauthenticated connection that a limit has closed."""
        self._closed.labels(limit).inc()

    def served(self, method: str, status: int, seconds: float) -> None:
        """Count a request. Unusual methods share one label, so that clients make no labels."""
        known = method if method in _METHODS else "other"
        counter = self._counters.get((known, status))
        if counter is None:
            counter = self._counters[known, status] = self._requests.labels(known, str(status))
        counter.inc()
        self._seconds.observe(seconds)

    def exposition(self) -> Body:
        """Return all metrics in Prometheus' text format."""
        return Body(CONTENT_TYPE_LATEST.encode(), generate_latest(self.registry))


_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
