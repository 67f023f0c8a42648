"""Figures of the node for Prometheus: read when asked, so that counting costs next to nothing.

The hot path only adds to plain integers (`Route`, `Transport`); a collector turns them, and what
the logs and the quorum know, into metrics when somebody scrapes. prometheus-client is imported
only then.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.server.node import Node


class Metrics:
    """Makes the text of `/metrics`."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._registry: Any = None

    def text(self) -> bytes:
        """All figures in Prometheus' text format."""
        from prometheus_client import (
            CollectorRegistry,
            GCCollector,
            PlatformCollector,
            ProcessCollector,
            generate_latest,
        )

        if self._registry is None:
            registry = self._registry = CollectorRegistry()
            ProcessCollector(registry=registry)
            PlatformCollector(registry=registry)
            GCCollector(registry=registry)
            registry.register(self)  # pyright: ignore[reportArgumentType]
        return generate_latest(self._registry)

    def describe(self) -> list[Any]:
        """No names in advance: `collect` would cost as much (prometheus-client's protocol)."""
        return []

    def collect(self) -> Iterator[Any]:
        """The families, as prometheus-client asks for them."""
        yield from self._requests()
        yield from self._connections()
        yield from self._state()

    def _requests(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, SummaryMetricFamily

        seconds = SummaryMetricFamily(
            "barnabas_request_seconds",
            "Time from reading a request to its encoded response, waiting included",
            labels=["api", "version"],
        )
        errors = CounterMetricFamily(
            "barnabas_request_errors",
            "Requests answered by the server's error path",
            labels=["api"],
        )
        failed: dict[str, int] = {}
        for dispatcher in self._node.dispatchers:
            for route in dispatcher.routes.values():
                labels = [route.name, str(route.version)]
                seconds.add_metric(labels, route.requests, route.seconds)
                failed[route.name] = failed.get(route.name, 0) + route.errors
        for name, count in failed.items():
            errors.add_metric([name], count)
        yield seconds
        yield errors

    def _connections(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        transport = self._node.transport
        yield GaugeMetricFamily(
            "barnabas_connections", "Open connections", len(transport.connections)
        )
        yield CounterMetricFamily(
            "barnabas_connections_accepted", "Connections let in", transport.accepted
        )
        yield CounterMetricFamily(
            "barnabas_connections_refused", "Connections over a limit", transport.refused
        )

    def _state(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        node, image = self._node, self._node.image
        partitions = sum(len(topic.partitions) for topic in image.topics_by_name.values())
        yield GaugeMetricFamily(
            "barnabas_topics", "Topics in the metadata", len(image.topics_by_name)
        )
        yield GaugeMetricFamily("barnabas_partitions", "Partitions in the metadata", partitions)
        yield GaugeMetricFamily(
            "barnabas_metadata_offset", "Offset of the metadata image", image.offset
        )
        yield CounterMetricFamily(
            "barnabas_fsyncs", "fsync calls made for the logs", node.disk.fsyncs
        )
