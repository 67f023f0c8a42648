"""Connectors that come with barnabas, under the class names of the Java connectors they replace.

What lives here: connectors and their tasks. What may not: Spark sessions, transactions and
offsets' storage: the deliveries own these and call a task by `plugin_api`.

    file_stream_source, file_stream_sink    lines of a file (`file_stream_connector`)
    datagen_source                          made-up records for trials
    jdbc_source, jdbc_sink                  rows of tables; `jdbc_config` has their properties,
                                            `jdbc_queries` and `jdbc_rows` their statements,
                                            `jdbc_validation` what is refused without a connection
    database_access                         the interface of a database, and `connect`
    sqlite_database, postgres_database,     databases; `server_database` is a base of two,
    mysql_database                          `postgres_types` and `mysql_types` convert types and
                                            values, `column_values` does so for both,
                                            `postgres_address` and `mysql_address` read addresses,
                                            `mysql_errors` converts errors

A task's module is imported in Spark's workers when its job starts there.
"""
