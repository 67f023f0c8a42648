"""The writer of a sink job: rows of topics go to a connector's task."""

from collections.abc import Mapping

from barnabas.pipeline.connect.error_handling import ErrorPolicy, RecordFailureError, Stage
from barnabas.pipeline.connect.plugin_api import CommittedPosition, SinkTask
from barnabas.pipeline.connect.plugin_registry import PluginKind, plugin_registry
from barnabas.pipeline.connect.record_chain import RecordChain, build_record_chain
from barnabas.pipeline.data.records import SinkRecord
from barnabas.pipeline.delivery.plan import offset_metadata
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan
from barnabas.pipeline.delivery.rows.arrow_rows import PartitionRows
from barnabas.pipeline.delivery.rows.task_figures import Figures
from barnabas.pipeline.delivery.writing.produced_records import (
    FailedRecords,
    RecordTarget,
    connector_errors,
    first_position,
    raw_record,
)
from barnabas.pipeline.delivery.writing.transactional_producer import Positions


def sink_task_class(connector_class: str) -> type[SinkTask]:
    """Return the class of a sink connector's tasks. Raises PluginNotFoundError."""
    connector = plugin_registry().find(connector_class, PluginKind.SINK).load()()
    found: type[SinkTask] = connector.sink_task()
    return found


class SinkWriter:
    """Passes converted rows to the task of a sink connector."""

    def __init__(self, plan: TaskPlan) -> None:
        self._policy = ErrorPolicy(plan.properties, plan.job)
        self._chain: RecordChain = build_record_chain(plan.properties, retries=self._policy.retries)
        self._task = sink_task_class(plan.connector_class)()
        self._task.start(plan.task_configs[0] if plan.task_configs else plan.properties)

    def open(self, target: RecordTarget, positions: Positions, figures: Figures) -> None:
        """Begin a transaction: the task undoes what it wrote after the committed positions."""
        self._producer = target
        self._figures = figures
        self._failed = FailedRecords(self._policy, figures)
        committed = {
            where: CommittedPosition(at.offset, offset_metadata.decode(at.metadata).note)
            for where, at in positions.items()
            if at.offset >= 0
        }
        with connector_errors("START"):
            self._task.open(committed)

    def write(self, rows: PartitionRows) -> None:
        """Put the rows into the task. Raises TaskFailureError."""
        records: list[SinkRecord] = []
        for index in range(len(rows)):
            record = raw_record(rows, index)
            try:
                converted = self._chain.sink_record(record)
            except RecordFailureError as failure:
                self._failed.consumed(self._producer, failure, record)
            else:
                if converted is not None:
                    records.append(converted)
        if records:
            with connector_errors(Stage.TASK_PUT, first_position(rows)):
                self._task.put(records)
        self._producer.poll()
        self._figures.written += len(records)

    def flush(self, offsets: Mapping[tuple[str, int], int]) -> str | None:
        """Make the rows durable; return the task's note."""
        with connector_errors(Stage.TASK_PUT):
            return self._task.flush(offsets)

    def close(self, *, is_committed: bool) -> None:
        """End the transaction."""
        self._task.close(is_committed=is_committed)

    def stop(self) -> None:
        """Stop the task."""
        self._task.stop()
