"""Streams and tables as inputs of kernels, and outputs of kernels as streams and tables.

Kernels take bytes. A key is encoded by the serde of its type, a value as JSON, `{"v": VALUE}`, in
which decimals, times and binary values survive.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, cast

import attrs

from barnabas.pipeline.delivery.driver.spark_library import DataFrame, pyspark
from barnabas.pipeline.delivery.micro_batches.stream_times import StreamTimes
from barnabas.pipeline.delivery.micro_batches.unread_records import ReadTopics, UnreadRecords
from barnabas.pipeline.streams.kernels.bucketed_query import BUCKETS, bucketed
from barnabas.pipeline.streams.kernels.held_rows import JoinedTopics
from barnabas.pipeline.streams.kernels.kernel_chain import Chain
from barnabas.pipeline.streams.kernels.kernel_protocol import Kernel, RowKernel
from barnabas.pipeline.streams.kernels.kernel_rows import Side
from barnabas.pipeline.streams.kernels.old_values import WithOldValues
from barnabas.pipeline.streams.serdes import (
    Column,
    DataType,
    Json,
    Serde,
    default_serde,
    functions,
)
from barnabas.pipeline.streams.stream_columns import (
    HEADERS,
    KEY,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TOPIC,
    VALUE,
    WINDOW,
)
from barnabas.pipeline.streams.topic_reading import TopicInput

BUCKETS_PROPERTY: Final = "spark.barnabas.streams.buckets"
"""The property of Spark for the number of buckets of each kernel."""
PARTITIONS: Final = 16
"""The partitions whose times are apart, for kernels with time whose rows have new keys."""
AnyKernel: TypeAlias = RowKernel | Chain | WithOldValues
_TASK: Final = "_task"

# Without the format, times lose their microseconds.
_JSON: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
}


class KeyTypeError(Exception):
    """Keys of two inputs have different types, or one that has no serde."""


@attrs.frozen
class JoinedInputs:
    """The topics of a join, whose rows are taken in the order of their times."""

    left: Sequence[TopicInput]
    right: Sequence[TopicInput]

    def topics(self, *, is_by_partition: bool) -> JoinedTopics:
        """Return the topics with their sides."""
        sides: dict[str, tuple[Side, ...]] = {}
        for side, inputs in ((Side.LEFT, self.left), (Side.RIGHT, self.right)):
            for topic in {each.topic for each in inputs}:
                sides[topic] = (*sides.get(topic, ()), side)
        return JoinedTopics(sides, is_by_partition)

    def read(self) -> ReadTopics:
        """Return what the tasks ask the brokers about."""
        inputs = [*self.left, *self.right]
        limits: dict[str, int] = {}
        for each in inputs:
            limits[each.topic] = min(each.records_max, limits.get(each.topic, each.records_max))
        return ReadTopics(limits, inputs[0].client if inputs else {})


def packed(columns: Mapping[str, Column]) -> Column:
    """Return columns as JSON, null where the frame's value is null."""
    return functions().when(functions().col(VALUE).isNotNull(), carried(columns))


def carried(columns: Mapping[str, Column]) -> Column:
    """Return columns as JSON, also where the frame's value is null."""
    fields = functions().struct(*[column.alias(name) for name, column in columns.items()])
    return functions().to_json(fields, _JSON).cast("binary")


def unpacked(column: Column, **fields: DataType) -> Column:
    """Return the struct whose JSON a column is; a value of another type fails the query."""
    options = {**_JSON, "mode": "FAILFAST"}
    return functions().from_json(column.cast("string"), struct_type(**fields), options)


def struct_type(**fields: DataType) -> DataType:
    """Return the type of a struct."""
    types = pyspark("sql.types")
    return types.StructType([types.StructField(name, kind) for name, kind in fields.items()])


