"""The task of a lake sink: records of topics become rows, and failed records dead letters.

Spark writes the rows, exactly once by the log of its sink. A dead letter and the offset after it
are one transaction in another group, so a batch that is repeated writes no letter twice. That group
belongs to the name of the job, rows to its checkpoint: a new checkpoint begins with no letters.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

import attrs
from confluent_kafka import TopicPartition

from barnabas.pipeline.connect.error_handling import ErrorPolicy, RecordFailureError, Stage
from barnabas.pipeline.connect.record_chain import RecordChain, build_record_chain
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.records import RawRecord, SinkRecord
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan
from barnabas.pipeline.delivery.rows.arrow_library import pa
from barnabas.pipeline.delivery.rows.arrow_rows import PartitionRows, runs
from barnabas.pipeline.delivery.rows.spark_columns import arrow_type, struct_fitting
from barnabas.pipeline.delivery.rows.task_figures import Figures
from barnabas.pipeline.delivery.writing.produced_records import (
    FailedRecords,
    connector_errors,
    raw_record,
)
from barnabas.pipeline.delivery.writing.record_writers import WriterCache
from barnabas.pipeline.delivery.writing.transactional_producer import (
    PRODUCERS,
    Transaction,
    TransactionalProducer,
    TransactionSettings,
    committed,
    offset_reader,
    transaction,
)

_DEAD_LETTERS: Final = "dead-letters"
ROW: Final = "row"
_SINK_CLASS: Final = "barnabas.SparkSink"


def schema_of(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a task's rows in Spark's JSON: the row, and the task's figures.

    Rows have no figures; the last one of a task has figures only.
    """
    kinds: dict[str, Any] = {ROW: {**columns}, **dict.fromkeys(attrs.fields_dict(Figures), "long")}
    fields: list[dict[str, Any]] = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in kinds.items()
    ]
    return {"type": "struct", "fields": fields}


@attrs.frozen
class LakePlan:
    """The values that tasks of a lake sink use in addition to those of every job."""

    task: TaskPlan
    columns: Mapping[str, Any]
    """The type of a row, in Spark's JSON."""
    skips_nulls: bool


@attrs.frozen
class _Letter:
    """A dead letter as a producer takes it, and the offset of its record."""

    offset: int
    arguments: tuple[Any, ...]


