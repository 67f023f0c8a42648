"""The code of Spark's tasks for a kernel: placing rows into buckets, and steps of the kernel.

`place` runs before the shuffle, where a task has whole source partitions in the order of their
offsets: it adds the bucket and the stream time of the partition. `step` runs after the shuffle,
once for each bucket that has rows in a micro-batch.
"""

import functools
import importlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import attrs

from barnabas.pipeline.data.key_partitioner import partition_of
from barnabas.pipeline.delivery.plan.job_plan import REBUILD
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.rows.arrow_library import pa
from barnabas.pipeline.streams.kernels import held_rows, state_codec
from barnabas.pipeline.streams.kernels.bucket_rows import COLUMNS, columns_of, rows_of
from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.held_rows import HeldRows, JoinedTopics
from barnabas.pipeline.streams.kernels.kernel_protocol import Kernel, StateMismatchError
from barnabas.pipeline.streams.kernels.kernel_rows import (
    UNKNOWN_MS,
    Row,
    Side,
    Timed,
    in_sequence,
    in_stream_order,
)
from barnabas.pipeline.streams.kernels.paged_stores import DamagedPageError
from barnabas.pipeline.streams.kernels.partition_times import (
    BATCH_TIMES,
    NO_BACKLOG,
    Backlog,
    Lane,
    PartitionTimes,
)
from barnabas.pipeline.streams.kernels.stream_aggregates import LATE

_REMEMBERED_KEYS: Final = 65_536
_TIMED: Final = (
    *("side", "partition", "source", "key", "value"),
    *("timestamp_ms", "stream_time_ms", "before_ms"),
)
_pandas: Final[Any] = importlib.import_module("pandas")  # it has no types
# PySpark puts an empty frame after those of a batch, which pandas warns of; types are kept.
warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark.sql.pandas.serializers")


@attrs.frozen
class BucketPlan:
    """A kernel and the form of its buckets, for the tasks."""

    kernel: Kernel
    buckets: int = attrs.field(validator=[attrs.validators.ge(1), attrs.validators.le(65_536)])
    partitions: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )
    """The partitions among which rows are distributed by key; None: they keep their partition."""
    joined: JoinedTopics | None = None
    """The topics of a join whose sides wait for each other; None: rows are never held."""

    @property
    def signature(self) -> dict[str, Any]:
        """Return the kernel's signature with the form of the buckets."""
        return {**self.kernel.signature, "buckets": self.buckets, "partitions": self.partitions}


@functools.lru_cache(_REMEMBERED_KEYS)
def bucket_of(key: bytes | None, buckets: int) -> int:
    """Return the bucket of a key: murmur2 of its bytes, as a producer chooses a partition."""
    return 0 if key is None else partition_of(key, buckets)


def place(
    plan: BucketPlan,
    batches: Iterable[Any],
    times: PartitionTimes = BATCH_TIMES,
    backlog: Backlog = NO_BACKLOG,
) -> Iterator[Any]:
    """Yield Arrow batches with the columns `stream_time_ms`, `before_ms` and `bucket`.

    The stream time of a partition continues from `times`. For a kernel that acts on time, the time
    of each source partition follows for all buckets; in a backlog, the marks of its lanes.
    """
    reached = _Reached(times, backlog)
    schema: Any = None
    for batch in batches:
        times_ms, before_ms = _stream_times(batch, reached, plan.kernel.timed)
        keys = batch.column("bucket_key").to_pylist()
        buckets = [bucket_of(key, plan.buckets) for key in keys]
        columns = {name: batch.column(name) for name in COLUMNS}  # Spark takes them by place
        columns["stream_time_ms"] = pa.array(times_ms, pa.int64())
        columns["before_ms"] = pa.array(before_ms, pa.int64())
        columns["bucket"] = pa.array(buckets, pa.int32())
        placed = pa.RecordBatch.from_pydict(columns)
        schema = placed.schema
        yield placed
    reached.keep()
    if backlog.is_open:
        for mark in [*reached.marks(), *_first_marks(plan, times, backlog)]:
            yield _in_all_buckets(_schema() if schema is None else schema, plan.buckets, mark)
    elif plan.kernel.acts_on_time and schema is not None:
        for partition, time_ms in reached.newest().items():
            row = Row(None, None, time_ms, Side.TIME, partition, stream_time_ms=time_ms)
            yield _in_all_buckets(schema, plan.buckets, row)


