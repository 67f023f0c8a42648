"""A sink for plain Spark jobs: the format `barnabas` of Spark's writers.

What lives here: the Python data source that Spark calls in the driver and in the tasks, and the
protocol that makes a micro-batch visible once. What may not: jobs, connectors, queries with state.

How data passes: a task writes its rows in a transaction and leaves it open (`prepared_rows`). When
all tasks have ended, the driver writes the batch with its transactions to the topic `NAME-commits`
and ends them (`batch_commits`). That record is the one place where a batch is decided: a driver
that starts ends the transactions of the last record first, and tasks skip a batch that is complete.

    format_registration  registers the format in a session
    kafka_data_source    the classes that Spark calls
    sink_options         options of a writer (pure)
    sink_columns         columns of its rows (pure)
    prepared_rows        the rows of a task in a transaction that stays open
    commit_record        the record of a batch (pure)
    commits_topic        the topic of the records, written by one driver at a time
    batch_commits        what a driver does before and after the tasks of a batch
    transaction_control  ends, describes and takes over transactions by their ids
    sink_errors          errors of users, by name
"""
