"""Operators with state as pure functions of (rows, state), and the query that runs them on Spark.

What lives here: joins, windows, aggregates, suppression, user's processors, each a `Kernel`; the
order of rows; the state of a bucket and its bytes. What may not: Kafka clients, clocks, files.

How data passes: rows are hashed by key into buckets. `in_stream_order` puts the rows of a bucket
into the order in which Kafka Streams takes them, `kernel.step(rows, state)` yields output rows and
changes the state, and the state is stored as one blob.

    kernel_rows         rows, sides, windows, and their order
    kernel_protocol     the contract of kernels
    bucket_state        the state of a bucket: one task for each source partition
    stream_aggregates   reduce, aggregate and count of a stream; deduplication
    stream_table_joins  a stream with a table, or with a global table

Time is stream time: the largest timestamp of a source partition. A task is a source partition
within a bucket, as a task of Kafka Streams is a partition within an application.
"""

from barnabas.pipeline.streams.kernels.bucket_state import BucketState, TaskState
from barnabas.pipeline.streams.kernels.kernel_protocol import Kernel, RowKernel, StateMismatchError
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side, Window, in_stream_order

__all__ = [
    "BucketState",
    "Kernel",
    "Row",
    "RowKernel",
    "Side",
    "StateMismatchError",
    "TaskState",
    "Window",
    "in_stream_order",
]
