"""Metrics of the worker of Java's connectors."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from barnabas.pipeline.java.worker_process import WorkerProcess


def add_worker_metrics(registry: CollectorRegistry, worker: WorkerProcess) -> None:
    """Add the metrics of a worker to a registry."""
    registry.register(_WorkerMetrics(worker))


class _WorkerMetrics(Collector):
    """Reads the figures when Prometheus asks."""

    def __init__(self, worker: WorkerProcess) -> None:
        self._worker = worker

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        up = GaugeMetricFamily(
            "barnabas_pipeline_java_worker_up", "1 when the worker of Java's connectors answers."
        )
        up.add_metric([], 0 if self._worker.client is None else 1)
        yield up
        starts = CounterMetricFamily(
            "barnabas_pipeline_java_worker_starts", "Starts of the worker of Java's connectors."
        )
        starts.add_metric([], self._worker.starts)
        yield starts
