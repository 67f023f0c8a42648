"""SELECT: the rows of a query as they come, or those up to the present end of the topics."""

from __future__ import annotations

import json
import queue
import tempfile
import threading
import time
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.pipeline.delivery.driver import chained_states
from barnabas.pipeline.delivery.micro_batches import stream_times
from barnabas.pipeline.delivery.plan import task_failures
from barnabas.pipeline.sql import exact_json
from barnabas.pipeline.sql.catalog.source_values import WINDOW_BOUNDS, SourceColumn
from barnabas.pipeline.sql.planning.column_structs import struct_of
from barnabas.pipeline.sql.planning.query_planning import planned
from barnabas.pipeline.sql.planning.source_reading import RECORDS_MAX
from barnabas.pipeline.sql.planning.sql_serdes import JsonColumns
from barnabas.pipeline.sql.shell.answer_values import DeletedRow
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.streams.kernel_frames import JoinedInputs
from barnabas.pipeline.streams.serdes import functions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barnabas.pipeline.delivery.plan.job_plan import JobFailure
    from barnabas.pipeline.sql.analysis.plan_values import QueryPlan
    from barnabas.pipeline.streams.serdes import Column
    from barnabas.pipeline.streams.stream_app import App
    from barnabas.pipeline.streams.topic_reading import TopicInput

_POLL_S: Final = 0.1
_POSITIONS_S: Final = 120.0
_POSITIONS_POLL_S: Final = 0.02
_ROWS_MAX: Final = 500
_QUEUED_MAX: Final = 10_000
_TRIGGER: Final = "100 milliseconds"
_COLLECTED_MAX: Final = 10_000
"""The records of a micro-batch whose rows are collected: this process has all of them in memory,
and none of them is sent before."""
_starting: Final = threading.Lock()
"""Queries start one after the other: some set properties of the Spark session meanwhile."""


def columns_of(plan: QueryPlan) -> tuple[SourceColumn, ...]:
    """Return the columns of a query's rows."""
    return tuple(SourceColumn(each.name, each.expression.type) for each in plan.value)


def table_key_of(plan: QueryPlan) -> tuple[str, ...] | None:
    """Return the columns of the key among the rows', None unless a table is pulled."""
    if plan.emit is not None or plan.kind != "TABLE":
        return None
    names = {each.name for each in plan.key}
    if plan.window is not None:
        names |= {*WINDOW_BOUNDS}
    return tuple(each for each in plan.columns if each in names)


def _deleted(records: Any, plan: QueryPlan) -> Any:
    """Return the struct of a row that is deleted: the columns of its key, and NULL for others."""
    f = functions()
    fields: list[str] = records.schema["key"].dataType.names
    places = dict(zip((each.name for each in plan.key), fields, strict=False))
    places |= {each: each for each in WINDOW_BOUNDS if each in fields}
    return struct_of(
        [
            (each, f.col("key").getField(places[each]) if each in places else f.lit(None))
            for each in plan.columns
        ]
    )


def _key_text() -> Column:
    """Return the key of a record as a text, of which `_order` has the columns."""
    return functions().to_json(functions().struct(functions().col("key")))


def _ends(inputs: Sequence[TopicInput]) -> dict[stream_times.Partition, int]:
    """Return the present ends of topics. Raises UnresolvedError."""
    try:
        return JoinedInputs(inputs, ()).read().all_ends()
    except task_failures.TaskFailureError as error:
        raise _failed(error.failure) from None


def _failed(failure: JobFailure) -> UnresolvedError:
    return UnresolvedError(f"The query failed: {failure.message}")


