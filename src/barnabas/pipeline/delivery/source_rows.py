"""The task of a row source: rows become records, and rows that fail become dead letters.

Both are rows with a topic then, which the tasks of an epoch write in one transaction.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from barnabas.pipeline.connect.error_handling import ErrorPolicy, RecordFailureError
from barnabas.pipeline.connect.record_chain import RecordChain, build_record_chain
from barnabas.pipeline.data.connect_schema import Struct
from barnabas.pipeline.data.records import SourceRecord, source_record
from barnabas.pipeline.delivery.collected_rows import TimedRows
from barnabas.pipeline.delivery.produced_records import FailedRecords, connector_errors, produce
from barnabas.pipeline.delivery.record_writers import WriterCache
from barnabas.pipeline.delivery.spark_columns import connect_schema, connect_value
from barnabas.pipeline.delivery.task_figures import Figures
from barnabas.pipeline.delivery.worker_plan import TaskPlan


@attrs.frozen
class RowsPlan:
    """The values that tasks of a row source use in addition to those of every job."""

    task: TaskPlan
    columns: Mapping[str, Any]
    """The type of a row, in Spark's JSON."""
    topic: str
    key_column: str | None


class RecordMaker:
    """Turns the rows of one job into records; a worker keeps it from one batch to the next."""

    def __init__(self, plan: RowsPlan) -> None:
        task = plan.task
        self._topic = plan.topic
        self._key_column = plan.key_column
        self._policy = ErrorPolicy(task.properties, task.job)
        with connector_errors("START"):
            self._chain: RecordChain = build_record_chain(
                task.properties, retries=self._policy.retries
            )
        self._schema = attrs.evolve(connect_schema({**plan.columns}), optional=False)
        self._convert = connect_value(self._schema)

    def records(self, batch: Any) -> TimedRows:
        """Return the records of an Arrow batch of rows. Raises TaskFailureError."""
        outputs = TimedRows()
        failed = FailedRecords(self._policy, Figures())
        for row in batch.to_pylist():
            record = self._record(self._convert(row))
            try:
                output = self._chain.output(record)
            except RecordFailureError as failure:
                failed.produced(outputs, failure, record)
            else:
                if output is not None:
                    produce(outputs, output)
        return outputs

    def _record(self, value: Struct) -> SourceRecord:
        key = None if self._key_column is None else self._schema.field(self._key_column)
        return source_record(
            self._topic,
            value,
            self._schema,
            source_partition={},
            source_offset={},
            key=None if key is None else value.value_of(key),
            key_schema=None if key is None else key.schema,
        )

    def close(self, *, is_committed: bool) -> None:
        """End a task."""

    def stop(self) -> None:
        """Release nothing."""


_MAKERS: Final = WriterCache(RecordMaker, lambda plan: plan.task)


def run(plan: RowsPlan, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the records of rows, in the columns of `collected_rows.TIMED_SCHEMA`."""
    with _MAKERS.borrowed(plan) as maker:
        for batch in batches:
            yield maker.records(batch).as_batch()
