"""The totals of a task's rows by key and window, before the shuffle, in columns of Arrow.

A task has whole source partitions in the order of their offsets, so it knows the stream time at
each row, and which windows a row misses. Few rows remain where keys have many records in a window.
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.rows.arrow_library import pa, pc
from barnabas.pipeline.streams.kernels.kernel_rows import UNKNOWN_MS, Side
from barnabas.pipeline.streams.kernels.partition_times import Lane, PartitionTimes
from barnabas.pipeline.streams.kernels.time_windows import TimeWindows

_np: Final[Any] = importlib.import_module("numpy")
_GROUP: Final = ("key", "start_ms", "partition")
_BIGGEST: Final = 2**63 - 1


def partial_totals(
    windows: TimeWindows, buckets: int, batches: Iterable[Any], times: PartitionTimes
) -> Iterator[Any]:
    """Yield Arrow batches: parts of totals, then times for all buckets.

    The batches taken have the columns `key`, `value`, `timestamp_ms`, `partition` and `source`.
    Parts have no bucket yet. In a time the key is null, and `newest_ms` and `before_ms` are those
    of a partition where windows close; in one of them, `rows` is the number of windows that late
    rows missed. Raises TaskFailureError when a sum is beyond the type of its column.
    """
    reached = _Reached(times)
    found: list[Any] = []
    late, kind = 0, None
    for batch in batches:
        kind = batch.schema.field("value").type
        table, missed = _in_windows(windows, batch, reached.stream_times(batch))
        found.append(_added(table))
        late += missed
    reached.keep()
    if kind is None:
        return
    parts = _added(pa.concat_tables(found))
    columns = {name: parts.column(name) for name in parts.column_names}
    places = {"before_ms": [UNKNOWN_MS] * len(parts), "bucket": pa.nulls(len(parts))}
    yield from _batches(columns | places, kind)
    for lane, before_ms, time_ms in reached.lanes():
        row = {"partition": lane.partition, "newest_ms": time_ms, "before_ms": before_ms}
        if _closes_windows(windows, before_ms, time_ms):
            yield from _batches(_times_of(row, range(buckets)), kind)
        if late:
            yield from _batches(_times_of({**row, "rows": late}, range(1)), kind)
            late = 0


def _closes_windows(windows: TimeWindows, before_ms: int, time_ms: int) -> bool:
    """True when the window that was closed last is not the same at two times."""
    wait_ms = windows.size_ms + windows.grace_ms
    before, now = ((each - wait_ms) // windows.advance_ms for each in (before_ms, time_ms))
    return now > max(before, -1)


def _times_of(row: Mapping[str, int], buckets: range) -> dict[str, list[int | None]]:
    """Return the columns of a row without key for each bucket."""
    # A null total would make the numbers of pandas floats.
    values = {"key": None, "start_ms": 0, "total": 0, "rows": 0, **row}
    columns = {name: [value] * len(buckets) for name, value in values.items()}
    return {**columns, "bucket": list(buckets)}


@attrs.define
class _Reached:
    """The stream times that the partitions of a task have reached."""

    times: PartitionTimes
    _before: dict[Lane, int] = attrs.field(factory=dict[Lane, int], init=False)
    _now: dict[Lane, int] = attrs.field(factory=dict[Lane, int], init=False)

    def stream_times(self, batch: Any) -> Any:
        """Return the stream time at each row of a batch; rows without key do not move it."""
        has_key = batch.column("key").is_valid().to_numpy(zero_copy_only=False)
        found = _np.where(has_key, _times(batch), UNKNOWN_MS)
        partitions = batch.column("partition").to_numpy(zero_copy_only=False)
        sources = batch.column("source").dictionary_encode()
        places = sources.indices.to_numpy(zero_copy_only=False)
        for place, source in enumerate(sources.dictionary.to_pylist()):
            for partition in _np.unique(partitions[places == place]).tolist():
                mine = (places == place) & (partitions == partition)
                lane = Lane(int(Side.LEFT), partition, source)
                times_ms = _np.maximum.accumulate(_np.maximum(found[mine], self._time_of(lane)))
                found[mine] = times_ms
                self._now[lane] = int(times_ms[-1])
        return found

    def _time_of(self, lane: Lane) -> int:
        if lane not in self._now:
            self._now[lane] = self._before[lane] = self.times.before(lane.name)
        return self._now[lane]

    def keep(self) -> None:
        """Keep the times for the next micro-batch."""
        for lane, time_ms in self._now.items():
            self.times.keep(lane.name, time_ms)

    def lanes(self) -> Iterator[tuple[Lane, int, int]]:
        """Yield the lanes with their times before the micro-batch and now."""
        for lane, before_ms in self._before.items():
            yield lane, before_ms, self._now[lane]


def _times(batch: Any) -> Any:
    return pc.fill_null(batch.column("timestamp_ms"), UNKNOWN_MS).to_numpy(zero_copy_only=False)


def _in_windows(windows: TimeWindows, batch: Any, stream_ms: Any) -> tuple[Any, int]:
    """Return the rows with each of their windows that is open, and the number of those missed."""
    times_ms = _times(batch)
    has_both = pc.and_(batch.column("key").is_valid(), batch.column("value").is_valid())
    is_taken = has_both.to_numpy(zero_copy_only=False) & (times_ms >= 0)
    newest_ms = times_ms // windows.advance_ms * windows.advance_ms
    tables: list[Any] = []
    late = 0
    for back in range(-(-windows.size_ms // windows.advance_ms)):
        start_ms = newest_ms - back * windows.advance_ms
        end_ms = start_ms + windows.size_ms
        is_inside = is_taken & (start_ms >= 0) & (end_ms > times_ms)
        is_late = is_inside & (end_ms + windows.grace_ms <= stream_ms)
        late += int(_np.count_nonzero(is_late))
        rows = _np.flatnonzero(is_inside & ~is_late)
        taken = batch.take(pa.array(rows))
        columns = {
            "key": taken.column("key"),
            "start_ms": start_ms[rows],
            "partition": taken.column("partition"),
            "total": taken.column("value"),
            "rows": _np.ones(len(rows), _np.int64),
            "newest_ms": times_ms[rows],
        }
        tables.append(pa.table(columns))
    return pa.concat_tables(tables), late


def _added(table: Any) -> Any:
    """Return one row for each key, window and partition."""
    kind = table.schema.field("total").type
    total = table.column("total")
    if pa.types.is_int64(kind) and _may_overflow(total):
        total = total.cast(pa.decimal128(38, 0))
        table = table.set_column(table.column_names.index("total"), "total", total)
    groups = table.group_by(list(_GROUP), use_threads=False)
    added = groups.aggregate([("total", "sum"), ("rows", "sum"), ("newest_ms", "max")])
    try:
        total = added.column("total_sum").cast(kind)
    except pa.ArrowInvalid as error:
        raise overflow(kind) from error
    columns = {name: added.column(name) for name in _GROUP}
    columns |= {"total": total, "rows": added.column("rows_sum")}
    return pa.table(columns | {"newest_ms": added.column("newest_ms_max")})


def overflow(kind: Any) -> TaskFailureError:
    """Return the failure of a sum that its type cannot hold."""
    return TaskFailureError(
        f"a sum of a window is beyond its type, {kind}: cast the values, as in "
        "sum('CAST(value AS DECIMAL(38, 0))')",
        is_permanent=True,
    )


def _may_overflow(values: Any) -> bool:
    least, most = (value or 0 for value in pc.min_max(values).as_py().values())
    return max(-least, most) * len(values) > _BIGGEST


def _batches(columns: Any, kind: Any) -> Iterator[Any]:
    """Yield the batches of columns, in the order and with the types that Spark expects."""
    fields = {
        "key": pa.binary(),
        "start_ms": pa.int64(),
        "partition": pa.int32(),
        "total": kind,
        "rows": pa.int64(),
        "newest_ms": pa.int64(),
        "before_ms": pa.int64(),
        "bucket": pa.int32(),
    }
    found = [_column(columns[name], each) for name, each in fields.items()]
    yield from pa.table(found, names=list(fields)).to_batches()


def _column(values: Any, kind: Any) -> Any:
    return pa.array(values, kind) if isinstance(values, list) else values.cast(kind)
