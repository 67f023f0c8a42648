"""Connectors that come with barnabas, under the class names of the Java connectors they replace.

What lives here: connectors and their tasks. What may not: Spark sessions, transactions and
offsets' storage: the deliveries own these and call a task by `plugin_api`.

    file_stream_source, file_stream_sink    lines of a file (`file_stream_connector`)
    datagen_source                          made-up records for trials
    jdbc_source, jdbc_sink                  rows of tables; `jdbc_config` has their properties,
                                            `jdbc_queries` and `jdbc_rows` their statements
    database_access                         what they need of a database, and `connect`
    sqlite_database, postgres_database,     databases; `postgres_types` and `mysql_types` have types
    mysql_database                          and values, `column_values` what both have in common,
                                            `mysql_address` and `mysql_errors` what they say

A task's module is imported in Spark's workers when its job starts there.
"""
