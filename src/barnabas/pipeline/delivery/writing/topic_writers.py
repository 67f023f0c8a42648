"""Writers of copy jobs: rows of topics become records of topics."""

from collections.abc import Mapping
from typing import Final

from barnabas.pipeline.connect.error_handling import ErrorPolicy, RecordFailureError
from barnabas.pipeline.connect.record_chain import (
    DEFAULT_HEADER_CONVERTER,
    RecordChain,
    build_record_chain,
)
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan
from barnabas.pipeline.delivery.rows.arrow_rows import PartitionRows
from barnabas.pipeline.delivery.rows.task_figures import Figures
from barnabas.pipeline.delivery.writing.kept_partitions import KeptPartitions
from barnabas.pipeline.delivery.writing.produced_columns import ProducedColumns
from barnabas.pipeline.delivery.writing.produced_records import (
    BY_KEY,
    FailedRecords,
    TopicTarget,
    produce,
    raw_record,
    too_large,
)
from barnabas.pipeline.delivery.writing.record_producer import RecordTooLargeError
from barnabas.pipeline.delivery.writing.transactional_producer import Positions

_KEEP_HEADERS: Final = ("ByteArrayConverter", "SimpleHeaderConverter")
"""The header converters that read all bytes; a copy writes those of unchanged headers."""


def is_bytes_copy(properties: Mapping[str, str]) -> bool:
    """True when converters and transformations leave every record as it is."""
    names = (properties.get(name, "") for name in ("key.converter", "value.converter"))
    return (
        all(name.endswith("ByteArrayConverter") for name in names)
        and properties.get("header.converter", DEFAULT_HEADER_CONVERTER).endswith(_KEEP_HEADERS)
        and not properties.get("transforms", "").strip()
    )


class _TopicWriter:
    """The parts that the writers of this module share."""

    def __init__(self, plan: TaskPlan) -> None:
        self._plan = plan
        self._policy = ErrorPolicy(plan.properties, plan.job)

    def open(self, target: TopicTarget, positions: Positions, figures: Figures) -> None:
        """Begin a transaction."""
        self._producer = target
        self._figures = figures
        self._failed = FailedRecords(self._policy, figures)

    def flush(self, offsets: Mapping[tuple[str, int], int]) -> str | None:
        """Return no note: the transaction holds everything."""
        return None

    def close(self, *, is_committed: bool) -> None:
        """End the transaction."""

    def stop(self) -> None:
        """Release nothing."""


class BytesCopy(_TopicWriter):
    """Writes keys, values and headers unchanged."""

    def __init__(self, plan: TaskPlan) -> None:
        super().__init__(plan)
        self._kept = KeptPartitions()

    def write(self, rows: PartitionRows) -> None:
        """Produce each row. Raises TaskFailureError when the job does not tolerate a failure."""
        topic = self._plan.target_topic or rows.topic
        is_kept = self._kept.is_kept(rows.topic, rows.partition, topic, self._producer.partitions)
        partition = rows.partition if is_kept else BY_KEY
        columns = ProducedColumns(
            topic, rows.values, rows.keys, partition, rows.timestamps_ms, rows.headers
        )
        self._figures.written += len(rows)

        def refuse(index: int, error: RecordTooLargeError) -> None:
            self._failed.consumed(self._producer, too_large(error), raw_record(rows, index))
            self._figures.written -= 1

        self._producer.produce_all(columns, refuse)
        self._producer.poll()


class ChainCopy(_TopicWriter):
    """Writes records through the job's converters and transformations."""

    def __init__(self, plan: TaskPlan) -> None:
        super().__init__(plan)
        self._chain: RecordChain = build_record_chain(plan.properties, retries=self._policy.retries)

    def write(self, rows: PartitionRows) -> None:
        """Produce what the chain makes of each row. Raises TaskFailureError."""
        producer, chain, topic = self._producer, self._chain, self._plan.target_topic
        written = 0
        for index in range(len(rows)):
            record = raw_record(rows, index)
            try:
                output = chain.copied(record, topic)
                if output is not None:
                    produce(producer, output)
                    written += 1
            except RecordTooLargeError as error:
                self._failed.consumed(producer, too_large(error), record)
            except RecordFailureError as failure:
                self._failed.consumed(producer, failure, record)
        producer.poll()
        self._figures.written += written