def kernel_input(
    frame: DataFrame, value: Column, side: Side = Side.LEFT, key: str = KEY
) -> DataFrame:
    """Return the rows of one input of a kernel; `value` are bytes. Raises KeyTypeError."""
    col = functions().col
    columns = {
        "key": key_serde(frame.schema[key].dataType).encode(col(key)),
        "value": value,
        "timestamp_ms": functions().unix_millis(TIMESTAMP),
        "side": functions().lit(int(side)),
    }
    places = {"partition": PARTITION, "offset": OFFSET, "headers": HEADERS, "source": TOPIC}
    columns |= {name: col(each) for name, each in places.items() if each in frame.columns}
    return frame.select(*[column.alias(name) for name, column in columns.items()])


def chained(kernel: AnyKernel, behind: RowKernel | None) -> AnyKernel:
    """Return two kernels as one; the first alone when there is no second one."""
    return kernel if behind is None else Chain([cast("Kernel", each) for each in (kernel, behind)])


def kernel_rows(
    rows: DataFrame,
    kernel: AnyKernel,
    *,
    partitions: int | None = None,
    clock: DataFrame | None = None,
    inputs: JoinedInputs | None = None,
) -> DataFrame:
    """Return the outputs of a kernel as rows of the next kernel, which shuffles them again.

    With `inputs`, rows of a side wait for unread records of the other side.
    """
    buckets = int(rows.sparkSession.conf.get(BUCKETS_PROPERTY, str(BUCKETS)))
    key = "key"
    if isinstance(kernel, RowKernel) and kernel.has_whole_tasks:
        key, task = _TASK, functions().col("partition").cast("string")
        rows = rows.withColumn(_TASK, task)
    described = functools.partial(
        bucketed,
        rows,
        cast("Kernel", kernel),
        buckets=buckets,
        key=key,
        partitions=partitions,
        clock=clock,
        times=StreamTimes.of_task,
    )
    if inputs is None:
        return described()
    has_one_task = isinstance(kernel, RowKernel) and kernel.has_one_task
    joined = inputs.topics(is_by_partition=partitions is None and not has_one_task)
    backlog = functools.partial(UnreadRecords.of_task, inputs.read())
    return described(joined=joined, backlog=backlog)


def kernel_output(
    rows: DataFrame,
    kernel: AnyKernel,
    key: DataType,
    *,
    behind: RowKernel | None = None,
    partitions: int | None = None,
    clock: DataFrame | None = None,
    inputs: JoinedInputs | None = None,
) -> DataFrame:
    """Return the outputs of a kernel: the key, the bytes of the value, time, headers, window.

    `behind` takes the outputs first: in the buckets of the kernel, or in its own when they must
    hold whole tasks. `inputs` are those of `kernel_rows`.
    """
    if behind is not None and behind.has_whole_tasks:
        rows = kernel_rows(rows, kernel, partitions=partitions, clock=clock, inputs=inputs)
        outputs = kernel_rows(rows, behind)
    else:
        chain = chained(kernel, behind)
        outputs = kernel_rows(rows, chain, partitions=partitions, clock=clock, inputs=inputs)
    col, to_time = functions().col, functions().timestamp_millis
    serde = key_serde(key)
    window = functions().struct(
        to_time("window_start_ms").alias("start"), to_time("window_end_ms").alias("end")
    )
    return outputs.select(
        serde.value(serde.parse(col("key"))).alias(KEY),
        col("value").alias(VALUE),
        to_time("timestamp_ms").alias(TIMESTAMP),
        col("headers").alias(HEADERS),
        window.alias(WINDOW),
    )


def key_serde(kind: DataType) -> Serde:
    """Return the serde of a key's type. Raises KeyTypeError."""
    if kind.typeName() == "struct":
        return Json(kind)
    found = default_serde(kind)
    if found is None or kind.typeName() in ("array", "map"):
        raise KeyTypeError(f"keys of type {kind.simpleString()} cannot be looked up: cast them")
    return found


def check_keys(left: DataType, right: DataType) -> None:
    """Raise KeyTypeError when two inputs of a join have keys of different types."""
    if left.simpleString() != right.simpleString():
        raise KeyTypeError(
            f"the keys of a join are {left.simpleString()} and {right.simpleString()}: cast one, "
            "as in select_key('cast(key AS STRING)')"
        )