class _Letters:
    """Takes dead letters until the end of the task."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, int], list[_Letter]] = {}
        self.at: tuple[str, int, int] = ("", 0, 0)
        """The topic, partition and offset of the record that is looked at."""

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        timestamp_ms: int,
        headers: list[tuple[str, bytes | None]] | None,
    ) -> None:
        """Take the dead letter of the record that is looked at."""
        source, number, offset = self.at
        letter = _Letter(offset, (topic, value, key, partition, timestamp_ms, headers))
        self.found.setdefault((source, number), []).append(letter)

    def poll(self) -> None:
        """Do nothing: letters are written later."""

    def write(self, plan: TaskPlan, figures: Figures) -> None:
        """Write the letters after the last one that was committed."""
        for where, letters in self.found.items():
            topic, partition = where
            with _letters_transaction(plan, where) as begun:
                committed = begun.positions[where].offset
                for letter in letters:
                    if letter.offset >= committed:
                        begun.producer.produce(*letter.arguments)
                following = max(committed, letters[-1].offset + 1)
                begun.send_offsets([TopicPartition(topic, partition, following)])
            figures.transactions += 1


def has_letters(plan: TaskPlan, offsets: Mapping[tuple[str, int], int]) -> bool:
    """True when dead letters at or after offsets of partitions are written.

    Transactions of tasks that were killed are aborted first. Raises KafkaException, and the errors
    of `TransactionalProducer`.
    """
    for place in offsets:
        TransactionalProducer({**plan.producer, "transactional.id": _letters_id(plan, *place)})
    reader = offset_reader(_letters_group(plan), plan.consumer)
    return any(
        position.offset > offsets[position.topic, position.partition]
        for position in committed(reader, list(offsets))
    )


def forget_letters(plan: TaskPlan, offsets: Mapping[tuple[str, int], int]) -> None:
    """Set the position of dead letters back to offsets of partitions.

    A job of the same name with another checkpoint may have left a greater one: failed records
    below it would get no letters. Raises KafkaException, and the errors of
    `TransactionalProducer`.
    """
    reader = offset_reader(_letters_group(plan), plan.consumer)
    for position in committed(reader, list(offsets)):
        where = (position.topic, position.partition)
        if position.offset > offsets[where]:
            with _letters_transaction(plan, where) as begun:
                begun.send_offsets([TopicPartition(*where, offsets[where])])
            PRODUCERS.discard(_letters_id(plan, *where), plan.generation)


def _letters_transaction(
    plan: TaskPlan, where: tuple[str, int]
) -> AbstractContextManager[Transaction]:
    """Return a transaction after the last letter of a partition."""
    settings = TransactionSettings(
        _letters_group(plan), plan.generation, plan.producer, plan.consumer
    )
    return transaction(settings, _letters_id(plan, *where), [where])


def _letters_group(plan: TaskPlan) -> str:
    return f"{plan.group_id}-{_DEAD_LETTERS}"


def _letters_id(plan: TaskPlan, topic: str, partition: int) -> str:
    return f"{plan.transactional_id}-{_DEAD_LETTERS}-{topic}-{partition}"


class RowConverter:
    """Turns the records of one job into rows; a worker keeps it from one batch to the next."""

    def __init__(self, plan: LakePlan) -> None:
        task = plan.task
        self._skips_nulls = plan.skips_nulls
        self._policy = ErrorPolicy(task.properties, task.job)
        with connector_errors("START"):
            self._chain: RecordChain = build_record_chain(
                task.properties, retries=self._policy.retries
            )
        self._fit = struct_fitting(plan.columns, "the value")
        self.rows: list[dict[str, Any]] = []

    def open(self, letters: _Letters, figures: Figures) -> None:
        """Begin a task."""
        self._letters = letters
        self._figures = figures
        self._failed = FailedRecords(self._policy, figures)

    def write(self, rows: PartitionRows) -> None:
        """Add the rows of records. Raises TaskFailureError."""
        for index in range(len(rows)):
            raw = raw_record(rows, index)
            try:
                row = self._row(raw)
            except RecordFailureError as failure:
                self._letters.at = (raw.topic, raw.partition, raw.offset)
                self._failed.consumed(self._letters, failure, raw)
            else:
                if row is not None:
                    self.rows.append(row)
        self._figures.records += len(rows)
        self._figures.see_timestamp(min(rows.timestamps_ms))

    def _row(self, raw: RawRecord) -> dict[str, Any] | None:
        record = self._chain.sink_record(raw)
        if record is None or (record.value is None and self._skips_nulls):
            return None
        return self._fitted(record)

    def _fitted(self, record: SinkRecord) -> dict[str, Any]:
        try:
            if record.value is None:
                raise DataError("the record has no value and behavior.on.null.values is fail")
            return self._fit(record.value)
        except DataError as error:
            raise RecordFailureError(Stage.TASK_PUT, _SINK_CLASS, error) from error

    def close(self, *, is_committed: bool) -> None:
        """End a task."""
        del is_committed
        self.rows = []

    def stop(self) -> None:
        """Release nothing."""


_CONVERTERS: Final = WriterCache(RowConverter, lambda plan: plan.task)


def run(plan: LakePlan, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the rows of records, then one row of figures."""
    figures, letters = Figures(), _Letters()
    row_type = arrow_type({**plan.columns})
    with _CONVERTERS.borrowed(plan) as converter:
        converter.open(letters, figures)
        for batch in batches:
            for rows in runs(batch):
                converter.write(rows)
            figures.written += len(converter.rows)
            if converter.rows:
                yield _batch(converter.rows, row_type)
            converter.rows = []
        letters.write(plan.task, figures)
    yield _figures_batch(figures, row_type)


def _batch(rows: list[dict[str, Any]], row_type: Any) -> Any:
    nothing = pa.nulls(len(rows), pa.int64())
    columns = {ROW: pa.array(rows, row_type)}
    columns |= dict.fromkeys(attrs.fields_dict(Figures), nothing)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _figures_batch(figures: Figures, row_type: Any) -> Any:
    columns = {ROW: pa.nulls(1, row_type)}
    columns |= {
        name: pa.array([value], pa.int64()) for name, value in attrs.asdict(figures).items()
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
