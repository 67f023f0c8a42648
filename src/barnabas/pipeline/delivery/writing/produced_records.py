"""Records and dead letters of a task on their way into its transaction."""

import contextlib
from collections.abc import Callable, Generator
from typing import Final, Protocol

from barnabas.pipeline.connect.error_handling import (
    ErrorPolicy,
    RecordFailureError,
    Stage,
    ToleranceExceededError,
)
from barnabas.pipeline.connect.plugin_registry import PluginNotFoundError
from barnabas.pipeline.data.connect_errors import ConnectError, RetriableError
from barnabas.pipeline.data.records import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    OutputRecord,
    RawRecord,
    SourceRecord,
)
from barnabas.pipeline.definitions.config_types import ConfigValueError
from barnabas.pipeline.delivery.plan.job_plan import RecordPosition
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.rows.arrow_rows import PartitionRows
from barnabas.pipeline.delivery.rows.task_figures import Figures
from barnabas.pipeline.delivery.writing.produced_columns import ProducedColumns
from barnabas.pipeline.delivery.writing.record_producer import RecordTooLargeError

BY_KEY: Final = -1
"""The partition of a record whose partition the producer chooses."""
_PRODUCER_CLASS: Final = "org.apache.kafka.clients.producer.KafkaProducer"


class RecordTarget(Protocol):
    """Takes records: a producer, or a list of rows."""

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        timestamp_ms: int,
        headers: list[tuple[str, bytes | None]] | None,
    ) -> None:
        """Take a record. Raises RecordTooLargeError."""
        ...

    def poll(self) -> None:
        """Raise the first error of an earlier record."""
        ...


class TopicTarget(RecordTarget, Protocol):
    """Takes records for topics of a cluster: a producer."""

    def produce_all(
        self, columns: ProducedColumns, refuse: Callable[[int, RecordTooLargeError], None]
    ) -> None:
        """Take records; `refuse` takes the index of each that is too large."""
        ...

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic, 0 when it is unknown."""
        ...


def raw_record(rows: PartitionRows, index: int) -> RawRecord:
    """Return one row as a record."""
    headers = () if rows.headers is None else rows.headers[index]
    return RawRecord(
        rows.topic,
        rows.partition,
        rows.offsets[index],
        rows.timestamps_ms[index],
        LOG_APPEND_TIME if rows.is_log_append_time(index) else CREATE_TIME,
        rows.keys[index],
        rows.values[index],
        tuple(headers),
    )


def first_position(rows: PartitionRows) -> RecordPosition:
    """Return the place of the first row."""
    return RecordPosition(rows.topic, rows.partition, rows.offsets[0])


@contextlib.contextmanager
def connector_errors(stage: str, record: RecordPosition | None = None) -> Generator[None]:
    """Raise TaskFailureError for errors of connectors, configurations and plug-ins.

    A later attempt may pass after a RetriableError, and only after that, as in Java's Connect.
    """
    try:
        yield
    except (ConfigValueError, PluginNotFoundError, ConnectError) as error:
        is_permanent = not isinstance(error, RetriableError)
        raise TaskFailureError(
            str(error), is_permanent=is_permanent, record=record, stage=stage
        ) from error


def produce(producer: RecordTarget, record: OutputRecord) -> None:
    """Add a record to the open transaction. Raises RecordTooLargeError."""
    producer.produce(
        record.topic,
        record.value,
        record.key,
        BY_KEY if record.partition is None else record.partition,
        record.timestamp_ms or 0,
        list(record.headers) or None,
    )


class FailedRecords:
    """Writes dead letters, or ends the task, as the job's `errors.*` properties say."""

    def __init__(self, policy: ErrorPolicy, figures: Figures) -> None:
        self._policy = policy
        self._figures = figures

    def consumed(
        self, producer: RecordTarget, failure: RecordFailureError, record: RawRecord
    ) -> None:
        """Write the dead letter of a consumed record. Raises TaskFailureError."""
        position = RecordPosition(record.topic, record.partition, record.offset)
        try:
            letter = self._policy.handle(failure, record)
        except ToleranceExceededError as error:
            raise _ended(error, failure, position) from error
        self._write(producer, letter, failure, position)

    def produced(
        self, producer: RecordTarget, failure: RecordFailureError, record: SourceRecord
    ) -> None:
        """Write the dead letter of a source's record. Raises TaskFailureError."""
        try:
            letter = self._policy.handle_source(failure, record)
        except ToleranceExceededError as error:
            raise _ended(error, failure, None) from error
        self._write(producer, letter, failure, None)

    def _write(
        self,
        producer: RecordTarget,
        letter: OutputRecord | None,
        failure: RecordFailureError,
        position: RecordPosition | None,
    ) -> None:
        self._figures.dead_letters += 1
        if letter is None:
            return
        try:
            produce(producer, letter)
        except RecordTooLargeError as error:
            message = f"the dead letter is too large for {letter.topic}: {failure}"
            raise TaskFailureError(
                message, is_permanent=True, record=position, stage=failure.stage.value
            ) from error


def too_large(error: RecordTooLargeError) -> RecordFailureError:
    """Return the failure of a record that the target does not take."""
    return RecordFailureError(Stage.KAFKA_PRODUCE, _PRODUCER_CLASS, error)


def _ended(
    error: ToleranceExceededError, failure: RecordFailureError, position: RecordPosition | None
) -> TaskFailureError:
    return TaskFailureError(
        str(error), is_permanent=True, record=position, stage=failure.stage.value
    )
