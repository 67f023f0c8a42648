"""Aggregates of groups by Python functions, as kernels.

Groups of a stream, also in sessions and sliding windows, and groups of a table, whose changes take
their old value out.
"""

import base64
import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

import attrs

from barnabas.pipeline.delivery.driver.spark_library import DataFrame
from barnabas.pipeline.streams.fold_values import FoldValues, all_digits, written
from barnabas.pipeline.streams.kernel_frames import (
    PARTITIONS,
    AnyKernel,
    chained,
    kernel_input,
    kernel_output,
    kernel_rows,
    key_serde,
    packed,
    struct_type,
    unpacked,
)
from barnabas.pipeline.streams.kernels.kernel_protocol import Kernel, RowKernel
from barnabas.pipeline.streams.kernels.old_values import WithOldValues
from barnabas.pipeline.streams.kernels.session_windows import SessionWindowAggregate
from barnabas.pipeline.streams.kernels.sliding_windows import SlidingWindowAggregate
from barnabas.pipeline.streams.kernels.stream_aggregates import Aggregation, StreamAggregate
from barnabas.pipeline.streams.kernels.table_aggregates import TableAggregate
from barnabas.pipeline.streams.kernels.table_kernels import TableRegroup, TableSource
from barnabas.pipeline.streams.kernels.time_windows import TimeWindowAggregate, TimeWindows
from barnabas.pipeline.streams.serdes import Column, DataType, functions
from barnabas.pipeline.streams.stream_columns import (
    HEADERS,
    KEY,
    OLD,
    TIMESTAMP,
    VALUE,
    WINDOW,
    evaluated,
)
from barnabas.pipeline.streams.user_functions import called
from barnabas.pipeline.streams.window_specs import Window, WindowKind

GROUP: Final = "_group"
"""The column of the group of a table's row."""
_ROW: Final = "_row"
"""The column of the key and the window of a table's row."""

Folder: TypeAlias = Callable[[Any, Any], Any]
"""A function of an aggregate and a value that returns the new aggregate."""


@attrs.frozen
class Fold:
    """The functions of an aggregate; values are plain data, structs are dictionaries.

    An aggregate of None deletes the group, and its next value is added to the initial one.
    """

    function: Folder
    initial: Any = None
    has_initial: bool = False
    """False in a reduction: the first value is the aggregate."""
    merge: Folder | None = None
    """The aggregate of two sessions that one record connects."""
    values: FoldValues = attrs.field(factory=FoldValues)
    aggregates: FoldValues = attrs.field(factory=FoldValues)

    def of(self, value: DataType, aggregate: DataType) -> "Fold":
        """Return the fold of these types of Spark."""
        types = {"values": FoldValues.of(value), "aggregates": FoldValues.of(aggregate)}
        return attrs.evolve(self, **types)

    def aggregation(self) -> Aggregation:
        """Return the functions on the bytes that kernels keep."""
        initial = written(self.initial)
        return Aggregation(self._add, (lambda: initial) if self.has_initial else None)

    def _add(self, key: bytes, value: bytes, aggregate: bytes) -> bytes | None:
        return self.combined(self.function, key, aggregate, value)

    def merger(self, key: bytes, left: bytes, right: bytes) -> bytes | None:
        """Return the bytes of the aggregate of two sessions."""
        function, read = self.merge or self.function, self.aggregates.read
        return self._called(function, key, read(left), read(right))

    def combined(
        self, function: Folder, key: bytes, aggregate: bytes, value: bytes
    ) -> bytes | None:
        """Return the bytes of a new aggregate. Raises TaskFailureError when the function raises."""
        return self._called(function, key, self.aggregates.read(aggregate), self.values.read(value))

    def _called(self, function: Folder, key: bytes, one: Any, other: Any) -> bytes | None:
        if self.aggregates.has_decimals:
            with all_digits():
                found = called(function, key, one, other)
        else:
            found = called(function, key, one, other)
        return None if found is None else written(found)


@attrs.frozen
class TableFold:
    """The functions of a table's aggregate: one adds a value, the other takes it out again."""

    adding: Fold
    remove: Folder

    def kernel(self) -> TableAggregate:
        """Return the kernel for the changes of groups."""
        return TableAggregate(self.adding.aggregation(), self._remove)

    def of(self, value: DataType, aggregate: DataType) -> "TableFold":
        """Return the fold of these types of Spark."""
        return attrs.evolve(self, adding=self.adding.of(value, aggregate))

    def _remove(self, key: bytes, value: bytes, aggregate: bytes) -> bytes | None:
        return self.adding.combined(self.remove, key, aggregate, value)


