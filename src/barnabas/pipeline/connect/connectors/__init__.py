"""Connectors that come with barnabas, under the class names of the Java connectors they replace.

What lives here: connectors and their tasks. What may not: Spark sessions, transactions and
offsets' storage: the deliveries own these and call a task by `plugin_api`.

    file_stream_source, file_stream_sink    lines of a file (`file_stream_connector`)
    datagen_source                          made-up records for trials
    jdbc_source, jdbc_sink                  rows of tables; `jdbc_config` has their properties,
                                            `jdbc_queries` the queries of a source, `jdbc_rows` the
                                            rows of a sink, `jdbc_positions` its
                                            offsets, `jdbc_validation` what is refused without a
                                            connection
    database_access                         addresses of databases, and `connect`
    sql_database                            a connection by SQLAlchemy; `sql_statements` writes
                                            statements, `column_types` has the types of columns
    sqlite_database, postgres_database,     databases; `postgres_types` and `mysql_types` convert
    mysql_database, reflected_database      types and values, `column_values` does so for all,
                                            `reflected_types` for Oracle and SQL Server,
                                            `postgres_address`, `mysql_address` and
                                            `reflected_address` read addresses, `mysql_errors`
                                            converts errors

A task's module is imported in Spark's workers when its job starts there.
"""
