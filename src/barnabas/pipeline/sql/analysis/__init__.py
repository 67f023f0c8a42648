"""Analysis: a query and the catalog, to a plan whose names and types are resolved.

    plan_values        the plan
    relations          the sources of a query, and what a name means in it
    projection         the columns of SELECT: `*`, their names, which of them are the key
    aggregation        GROUP BY, aggregates, HAVING
    lasting_conditions HAVING that a group never ceases to meet
    joined_sources     JOIN .. ON, and the keys of both sides
    query_analysis     a whole SELECT
    pull_rules         SELECT without EMIT that properties of a session forbid
    written_results    CREATE .. AS SELECT and INSERT INTO .. SELECT: the result and its sink

Nothing here starts Spark. What is wrong in a statement is an `SqlError` with line and column.
"""