COUNT: Final = Fold(lambda count, value: count + 1, 0, True, lambda left, right: left + right)
SUM: Final = Fold(lambda total, value: total + value)
TABLE_COUNT: Final = TableFold(COUNT, lambda count, value: count - 1)
TABLE_SUM: Final = TableFold(SUM, lambda total, value: total - value)


def folded(
    frame: DataFrame,
    fold: Fold,
    result: DataType,
    windows: Window | None,
    behind: RowKernel | None = None,
    *,
    has_new_keys: bool,
    has_old: bool = False,
) -> DataFrame:
    """Return the changes of the aggregates of all groups, or what `behind` makes of them.

    With `has_old`, the column OLD has the values that they replace. Raises KeyTypeError.
    """
    col = functions().col
    rows = kernel_input(frame, packed({"v": col(VALUE)}))
    key_type = frame.schema[KEY].dataType
    has_time = windows is not None or behind is not None
    outputs = kernel_output(
        rows,
        _with_old(
            _aggregate(fold.of(frame.schema[VALUE].dataType, result), windows), has_old=has_old
        ),
        key_type,
        behind=behind,
        partitions=PARTITIONS if has_new_keys and has_time else None,
    )
    window = [WINDOW] if windows is not None else []
    return outputs.select(KEY, *_values(result, has_old=has_old), TIMESTAMP, *window)


def regrouped(
    frame: DataFrame,
    fold: TableFold,
    result: DataType,
    behind: RowKernel | None = None,
    *,
    has_old: bool = False,
) -> DataFrame:
    """Return the changes of the aggregates of a table's groups, or what `behind` makes of them.

    The frame has the column GROUP, and the column WINDOW if keys have windows. With `has_old`, the
    column OLD has the values that the changes replace. Raises KeyTypeError.
    """
    col = functions().col
    group_type = frame.schema[GROUP].dataType
    group = key_serde(group_type).encode(col(GROUP))
    key = KEY
    if WINDOW in frame.columns:
        key, frame = _ROW, evaluated(frame, {_ROW: functions().struct(KEY, WINDOW)})
    rows = kernel_input(frame, packed({"g": group, "v": col(VALUE)}), key=key)
    changes = kernel_rows(rows, chained(TableSource(), TableRegroup(group_of)))
    outputs = kernel_output(
        changes,
        _with_old(fold.of(frame.schema[VALUE].dataType, result).kernel(), has_old=has_old),
        group_type,
        behind=behind,
        partitions=None if behind is None else PARTITIONS,
    )
    return outputs.select(KEY, *_values(result, has_old=has_old), TIMESTAMP)


def suppressed(frame: DataFrame, kernel: RowKernel) -> DataFrame:
    """Return the changes of a table of a topic that a kernel lets pass. Raises KeyTypeError."""
    col = functions().col
    rows = kernel_input(frame, packed({"v": col(VALUE)}))
    outputs = kernel_output(rows, kernel, frame.schema[KEY].dataType)
    value = unpacked(col(VALUE), v=frame.schema[VALUE].dataType)["v"]
    return outputs.select(KEY, value.alias(VALUE), TIMESTAMP, HEADERS)


def _with_old(kernel: RowKernel, *, has_old: bool) -> AnyKernel:
    return WithOldValues(cast("Kernel", kernel)) if has_old else kernel


def _values(kind: DataType, *, has_old: bool) -> list[Column]:
    """Return the columns of the values of changes."""
    value = functions().col(VALUE)
    if not has_old:
        return [unpacked(value, v=kind)["v"].alias(VALUE)]
    one = struct_type(v=kind)
    both = unpacked(value, v=one, o=one)
    return [both["v"]["v"].alias(VALUE), both["o"]["v"].alias(OLD)]


def sum_type(frame: DataFrame) -> DataType:
    """Return the type of sums of the values."""
    return frame.select(functions().sum(VALUE)).schema.fields[0].dataType


def _aggregate(fold: Fold, windows: Window | None) -> RowKernel:
    aggregation = fold.aggregation()
    if windows is None:
        return StreamAggregate(aggregation)
    grace_ms = windows.grace_ms
    if windows.kind is WindowKind.SESSION:
        return SessionWindowAggregate(
            windows.size_ms, aggregation, fold.merger, grace_ms, skips_nulls=True
        )
    if windows.kind is WindowKind.SLIDING:
        return SlidingWindowAggregate(windows.size_ms, aggregation, grace_ms)
    sizes = TimeWindows(windows.size_ms, windows.advance_ms, grace_ms)
    return TimeWindowAggregate(sizes, aggregation, skips_nulls=True)


def group_of(key: bytes | None, value: bytes) -> tuple[bytes | None, bytes]:
    """Return the bytes of a row's group, and the value in it."""
    group = json.loads(value)["g"]
    return None if group is None else base64.b64decode(group), value
