"""The writer of a user's query: its rows become records of topics."""

from collections.abc import Mapping
from itertools import repeat

from barnabas.pipeline.delivery.plan.job_plan import RecordPosition
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.rows.frame_rows import FrameRows
from barnabas.pipeline.delivery.rows.task_figures import Figures
from barnabas.pipeline.delivery.writing.produced_records import BY_KEY, RecordTarget
from barnabas.pipeline.delivery.writing.record_producer import RecordTooLargeError
from barnabas.pipeline.delivery.writing.transactional_producer import Positions


class FrameWriter:
    """Produces the rows that no filter removed."""

    def open(self, target: RecordTarget, positions: Positions, figures: Figures) -> None:
        """Begin a transaction."""
        self._producer = target
        self._figures = figures

    def write(self, rows: FrameRows) -> None:
        """Produce each row. Raises TaskFailureError."""
        written = rows.written()
        add = self._producer.produce
        headers = repeat(None) if written.headers is None else written.headers
        columns = zip(
            written.targets,
            written.values,
            written.keys,
            written.partitions,
            written.timestamps_ms,
            headers,
            strict=False,
        )
        for index, (topic, value, key, partition, timestamp_ms, own) in enumerate(columns):
            try:
                target = BY_KEY if partition is None else partition
                add(topic, value, key, target, timestamp_ms or 0, own or None)
            except RecordTooLargeError as error:
                place = RecordPosition(rows.topic, rows.partition, written.offsets[index])
                message = f"the output of record {place} is too large for topic {topic}: {error}"
                raise TaskFailureError(message, is_permanent=True, record=place) from error
        self._producer.poll()
        self._figures.written += len(written)

    def flush(self, offsets: Mapping[tuple[str, int], int]) -> str | None:
        """Return no note: the transaction holds everything."""
        return None

    def close(self, *, is_committed: bool) -> None:
        """End the transaction."""

    def stop(self) -> None:
        """Release nothing."""
