"""Rows of a user's query: runs of source partitions, filtered rows, and what is produced."""

from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from barnabas.pipeline.delivery.plan.job_plan import RecordPosition  # noqa: E402
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError  # noqa: E402
from barnabas.pipeline.delivery.rows.frame_rows import FrameRows, frame_runs  # noqa: E402
from barnabas.pipeline.delivery.rows.task_figures import Figures  # noqa: E402
from barnabas.pipeline.delivery.writing.frame_writer import FrameWriter  # noqa: E402
from barnabas.pipeline.delivery.writing.produced_columns import ProducedColumns  # noqa: E402
from barnabas.pipeline.delivery.writing.record_producer import RecordTooLargeError  # noqa: E402

HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])


def batch(
    *rows: tuple[str, int, int, bool, bytes | None], headers: Any = None, without: Any = ()
) -> Any:
    """Return an Arrow batch of (topic, partition, offset, kept, value), without some columns."""
    count = len(rows)
    columns = {
        "key": pa.array([b"k"] * count, pa.binary()),
        "value": pa.array([row[4] for row in rows], pa.binary()),
        "headers": pa.array(headers or [None] * count, pa.list_(HEADER)),
        "topic": pa.array(["out" if row[3] else None for row in rows], pa.string()),
        "partition": pa.array([None] * count, pa.int32()),
        "timestamp_ms": pa.array([row[2] + 100 if row[3] else None for row in rows], pa.int64()),
        "_topic": pa.array([row[0] for row in rows], pa.string()),
        "_partition": pa.array([row[1] for row in rows], pa.int32()),
        "_offset": pa.array([row[2] for row in rows], pa.int64()),
        "_kept": pa.array([row[3] for row in rows], pa.bool_()),
    }
    kept = {name: column for name, column in columns.items() if name not in without}
    return pa.RecordBatch.from_arrays(list(kept.values()), names=list(kept))


class Target:
    """Takes records as a producer does; values above 10 bytes are too large."""

    def __init__(self) -> None:
        self.records: list[tuple[Any, ...]] = []

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        timestamp_ms: int,
        headers: Any,
    ) -> None:
        if value is not None and len(value) > 10:
            raise RecordTooLargeError("too large")
        self.records.append((topic, value, key, partition, timestamp_ms, headers))

    def produce_all(self, columns: ProducedColumns, refuse: Any) -> None:
        for index in range(len(columns)):
            try:
                self.produce(*columns.record(index))
            except RecordTooLargeError as error:
                refuse(index, error)

    def partitions(self, topic: str) -> int:
        return 1

    def poll(self) -> None:
        pass


def written(rows: FrameRows) -> tuple[Target, Figures]:
    target, figures, writer = Target(), Figures(), FrameWriter("one")
    writer.open(target, {}, figures)
    writer.write(rows)
    return target, figures


def test_runs_end_where_the_source_partition_changes() -> None:
    found = batch(("a", 0, 1, True, b"x"), ("a", 1, 5, True, b"y"), ("b", 1, 6, False, None))
    runs = [(rows.topic, rows.partition, len(rows)) for rows in frame_runs(found, "s")]
    assert runs == [("a", 0, 1), ("a", 1, 1), ("b", 1, 1)]
    assert list(frame_runs(batch(), "s")) == []


def test_run_knows_its_offsets_and_its_oldest_written_row() -> None:
    (rows,) = frame_runs(
        batch(("a", 0, 3, False, None), ("a", 0, 4, True, b"x"), ("a", 0, 4, True, b"y")), "s"
    )
    assert (rows.first_offset, rows.last_offset, rows.oldest_ms) == (3, 4, 104)
    behind = rows.after(4)
    assert (len(behind), behind.first_offset) == (2, 4)
    assert rows.after(3) is rows
    assert len(rows.after(5)) == 0


def test_writer_produces_rows_that_no_filter_removed() -> None:
    headers = [None, [{"key": "h", "value": b"1"}], None]
    (rows,) = frame_runs(
        batch(
            ("a", 0, 1, False, b"dropped"), ("a", 0, 2, True, b"x"), ("a", 0, 3, True, None),
            headers=headers,
        ),
        "s",
    )  # fmt: skip
    target, figures = written(rows)
    assert target.records == [
        ("out", b"x", b"k", -1, 102, [("h", b"1")]),
        ("out", None, b"k", -1, 103, None),
    ]
    assert figures.written == 2


def test_writer_of_a_row_that_is_too_large_names_its_record() -> None:
    (rows,) = frame_runs(batch(("a", 3, 8, True, b"x"), ("a", 3, 9, True, b"x" * 11)), "s")
    with pytest.raises(TaskFailureError) as info:
        written(rows)
    assert info.value.failure.record == RecordPosition("a", 3, 9)
    assert info.value.failure.is_permanent


def test_columns_with_one_value_in_all_rows_are_left_out() -> None:
    found = batch(
        ("", 2, 5, True, b"x"), ("", 2, 6, True, b"y"), ("", 3, 6, True, b"z"),
        without=("topic", "partition", "_topic"),
    )  # fmt: skip
    first, second = frame_runs(found, "s")
    assert (first.topic, first.partition, first.last_offset) == ("s", 2, 6)
    assert (second.topic, second.partition, second.last_offset) == ("s", 3, 6)
    target, _ = written(first)
    assert target.records == [
        ("one", b"x", b"k", -1, 105, None),
        ("one", b"y", b"k", -1, 106, None),
    ]


def test_rows_may_name_their_partition_and_have_no_time() -> None:
    found = batch(("a", 0, 1, True, b"x"), ("a", 0, 2, True, b"y"))
    columns = {name: found.column(name) for name in found.schema.names}
    columns["partition"] = pa.array([None, 4], pa.int32())
    columns["timestamp_ms"] = pa.array([None, 7], pa.int64())
    (rows,) = frame_runs(pa.RecordBatch.from_pydict(columns), "s")
    target, _ = written(rows)
    assert [record[3:5] for record in target.records] == [(-1, 0), (4, 7)]