class TransientRows:
    """The rows of a query that starts now: with EMIT CHANGES all that come, else those there are.

    Raises UnresolvedError for what is missing, and when the query fails.
    """

    _records_max = _COLLECTED_MAX

    def __init__(self, app: App, plan: QueryPlan, start: str) -> None:
        """Start the query, reading from `start`: earliest or latest."""
        self._left = plan.limit
        self._found: queue.Queue[tuple[str, bool]] = queue.Queue(maxsize=_QUEUED_MAX)
        self._present: set[int] = set()
        """The hashes of the keys whose newest row passes the WHERE or HAVING of a table."""
        self._is_closed = threading.Event()
        self._closing = threading.Lock()
        with _starting:
            self._start(app, plan, start)

    def _start(self, app: App, plan: QueryPlan, start: str) -> None:
        records = planned(app, plan, start, self._records_max)
        frame = self._frame(records.df, plan)
        self._directory = tempfile.TemporaryDirectory(prefix="barnabas-sql-")
        directory = self._directory.name
        writer = frame.writeStream.outputMode(records.output_mode or "append")
        writer = writer.foreachBatch(self._put).option("checkpointLocation", directory)
        if plan.emit is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=_TRIGGER)
        try:
            # Before Spark's own request, so that no row waits for records that are not read.
            ends = _ends(records.inputs) if plan.emit is None and plan.joins else None
            known = stream_times.known_to_tasks(app.spark, directory, ends=ends)
            with chained_states.allowed(frame), known:
                self._running: Any = writer.start()
        except BaseException:
            self._directory.cleanup()
            raise
        if start == "latest":
            self._wait_for_positions(len({each.source.topic for each in plan.relations}))

    def _frame(self, records: Any, plan: QueryPlan) -> Any:
        """Return the frame of the texts of rows, whether each is deleted, and the key or null.

        The key is there for a WHERE or HAVING, so that a row that does not pass, and has not passed
        before, is left out.
        """
        f = functions()
        value, encode = f.col("value"), JsonColumns(columns_of(plan), is_wrapped=True).encode
        row = encode(value).cast("string")
        if plan.kind != "TABLE":
            kept = records.filter("value IS NOT NULL")
            return kept.select(row.alias("row"), f.lit(False), f.lit(None))
        deleted = encode(_deleted(records, plan)).cast("string")
        has_condition = plan.having is not None or plan.where is not None
        key = _key_text() if has_condition else f.lit(None)
        return records.select(f.coalesce(row, deleted).alias("row"), value.isNull(), key)

    def _wait_for_positions(self, topics: int) -> None:
        """Wait until Spark has noted the first position of each topic.

        A record that comes after the header of the rows is then one of them.
        """
        sources = Path(self._directory.name) / "sources"
        until = time.monotonic() + _POSITIONS_S
        while self._running.isActive and len(list(sources.glob("*/0"))) < topics:
            if time.monotonic() > until:
                break
            time.sleep(_POSITIONS_POLL_S)

    def take(self, timeout_s: float) -> list[Sequence[Any]] | None:
        """Return the rows that are there, waiting for the first; None behind the last."""
        if self._left == 0 or self._is_closed.is_set():
            return None
        wanted = _ROWS_MAX if self._left is None else min(self._left, _ROWS_MAX)
        try:
            rows = [self._found.get(timeout=timeout_s)]
        except queue.Empty:
            return [] if self._has_more() else None
        while len(rows) < wanted and not self._found.empty():
            rows.append(self._found.get_nowait())
        return self._taken(rows)

    def _taken(self, rows: list[tuple[str, bool]]) -> list[Sequence[Any]]:
        if self._left is not None:
            self._left -= len(rows)
        return [
            (DeletedRow if gone else list)(exact_json.loads(text).values()) for text, gone in rows
        ]

    def close(self) -> None:
        """Stop the query."""
        with self._closing:
            if not self._is_closed.is_set():
                self._is_closed.set()
                try:
                    self._running.stop()
                finally:
                    self._directory.cleanup()

    def _put(self, rows: Any, batch: int) -> None:
        del batch
        for text, is_deleted, key in rows.collect():
            if key is not None and not self._is_change(hash(key), is_deleted):
                continue
            while not self._is_closed.is_set():
                try:
                    self._found.put((text, is_deleted), timeout=_POLL_S)
                    break
                except queue.Full:
                    continue

    def _is_change(self, key: int, is_deleted: bool) -> bool:
        """Return False for a deleted row that was not there."""
        if is_deleted and key not in self._present:
            return False
        (self._present.discard if is_deleted else self._present.add)(key)
        return True

    def _has_more(self) -> bool:
        """Return False behind the last row. Raises UnresolvedError when the query failed."""
        if self._running.isActive or not self._found.empty():
            return True
        error = self._running.exception()
        if error is not None and not self._is_closed.is_set():
            failure = task_failures.from_text(str(error))
            raise _failed(failure) from None
        return False


class TableRows(TransientRows):
    """The newest row of each key of a table, once the query has read all that is there.

    LIMIT takes the first rows in the order of the keys.
    """

    _records_max = RECORDS_MAX  # the newest row of each key is kept in any case

    def __init__(self, app: App, plan: QueryPlan, start: str) -> None:
        """Start the query."""
        self._newest: dict[str, str] = {}
        self._keys: Iterator[str] | None = None
        super().__init__(app, plan, start)

    def _frame(self, records: Any, plan: QueryPlan) -> Any:
        """Return the frame of keys, and of the texts of rows, which are null for deleted ones."""
        f = functions()
        row = JsonColumns(columns_of(plan), is_wrapped=True).encode(f.col("value"))
        return records.select(_key_text().alias("key"), row.cast("string").alias("row"))

    def take(self, timeout_s: float) -> list[Sequence[Any]] | None:
        """Return rows, once the query has ended; None behind the last. Raises its error."""
        if self._left == 0 or self._is_closed.is_set():
            return None
        if self._running.isActive and not self._running.awaitTermination(timeout_s):
            return []
        if self._has_more():
            return None
        if self._keys is None:
            known, limit = self._newest, self._left
            self._keys = iter(known if limit is None else nsmallest(limit, known, key=_order))
        keys = list(islice(self._keys, _ROWS_MAX))
        return self._taken([(self._newest[key], False) for key in keys]) if keys else None

    def _put(self, rows: Any, batch: int) -> None:
        del batch
        for key, row in rows.collect():
            self._newest.pop(key, None)
            if row is not None:
                self._newest[key] = row


def _order(key: str) -> list[tuple[bool, Any]]:
    """Return what sorts the texts of keys by their columns, numbers before texts."""
    values: list[Any] = list(json.loads(key)["key"].values())
    return [
        (False, each) if isinstance(each, int | float) else (True, str(each)) for each in values
    ]
