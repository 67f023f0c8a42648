"""Ways to deliver a job's records exactly once: forward, epochs and slices.

What lives here: the plan of a job, its progress and its failure as plain values; what runs in
Spark's tasks (transactions, offsets, dead letters); and the driver's side of each delivery, which
starts Spark's queries and jobs. What may not: HTTP, the state of jobs, formats of records; and
trio, except in `group_offsets` and `epochs_removal`, which the driver uses.

How data passes: `spark.engine` gives a `JobPlan` and a Spark session to a delivery, the delivery
starts a query, or one Spark job after the other, whose tasks call `worker_tasks`, and each task
returns figures.

    job_plan                a job to run, its progress, its failure: plain data
    looped_job              a job that is one Spark job after the other
    forward_job             run a copy or a sink batch by batch; offset_ranges plans a batch
    source_partitions       the partitions of its topics, and its position in each
    slices_job              run a source connector slice by slice
    query_job               a job that is a Spark query; kafka_queries has options of such queries
    frame_job               start a job that forwards the rows of a user's query
    frame_sources           the sources of a user's query
    epochs_job              start a job with state; epoch_markers decides what a task repeats
    marker_records          the markers in a topic, where they do not expire
    offset_refresh          commit the offsets of idle partitions before they expire
    epochs_removal          forget all that a job with state has stored
    group_offsets           read and change the offsets of consumer groups
    lake_job                start a sink of files or tables, which Spark writes; lake_rows its task
    row_source_job          start one of Spark's sources; source_rows its task
    spark_columns           Spark's columns and Connect's schemas; sampled_columns finds the first
    lake_version            what the files of such a sink depend on
    hadoop_files            small files next to a lake's data
    start_positions         the first offset of each partition (a decision, without I/O)
    trimmed_offsets         counts and reports the offsets that a running query skips
    skipped_batches         counts them from Spark's reports, for sinks of Spark
    cluster_state           topics, offsets and limits, as the driver reads them
    kafka_properties        client properties for librdkafka and for Spark
    worker_plan             the part of a plan that travels to the tasks
    worker_tasks            the functions that Spark's Python workers call
    forward_ranges          read ranges and write their records; range_reader reads them
    forward_rows            write the rows of a user's query
    forward_transaction     the transaction of both
    record_writers          what happens to rows inside a transaction: topic_writers, sink_writer,
                            frame_writer
    slice_tasks             polls of a connector's task; source_offsets has its positions
    epoch_tasks             the rows of a shuffle partition with their marker
    record_producer         a producer, its errors by kind
    producer_cache          the producers that a worker keeps
    transactional_producer  transactions
    plain_delivery          records and offsets without a transaction, at least once
    worker_rows             hand rows to the Python workers
    arrow_rows, frame_rows, task_figures   rows in, figures out
    task_failures           failures on their way from a task to the driver

A worker imports `worker_tasks` and what it needs; none of these imports trio or an HTTP library.
"""
