"""The writer of a user's query: its rows become records of topics."""

from collections.abc import Mapping

from barnabas.pipeline.delivery.plan.job_plan import RecordPosition
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.rows.frame_rows import FrameRows
from barnabas.pipeline.delivery.rows.task_figures import Figures
from barnabas.pipeline.delivery.writing.produced_columns import ProducedColumns
from barnabas.pipeline.delivery.writing.produced_records import BY_KEY, TopicTarget
from barnabas.pipeline.delivery.writing.record_producer import RecordTooLargeError
from barnabas.pipeline.delivery.writing.transactional_producer import Positions


class FrameWriter:
    """Produces the rows that no filter removed."""

    def __init__(self, target_topic: str | None) -> None:
        """Take the topic of rows that name none."""
        self._topic = target_topic or ""

    def open(self, target: TopicTarget, positions: Positions, figures: Figures) -> None:
        """Begin a transaction."""
        self._producer = target
        self._figures = figures

    def write(self, rows: FrameRows) -> None:
        """Produce each row. Raises TaskFailureError."""
        written = rows.written()
        columns = ProducedColumns(
            self._topic if written.targets is None else written.targets,
            written.values,
            written.keys,
            BY_KEY if written.partitions is None else written.partitions,
            written.timestamps_ms,
            written.headers and [each or None for each in written.headers],
        )

        def refuse(index: int, error: RecordTooLargeError) -> None:
            place = RecordPosition(rows.topic, rows.partition, written.offset(index))
            topic = columns.record(index)[0]
            message = f"the output of record {place} is too large for topic {topic}: {error}"
            raise TaskFailureError(message, is_permanent=True, record=place) from error

        self._producer.produce_all(columns, refuse)
        self._producer.poll()
        self._figures.written += len(written)

    def flush(self, offsets: Mapping[tuple[str, int], int]) -> str | None:
        """Return no note: the transaction holds everything."""
        return None

    def close(self, *, is_committed: bool) -> None:
        """End the transaction."""

    def stop(self) -> None:
        """Release nothing."""
