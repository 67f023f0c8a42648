"""Records and columns in Arrow's form, as Spark hands them to Python and takes them back.

What lives here: rows in, figures out, and Spark's columns for Connect's schemas. What may not:
Kafka clients, transactions, Spark's sessions and queries.

    arrow_library    PyArrow, as modules of type Any
    arrow_rows       records of one topic partition as lists
    frame_rows       rows of a user's query, each with the source record that it comes from
    collected_rows   records that a task makes of a source's rows
    task_figures     the numbers that a task returns
    spark_columns    Spark's columns and Connect's schemas, each from the other
"""
