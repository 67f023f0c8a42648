"""The catalog: the streams, tables, types and queries that statements have made, as values.

    source_values       a stream or a table, its columns and its formats
    format_rules        which types and properties a format takes
    registered_columns  columns that a registry has, where a statement leaves them out
    source_definitions  CREATE STREAM or TABLE with columns, to a source
    catalog_changes     what CREATE, DROP, ALTER and queries change, and what they may not

A catalog never changes: each statement makes a new one, or is refused with `UnresolvedError`, to
which the caller adds the line and the column. Nothing here reads a topic or imports Spark.
"""
