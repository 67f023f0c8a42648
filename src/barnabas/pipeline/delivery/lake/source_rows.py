"""The task of a row source: rows become records, and rows that fail become dead letters.

Both are rows with a topic then, which the tasks of a micro-batch write in one transaction.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

import attrs

from barnabas.pipeline.connect.error_handling import ErrorPolicy, RecordFailureError, Stage
from barnabas.pipeline.connect.record_chain import RecordChain, build_record_chain
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import STRING, Struct
from barnabas.pipeline.data.records import SourceRecord, source_record
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan
from barnabas.pipeline.delivery.rows.collected_rows import CollectedRows
from barnabas.pipeline.delivery.rows.spark_columns import connect_schema, connect_value
from barnabas.pipeline.delivery.rows.task_figures import Figures
from barnabas.pipeline.delivery.writing.produced_records import (
    FailedRecords,
    connector_errors,
    produce,
)
from barnabas.pipeline.delivery.writing.record_writers import WriterCache

CORRUPT: Final = "_barnabas_corrupt"
"""The column with the text of a line that is not a row; null in rows."""
_SOURCE_CLASS: Final = "barnabas.SparkSource"
_LINE_CHARS_MAX: Final = 200


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

    def records(self, batch: Any) -> CollectedRows:
        """Return the records of an Arrow batch of rows. Raises TaskFailureError."""
        outputs = CollectedRows()
        failed = FailedRecords(self._policy, Figures())
        for row in batch.to_pylist():
            text = row.pop(CORRUPT, None)
            record = self._record(self._convert(row)) if text is None else self._line(text)
            try:
                output = self._chain.output(record) if text is None else _refuse(text)
            except RecordFailureError as failure:
                first = len(outputs)
                failed.produced(outputs, failure, record)
                outputs.mark_failed(first)
            else:
                if output is not None:
                    produce(outputs, output)
        return outputs

    def _line(self, text: str) -> SourceRecord:
        """Return a line of a file that is not a row."""
        return source_record(self._topic, text, STRING, source_partition={}, source_offset={})

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


def _refuse(line: str) -> NoReturn:
    """Raise RecordFailureError for a line of a file that is not a row."""
    error = DataError(f"a line of a file does not fit the schema: {line[:_LINE_CHARS_MAX]}")
    raise RecordFailureError(Stage.TASK_POLL, _SOURCE_CLASS, error)


_MAKERS: Final = WriterCache(RecordMaker, lambda plan: plan.task)


def run(plan: RowsPlan, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the records of rows, in the columns of `collected_rows.SCHEMA`.

    With a largest rate there is one task, which waits as long as its rows need; their transactions
    begin later, in the tasks that write.
    """
    rate = plan.task.records_per_second_max
    free_at = time.monotonic()
    with _MAKERS.borrowed(plan) as maker:
        for batch in batches:
            yield maker.records(batch).as_batch()
            if rate:
                free_at += batch.num_rows / rate
                time.sleep(max(0.0, free_at - time.monotonic()))