def _first_marks(plan: BucketPlan, times: PartitionTimes, backlog: Backlog) -> Iterator[Row]:
    """Yield the marks of all lanes at the end of the micro-batch before, in the first task."""
    if plan.joined is None:
        return
    sides = plan.joined.sides
    for topic, partition, is_unread in backlog.partitions():
        for side in sides.get(topic, ()):
            lane = Lane(side, partition, topic)
            newest_ms = backlog.newest_before(lane.name)
            before_ms = times.before(lane.name)
            yield held_rows.read_mark(lane, before_ms, newest_ms, is_unread=is_unread)


def step(plan: BucketPlan, frames: Iterable[Any], state: Any) -> Iterator[Any]:
    """Run the kernel on the rows of a bucket; yield its outputs as one frame.

    `state` is Spark's GroupState with one blob. Raises TaskFailureError, which a restart does not
    change, when it is not a state of the plan's kernel and buckets, or cannot be stored.
    """
    try:
        yield from _stepped(plan, frames, state)
    except StateMismatchError as error:
        raise TaskFailureError(str(error), is_permanent=True) from error
    except DamagedPageError as error:
        raise damaged(plan.signature, error) from error


def _stepped(plan: BucketPlan, frames: Iterable[Any], state: Any) -> Iterator[Any]:
    rows = [row for frame in frames for row in _rows(frame)]
    ordered = in_stream_order(rows, plan.kernel.first, plan.kernel.timed)
    marks = held_rows.without_marks(ordered)
    is_only_time = all(row.side.is_time for row in ordered)
    if is_only_time and not state.exists:
        return
    signature = plan.signature
    before: bytes | None = state.get[0] if state.exists else None
    bucket = BucketState() if before is None else state_of(before, signature)
    ordered = _takeable(plan, ordered, marks, bucket)
    outputs = list(in_sequence(plan.kernel.step(ordered, bucket)))
    if late := bucket.dropped[LATE]:
        outputs.append(Row(None, None, 0, Side.LATE, offset=late))
    if before is None or not is_only_time or _has_other_stores(bucket, before, signature):
        after = state_codec.encode(bucket, signature)
        if after != before:
            state.update((after,))
    if outputs:
        yield _frame(outputs)


def _takeable(
    plan: BucketPlan, ordered: list[Row], marks: Sequence[Row], bucket: BucketState
) -> list[Row]:
    """Return the rows that the kernel takes in this micro-batch; hold those that wait."""
    held = None
    if plan.joined is not None and (marks or held_rows.has_held(bucket)):
        held = HeldRows(marks, plan.kernel.first, plan.joined)
        ordered += held.times() if plan.kernel.acts_on_time else ()
    if plan.partitions is not None:
        ordered = _distributed(ordered, plan.partitions, bucket)
    return ordered if held is None else held.exchange(ordered, bucket)


def _has_other_stores(bucket: BucketState, before: bytes, signature: dict[str, Any]) -> bool:
    """True when more than times has changed: each bucket takes times in each micro-batch."""
    return bucket.is_older or not bucket.has_stores_of(state_of(before, signature))


def state_of(blob: bytes, signature: dict[str, Any]) -> BucketState:
    """Return the state of a blob. Raises TaskFailureError when it has another signature."""
    try:
        return state_codec.decode(blob, signature)
    except StateMismatchError as error:
        message = f"{error}; bring the earlier version back, or {REBUILD}"
        raise TaskFailureError(message, is_permanent=True) from error


def damaged(signature: dict[str, Any], error: DamagedPageError) -> TaskFailureError:
    """Return the failure of a task whose state has a page that cannot be read."""
    message = f"the stored state of {signature['kernel']} is damaged: {error}; {REBUILD}"
    return TaskFailureError(message, is_permanent=True)


