"""Aggregates of groups by Python functions, as kernels; sessions and sliding windows among them."""

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

import attrs

from barnabas.pipeline.delivery.spark_library import DataFrame
from barnabas.pipeline.streams.kernel_frames import (
    PARTITIONS,
    kernel_input,
    kernel_output,
    packed,
    unpacked,
)
from barnabas.pipeline.streams.kernels.kernel_chain import Chain
from barnabas.pipeline.streams.kernels.kernel_protocol import Kernel, RowKernel
from barnabas.pipeline.streams.kernels.session_windows import SessionWindowAggregate
from barnabas.pipeline.streams.kernels.sliding_windows import SlidingWindowAggregate
from barnabas.pipeline.streams.kernels.stream_aggregates import Aggregation, StreamAggregate
from barnabas.pipeline.streams.kernels.suppression import until_window_closes
from barnabas.pipeline.streams.kernels.time_windows import TimeWindowAggregate, TimeWindows
from barnabas.pipeline.streams.serdes import DataType, functions
from barnabas.pipeline.streams.stream_columns import KEY, TIMESTAMP, VALUE, WINDOW
from barnabas.pipeline.streams.window_specs import Window, WindowKind

Folder: TypeAlias = Callable[[Any, Any], Any]
"""A function of an aggregate and a value that returns the new aggregate."""


@attrs.frozen
class Fold:
    """The functions of an aggregate; values are plain data, structs are dictionaries."""

    function: Folder
    initial: Any = None
    has_initial: bool = False
    """False in a reduction: the first value is the aggregate."""
    merge: Folder | None = None
    """The aggregate of two sessions that one record connects."""

    def aggregation(self) -> Aggregation:
        """Return the functions on the bytes that kernels keep."""
        initial = _packed(self.initial)
        return Aggregation(self._add, (lambda: initial) if self.has_initial else None)

    def _add(self, key: bytes, value: bytes, aggregate: bytes) -> bytes:
        return _packed(self.function(_unpacked(aggregate), _unpacked(value)))

    def merger(self, key: bytes, left: bytes, right: bytes) -> bytes:
        """Return the bytes of the aggregate of two sessions."""
        function = self.merge or self.function
        return _packed(function(_unpacked(left), _unpacked(right)))


COUNT: Final = Fold(lambda count, value: count + 1, 0, True, lambda left, right: left + right)
SUM: Final = Fold(lambda total, value: total + value)


def folded(
    frame: DataFrame,
    fold: Fold,
    result: DataType,
    windows: Window | None,
    *,
    has_new_keys: bool,
    is_final: bool = False,
) -> DataFrame:
    """Return the changes of the aggregates of all groups. Raises KeyTypeError."""
    col = functions().col
    kernel = _kernel(fold, windows, is_final)
    rows = kernel_input(frame.filter(col(VALUE).isNotNull()), packed({"v": col(VALUE)}))
    key_type = frame.schema[KEY].dataType
    partitions = PARTITIONS if has_new_keys and windows is not None else None
    outputs = kernel_output(rows, kernel, key_type, partitions=partitions)
    value = unpacked(col(VALUE), v=result)["v"]
    window = [WINDOW] if windows is not None else []
    return outputs.select(KEY, value.alias(VALUE), TIMESTAMP, *window)


def _kernel(fold: Fold, windows: Window | None, is_final: bool) -> RowKernel | Chain:
    aggregation = fold.aggregation()
    if windows is None:
        return StreamAggregate(aggregation)
    grace_ms = windows.grace_ms
    kernel: RowKernel
    if windows.kind is WindowKind.SESSION:
        kernel = SessionWindowAggregate(windows.size_ms, aggregation, fold.merger, grace_ms)
    elif windows.kind is WindowKind.SLIDING:
        kernel = SlidingWindowAggregate(windows.size_ms, aggregation, grace_ms)
    else:
        sizes = TimeWindows(windows.size_ms, windows.advance_ms, grace_ms)
        kernel = TimeWindowAggregate(sizes, aggregation)
    if not is_final:
        return kernel
    gap_ms = windows.size_ms if windows.kind is WindowKind.SESSION else 0
    return Chain(
        [cast("Kernel", each) for each in (kernel, until_window_closes(grace_ms + gap_ms))]
    )


def _packed(value: Any) -> bytes:
    return json.dumps({"v": value}, separators=(",", ":")).encode()


def _unpacked(data: bytes) -> Any:
    return json.loads(data)["v"]
