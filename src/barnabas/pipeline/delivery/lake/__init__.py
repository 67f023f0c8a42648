"""Files and tables that Spark writes (a lake), and rows that Spark's own sources read.

What lives here: `SparkSink`, whose query writes the rows of a batch with one of Spark's sinks, and
`SparkSource`, whose rows become records in micro-batches. What may not: formats of one file type.

    lake_job          start a sink of files or tables; lake_rows is its task
    lake_version      what the files of such a sink depend on; lake_positions reads its checkpoint
    table_batches     the batches that a table has, marked as done before a start
    iceberg_table     creation and columns of an Iceberg table
    sampled_columns   the columns of a sink from the first record that has some
    row_source_job    start one of Spark's sources; source_rows is its task
    hadoop_files      small files next to a lake's data
"""
