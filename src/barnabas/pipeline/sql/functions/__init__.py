"""Types, operators and functions of SQL, as expressions of Spark's columns.

A call is resolved by name and by the types of its arguments, without Spark; the result has the type
of the call and makes its column. Each function is one row of a table that `SHOW FUNCTIONS`,
`DESCRIBE FUNCTION` and docs/reference/sql-functions.md read.

What lives here: the meaning of ksqlDB's expressions, by Spark's own expressions. What may not:
sources and their columns (a `Scope` gives their types), and queries.

    typed_expressions   the parser's expressions with their types
    resolution          functions by name and by types
    function_page       docs/reference/sql-functions.md
    function_table      all rows
    python_functions    functions of installed packages
    python_times        dates and times that Python has
    aggregate_folds     aggregates in Python, for sessions, tables and rows for each record
    aggregate_properties   properties of a session that change aggregates
    *_functions         rows by subject
    map_entries         maps of entries
    operators           operators by types
    literals            literals, and what they are coerced to
    casts               conversions
    bounds              values out of the bounds of types and memory
    whole_numbers       arithmetic of Java's whole numbers
    matching            which form of a function a call means
    time_zones, units   names of zones and units of time
    function_values     what a row and a resolved call are
"""
