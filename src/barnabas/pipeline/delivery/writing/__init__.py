"""The writers of rows in Spark tasks, and the producers and transactions that they use.

What lives here: code of the Python workers that all deliveries share. What may not: Spark's driver,
plans of batches.

How data passes: a delivery gives rows to the writer of its job, the writer makes records, dead
letters or calls of a connector of them, and a producer sends them, in a transaction or without one.

    record_producer          a producer, its errors by kind, delivery reports
    producer_cache           the producers that a worker keeps from one task to the next
    transactional_producer   transactions
    plain_delivery           records and offsets without a transaction, at least once
    produced_columns         records for a producer as columns
    produced_records         records and dead letters on their way into a transaction
    record_writers           the writers that a worker keeps
    topic_writers, sink_writer, frame_writer   for copies, sinks, and queries of users
"""
