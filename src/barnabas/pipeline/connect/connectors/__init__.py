"""Connectors that come with barnabas, under the class names of the Java connectors they replace.

What lives here: connectors and their tasks. What may not: Spark sessions, transactions and
offsets' storage: the deliveries own these and call a task by `plugin_api`.

    file_stream_source, file_stream_sink    lines of a file (`file_stream_connector`)
    datagen_source                          made-up records for trials
    jdbc_source, jdbc_sink                  rows of tables (`database_access`: SQLite)

A task's module is imported in Spark's workers when its job starts there.
"""
