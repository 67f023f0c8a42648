"""Operators with state as pure functions of (rows, state), and the query that runs them on Spark.

What lives here: joins, windows, aggregates, suppression, user's processors, each a `Kernel`; the
order of rows; the state of a bucket and its bytes. What may not: Kafka clients, clocks, files.

How data passes: rows are hashed by key into buckets. `in_stream_order` puts the rows of a bucket
into the order in which Kafka Streams takes them, `kernel.step(rows, state)` yields output rows and
changes the state, `state_codec` turns the state into one blob for Spark's state store. Stores are
in pages, of which a step decodes those that it looks into.

    kernel_rows         rows, sides, windows, and their order
    kernel_protocol     the contract of kernels, and a base that takes row by row
    bucket_state        the state of a bucket: one task for each source partition
    paged_stores        its maps and queues in pages, which state_pages cuts and joins
    state_codec         the state as bytes; plain_data is what it may contain
    stream_aggregates   reduce, aggregate and count of a stream; deduplication
    time_windows        tumbling and hopping windows
    window_totals       their counts and sums, once, when a window closes
    session_windows, sliding_windows   the other windows
    suppression         final results of windows, or one result in a time
    stream_table_joins  a stream with a table, or with a global table
    stream_joins        two streams within a time
    held_rows           rows of joins that wait for unread rows of the other side
    table_joins         two tables by key; foreign_key_joins by a part of the value
    table_kernels       read and regroup a table; table_aggregates with undo
    old_values          changes of aggregates with the values that they replace
    user_kernels        a user's processor with its stores and punctuation
    kernel_chain        several kernels as one, where the key stays
    bucketed_query      a kernel on Spark; bucket_tasks and bucket_rows are its tasks' code
    totals_query        window_totals on Spark; partial_totals adds rows up before the shuffle

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
