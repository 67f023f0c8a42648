"""Jobs without a shuffle: one Spark task for each topic partition, which writes transactions.

What lives here: copies and sinks, which read their ranges of offsets in the task, and queries of
users whose rows stay in their task. What may not: state of operators.

How data passes: `forward_job` plans the ranges of a batch from the positions of
`source_partitions`, its tasks read them with `range_reader` and write their records and the offsets
after them in one transaction. `frame_job` starts a query of Spark, whose rows `forward_rows` writes
in the same way.

    forward_job           run a copy or a sink batch by batch
    source_partitions     the partitions of its topics, and its position in each
    forward_ranges        the task of a copy or a sink; range_reader reads, poll_size says how much
    frame_job             start a job that forwards the rows of a user's query
    forward_rows          the task of such a query
    forward_transaction   the transaction of both
    offset_refresh        commit the offsets of idle partitions before they expire
"""
