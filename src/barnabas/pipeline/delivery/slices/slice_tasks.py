"""A slice of a source connector: poll its task until time or count is reached, in transactions.

Each transaction holds records and the positions after them. The connector's task stays in the
worker with the producer that has its transactional id. When another worker has taken the id over,
both are thrown away: a new producer takes the id back, and a new task starts at the positions that
are committed then.
"""

import contextlib
import time
from collections.abc import Sequence
from typing import Final

from barnabas.pipeline.connect.error_handling import ErrorPolicy, RecordFailureError, Stage
from barnabas.pipeline.connect.plugin_api import SourceTask
from barnabas.pipeline.connect.plugin_registry import PluginKind, plugin_registry
from barnabas.pipeline.connect.record_chain import build_record_chain
from barnabas.pipeline.data.records import OutputRecord, SourceRecord
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan
from barnabas.pipeline.delivery.rows.task_figures import Figures
from barnabas.pipeline.delivery.slices import source_offsets
from barnabas.pipeline.delivery.writing.produced_records import (
    FailedRecords,
    connector_errors,
    produce,
    too_large,
)
from barnabas.pipeline.delivery.writing.record_producer import FencedError, RecordTooLargeError
from barnabas.pipeline.delivery.writing.transactional_producer import TransactionalProducer, abandon

_TRANSACTION_S: Final = 0.5
"""Records of several polls share a transaction for up to this time."""

_RECORDS_MAX: Final = 100_000
"""The records of a transaction are in memory until it begins."""

_SESSIONS: Final[dict[tuple[str, int], "SourceSession"]] = {}


def run(plan: TaskPlan, index: int) -> Figures:
    """Run one slice of a connector's task. Raises TaskFailureError, FencedError."""
    figures = Figures()
    session = _SESSIONS.pop((plan.job, index), None)
    if session is not None and session.generation == plan.generation:
        try:
            session.run_slice(figures)
        except FencedError:
            figures.fenced += 1
        else:
            _SESSIONS[plan.job, index] = session
            return figures
    with connector_errors("START"):
        session = SourceSession(plan, index)
    session.run_slice(figures)
    _SESSIONS[plan.job, index] = session
    return figures


def source_task_class(connector_class: str) -> type[SourceTask]:
    """Return the class of a source connector's tasks. Raises PluginNotFoundError."""
    connector = plugin_registry().find(connector_class, PluginKind.SOURCE).load()()
    found: type[SourceTask] = connector.source_task()
    return found


class SourceSession:
    """A connector's task with the producer of its transactional id."""

    def __init__(self, plan: TaskPlan, index: int) -> None:
        self.generation = plan.generation
        self._plan = plan
        self._records_max = min(plan.records_max, _RECORDS_MAX)
        if plan.records_per_second_max:  # a transaction holds the records of its time
            most = max(1, int(plan.records_per_second_max * _TRANSACTION_S))
            self._records_max = min(self._records_max, most)
        self._free_at = 0.0
        """When the next poll is allowed by the largest rate."""
        self._policy = ErrorPolicy(plan.properties, plan.job, index)
        self._chain = build_record_chain(plan.properties, retries=self._policy.retries)
        named = {**plan.producer, "transactional.id": f"{plan.transactional_id}-{index}"}
        self._producer = TransactionalProducer(named)
        # Read after the producer has its epoch: what another task commits later fences it first.
        offsets = source_offsets.read(plan.job, plan.offsets_topic, plan.consumer)
        self._task = source_task_class(plan.connector_class)()
        self._task.start(plan.task_configs[index], offsets)

    def run_slice(self, figures: Figures) -> None:
        """Poll and write until the slice is over or the source has no records now."""
        deadline = time.monotonic() + self._plan.slice_ms / 1000
        try:
            while time.monotonic() < deadline:
                time.sleep(max(0.0, min(self._free_at, deadline) - time.monotonic()))
                if time.monotonic() >= deadline:
                    return
                records, is_drained = self._poll()
                if records:
                    self._write(records, figures)
                    self._task.commit()
                    self._slow_down(len(records))
                if is_drained:
                    return
        except BaseException:
            self._stop()
            raise

    def _slow_down(self, records: int) -> None:
        """Let the next poll wait as long as the records need at the largest rate."""
        rate = self._plan.records_per_second_max
        if rate:
            self._free_at = max(self._free_at, time.monotonic()) + records / rate

    def _poll(self) -> tuple[list[SourceRecord], bool]:
        """Return the records of one transaction; True when the source is drained."""
        until = time.monotonic() + _TRANSACTION_S
        found: list[SourceRecord] = []
        while len(found) < self._records_max and time.monotonic() < until:
            with connector_errors(Stage.TASK_POLL):
                polled = self._task.poll()
            if not polled:
                return found, True
            found += polled
        return found, False

    def _write(self, records: Sequence[SourceRecord], figures: Figures) -> None:
        producer = self._producer
        failed = FailedRecords(self._policy, figures)
        producer.begin()
        written = 0
        for record in records:
            try:
                output = self._chain.output(record)
                if output is not None:
                    produce(producer, output)
                    written += 1
            except RecordTooLargeError as error:
                failed.produced(producer, too_large(error), record)
            except RecordFailureError as failure:
                failed.produced(producer, failure, record)
        for offset in self._positions(records):
            produce(producer, offset)
        producer.commit()
        figures.transactions += 1
        figures.records += len(records)
        figures.written += written

    def _positions(self, records: Sequence[SourceRecord]) -> list[OutputRecord]:
        """Return the newest position of each source partition as records of the offsets topic."""
        topic = self._plan.offsets_topic
        newest: dict[bytes, SourceRecord] = {}
        key, partition = b"", None
        for record in records:
            if record.source_partition is not partition:  # most tasks use one object for all
                partition = record.source_partition
                key = source_offsets.encode_key(self._plan.job, partition)
            newest[key] = record
        return [
            OutputRecord(topic, None, None, key, source_offsets.encode_value(record.source_offset))
            for key, record in newest.items()
        ]

    def _stop(self) -> None:
        abandon(self._producer)
        with contextlib.suppress(Exception):
            self._task.stop()
