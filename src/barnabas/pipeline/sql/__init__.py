"""SQL over topics, in ksqlDB's statements.

A script becomes statements, which are plain values. A statement changes the catalog, and a query
becomes a plan, which runs on `barnabas.streams`. docs/sql.md lists what is not there yet.

What lives here: ksqlDB's grammar, written from its documentation, on sqlglot's tokenizer and
expression parser (the extra `sql`), ksqlDB's types, functions and rules. What may not: operators of
stream processing, which are `streams`'. Nothing that starts without SQL imports this package.

    sharing             the catalog's sources for `barnabas.streams` and PySpark
    imports             statements of a ksqlDB server, by its command topic
    hosting             on a runner: queries as jobs, the stored catalog
    shell               sessions: what each statement does, in this process or on a runner
    stored              objects of the catalog as records
    planning            plans onto `barnabas.streams`, and the serdes of the formats
    analysis            queries to plans: names, types, keys, windows
    catalog             streams, tables, types and queries, as values
    functions           types of expressions, operators and functions, as columns of Spark
    scripts             a text divided into statements, variables, limits
    statement_parser    statements
    query_parser        SELECT, joins, windows
    expression_parser   expressions, types, names
    sql_tokens          words and signs of the dialect
    statement_values    the values that the parser returns
    sql_types           the types of SQL, and Spark's
    sql_failures        `SqlError`, with line and column
    exact_json          JSON in which DECIMAL keeps its digits

A module imports only those below it in this list.
"""
