"""The common part of the deliveries in the driver.

What lives here: jobs that are a query of Spark or a loop of Spark jobs, options and progress of
queries, and the state of the cluster as the driver reads it. What may not: code of one delivery.

    spark_library     PySpark, as modules of type Any
    spark_internals   what is not Spark's public interface, and the end of the driver JVM
    looped_job        a job that is one Spark job after the other
    query_job         a job that is a Spark query; query_progress adds its figures
    kafka_queries     options of queries that read topics, and of queries whose tasks write
    worker_rows       hand rows to the Python workers
    cluster_state     topics, offsets and limits
    group_positions   commit the positions of a query to its group; group_offsets reads and changes
                      those of any group
    frame_sources     the sources of a user's query; chained_states lets operators with state follow
                      each other
    trimmed_offsets   count and report offsets that a query skips; skipped_batches finds them in
                      the reports of a query
"""
