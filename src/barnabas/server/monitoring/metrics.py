"""Metrics of the node for Prometheus, collected when they are read.

The hot path only adds to plain integers (`Route`, `Transport`). A collector reads them and the
state of the parts. prometheus-client is imported with the first read.
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from barnabas.cluster.metadata.image import MetadataImage
    from barnabas.cluster.replication import ReplicaManager
    from barnabas.log import LogManager
    from barnabas.server.api.dispatch import Dispatcher
    from barnabas.server.api.node_quotas import ClientQuotas
    from barnabas.server.api.registry import ListenerKind
    from barnabas.server.controller_channel.quorum_channel import QuorumControllerChannel
    from barnabas.server.coordinators.group_service import GroupCoordinator
    from barnabas.server.coordinators.transactions.transaction_service import TransactionCoordinator
    from barnabas.server.monitoring.loop_holds import LoopHolds
    from barnabas.server.quorum.quorum import Quorum
    from barnabas.server.storage.background_tasks import BackgroundTasks
    from barnabas.server.storage.disk_threads import DiskThreads
    from barnabas.server.storage.record_worker import RecordWorker
    from barnabas.server.transport.acceptor import Listener, Transport


class MeteredParts(Protocol):
    """The parts of the node whose counters are metrics."""

    dispatchers: "dict[ListenerKind, Dispatcher]"
    transport: "Transport"
    listeners: "list[Listener]"
    quotas: "ClientQuotas"
    quorum: "Quorum"
    channel: "QuorumControllerChannel"
    logs: "LogManager"
    replicas: "ReplicaManager"
    disk: "DiskThreads"
    records: "RecordWorker"
    groups: "GroupCoordinator"
    transactions: "TransactionCoordinator"
    background: "BackgroundTasks"

    @property
    def image(self) -> "MetadataImage":
        """The committed metadata."""
        ...

    def disputed_brokers(self) -> frozenset[int]:
        """Return the brokers that refuse this node, and that the controller does not fence."""
        ...


class Metrics:
    """The collector behind `/metrics`; a node that has one role only has fewer families.

    `loop_holds` is set once it measures the loop.
    """

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(
        self, parts: MeteredParts, *, is_broker: bool = True, is_controller: bool = True
    ) -> None:
        self._parts = parts
        self._is_broker = is_broker
        self._is_controller = is_controller
        self._registry: Any = None
        self.loop_holds: LoopHolds | None = None
        self.endpoint_closings: Counter[str] = Counter()
        """Connections of the endpoint that one of its limits closed."""

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
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
        """Return no names in advance, as `collect` would cost as much."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield the metric families, as prometheus-client expects."""
        yield from self._requests()
        yield from self._connections()
        yield from self._security()
        yield from self._quotas()
        yield from self._state()
        yield from self._quorum()
        if self._is_broker:
            yield from self._replication()
            yield from self._coordinators()
            yield from self._record_helper()
            yield from self._cleaner()
            yield from self._scrubber()

    def _security(self) -> Iterator[Any]:
        from barnabas.server.monitoring.security_metrics import security_families

        yield from security_families(self._parts.listeners, self._parts.transport.logins)

    def _quotas(self) -> Iterator[Any]:
        from barnabas.server.monitoring.quota_metrics import (
            connection_rate_families,
            quota_families,
        )

        yield from quota_families(self._parts.quotas)
        yield from connection_rate_families(self._parts.transport.rates)

    def _quorum(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        from barnabas.server.monitoring.controller_metrics import (
            controller_families,
            quorum_families,
        )

        yield from quorum_families(self._parts.quorum)
        yield GaugeMetricFamily(
            "barnabas_disputed_brokers",
            "Brokers that refuse the connections of this node, and that the controller reaches",
            len(self._parts.disputed_brokers()),
        )
        yield CounterMetricFamily(
            "barnabas_silent_controller_connections",
            "Times that the controller did not answer, and was connected to again",
            self._parts.channel.silences,
        )
        if self._is_controller:
            yield from controller_families(self._parts.quorum)
        if self.loop_holds is not None:
            from barnabas.server.monitoring.loop_holds import hold_families

            yield from hold_families(self.loop_holds)

    def _replication(self) -> Iterator[Any]:
        from barnabas.server.monitoring.replication_metrics import replication_families

        return replication_families(self._parts.replicas, self._parts.image)

    def _requests(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, SummaryMetricFamily

        seconds = SummaryMetricFamily(
            "barnabas_request_seconds",
            "Time from the start of a request to its encoded response, waiting included",
            labels=["api", "version", "listener"],
        )
        errors = CounterMetricFamily(
            "barnabas_request_errors",
            "Requests answered by the server's error path",
            labels=["api"],
        )
        failed: dict[str, int] = {}
        for dispatcher in self._parts.dispatchers.values():
            for route in dispatcher.routes.values():
                labels = [route.name, str(route.version), dispatcher.listener]
                seconds.add_metric(labels, route.requests, route.seconds)
                failed[route.name] = failed.get(route.name, 0) + route.errors
        for name, count in failed.items():
            errors.add_metric([name], count)
        yield seconds
        yield errors

    def _connections(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        transport = self._parts.transport
        yield GaugeMetricFamily(
            "barnabas_connections", "Open connections", len(transport.connections)
        )
        yield CounterMetricFamily(
            "barnabas_connections_accepted", "Accepted connections", transport.accepted
        )
        yield CounterMetricFamily(
            "barnabas_connections_refused",
            "Connections refused because of a limit",
            transport.refused,
        )
        closings = CounterMetricFamily(
            "barnabas_metrics_connections_closed",
            "Connections of the metrics endpoint that a limit closed: of time, or of connections",
            labels=["limit"],
        )
        for limit in ("time", "connections"):
            closings.add_metric([limit], self.endpoint_closings[limit])
        yield closings

    def _state(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        parts, image = self._parts, self._parts.image
        partitions = sum(len(topic.partitions) for topic in image.topics_by_name.values())
        yield GaugeMetricFamily(
            "barnabas_topics", "Topics in the metadata", len(image.topics_by_name)
        )
        yield GaugeMetricFamily("barnabas_partitions", "Partitions in the metadata", partitions)
        yield GaugeMetricFamily(
            "barnabas_metadata_offset", "Offset of the metadata image", image.offset
        )
        failures = CounterMetricFamily(
            "barnabas_metadata_subscriber_failures",
            "Failures of the parts of the node that follow the metadata",
            labels=["subscriber"],
        )
        for name, count in parts.quorum.publisher.failures.items():
            failures.add_metric([name], count)
        yield failures
        yield CounterMetricFamily(
            "barnabas_fsyncs", "fsync calls made for the logs", parts.disk.fsyncs
        )

    def _coordinators(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily

        failures = CounterMetricFamily(
            "barnabas_coordinator_failures",
            "Coordinator partitions that were unloaded because of an error and loaded again",
            labels=["topic"],
        )
        for coordinator in (self._parts.groups, self._parts.transactions):
            failures.add_metric([coordinator.TOPIC], coordinator.failures)
        yield failures

    def _record_helper(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        records = self._parts.records
        yield CounterMetricFamily(
            "barnabas_record_jobs", "Batches whose records a helper examined", records.requested
        )
        yield GaugeMetricFamily(
            "barnabas_record_jobs_waiting", "Requests that wait for a helper", records.waiting
        )
        yield CounterMetricFamily(
            "barnabas_record_helper_starts",
            "Starts of helper processes for records",
            records.starts,
        )

    def _cleaner(self) -> Iterator[Any]:
        """Yield the cleaner's metrics, with Kafka's uncleanable-partitions-count and
        uncleanable-bytes.
        """
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        cleaner = self._parts.background.log_cleaner
        counts, failures = cleaner.counts, cleaner.failures
        passes = CounterMetricFamily(
            "barnabas_cleaner_passes", "Passes of the cleaner over a log", labels=["outcome"]
        )
        passes.add_metric(["cleaned"], counts.cleaned)
        passes.add_metric(["to_retry"], counts.retried)
        passes.add_metric(["given_up"], counts.given_up)
        yield passes
        yield CounterMetricFamily(
            "barnabas_cleaner_bytes_read", "Bytes of logs read by the cleaner", counts.bytes_read
        )
        yield CounterMetricFamily(
            "barnabas_cleaner_bytes_written",
            "Bytes that remained after cleaning",
            counts.bytes_written,
        )
        yield GaugeMetricFamily(
            "barnabas_cleaner_retrying_partitions",
            "Partitions whose last pass failed and is retried",
            len(list(failures.waiting())),
        )
        partitions = GaugeMetricFamily(
            "barnabas_cleaner_uncleanable_partitions",
            "Partitions that are not cleaned because of their records",
            labels=["directory"],
        )
        sizes = GaugeMetricFamily(
            "barnabas_cleaner_uncleanable_bytes",
            "Bytes of uncleanable partitions",
            labels=["directory"],
        )
        logs = list(failures.uncleanable())
        for volume in self._parts.logs.volumes:
            mine = [log for log in logs if log.volume is volume]
            partitions.add_metric([str(volume.path)], len(mine))
            sizes.add_metric([str(volume.path)], sum(log.size_bytes for log in mine))
        yield partitions
        yield sizes

    def _scrubber(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        scrubber = self._parts.background.scrubber
        yield CounterMetricFamily(
            "barnabas_scrubber_bytes", "Bytes of segments read by the scrubber", scrubber.bytes
        )
        yield GaugeMetricFamily(
            "barnabas_scrubber_rotten_segments",
            "Segments that the scrubber's last round found damaged",
            len(scrubber.rotten),
        )