class _Reached:
    """The stream times that the lanes of a task have reached."""

    def __init__(self, times: PartitionTimes, backlog: Backlog) -> None:
        self._times, self._backlog = times, backlog
        self._before: dict[Lane, int] = {}
        self.times_ms: dict[Lane, int] = {}
        """The largest timestamps of the micro-batch."""
        self.known_ms: dict[Lane, int] = {}
        """The times before it that rows of another kernel have."""

    def before(self, lane: Lane) -> int:
        """Return the time at the end of the micro-batch before."""
        found = self._before.get(lane)
        if found is None:
            found = self._before[lane] = self._times.before(lane.name)
            self.times_ms[lane] = self._backlog.newest_before(lane.name)
        return found

    def keep(self) -> None:
        """Keep the times for the next micro-batch."""
        for lane, before_ms in self._before.items():
            self._times.keep(lane.name, max(before_ms, self.times_ms[lane]))
            if self._backlog.is_open:
                self._backlog.keep(lane.name, self.times_ms[lane])

    def marks(self) -> Iterator[Row]:
        """Yield how far the lanes have been read with this micro-batch."""
        for lane, before_ms in self._before.items():
            newest_ms = self.times_ms[lane]
            yield held_rows.read_mark(lane, max(before_ms, newest_ms), newest_ms)

    def newest(self) -> dict[int, int]:
        """Return the stream time of each partition: the larger one of its two sides."""
        found: dict[int, int] = {}
        for times_ms in (self.times_ms, self._before, self.known_ms):
            for lane, time_ms in times_ms.items():
                found[lane.partition] = max(time_ms, found.get(lane.partition, UNKNOWN_MS))
        return found


def _stream_times(batch: Any, reached: _Reached, timed: Timed) -> tuple[list[int], list[int]]:
    """Return two times at each row: the largest timestamp of the micro-batch, the time before it.

    Rows of another kernel have known times, which nothing is added to.
    """
    columns = [batch.column(name).to_pylist() for name in _TIMED]
    found: list[int] = []
    before: list[int] = []
    for *place, key, value, time_ms, known_ms, before_ms in zip(*columns, strict=True):
        lane = Lane(*place)
        if known_ms == UNKNOWN_MS:
            before_ms = reached.before(lane)
            newest_ms = reached.times_ms[lane]
            known_ms = max(time_ms, newest_ms) if timed.counts(key, value) else newest_ms
        else:
            newest_ms = reached.times_ms.get(lane, UNKNOWN_MS)
            if before_ms != UNKNOWN_MS:
                reached.known_ms[lane] = max(before_ms, reached.known_ms.get(lane, UNKNOWN_MS))
        reached.times_ms[lane] = max(known_ms, newest_ms)
        found.append(known_ms)
        before.append(before_ms)
    return found, before


def _in_all_buckets(schema: Any, buckets: int, row: Row) -> Any:
    values = columns_of([row])
    columns = [
        pa.array(values[field.name] * buckets, field.type)
        for field in schema
        if field.name != "bucket"
    ]
    return pa.RecordBatch.from_arrays(
        [*columns, pa.array(range(buckets), pa.int32())], schema=schema
    )


def _schema() -> Any:
    """Return the schema of placed rows, for a task that reads none."""
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    types = {"binary": pa.binary(), "bigint": pa.int64(), "int": pa.int32()}
    fields = [(name, types.get(kind, headers)) for name, (kind, _) in COLUMNS.items()]
    return pa.schema([*fields, ("bucket", pa.int32())])


def _distributed(rows: Sequence[Row], partitions: int, bucket: BucketState) -> list[Row]:
    """Return rows with the partition of their key, and times for all partitions of the bucket."""
    numbers = {*bucket, *(bucket_of(row.key, partitions) for row in rows if row.key is not None)}
    found: list[Row] = []
    for row in rows:
        if row.side is Side.TIME:
            found += [row._replace(partition=number) for number in sorted(numbers)]
        else:
            found.append(row._replace(partition=bucket_of(row.key, partitions)))
    return found


def _rows(frame: Any) -> Iterator[Row]:
    return rows_of({name: frame[name].tolist() for name in COLUMNS})


def _frame(rows: Sequence[Row]) -> Any:
    columns = columns_of(rows)
    for name in ("window_start_ms", "window_end_ms"):
        columns[name] = _pandas.array(columns[name], dtype="Int64")
    return _pandas.DataFrame(columns)
