"""SQL over topics, in ksqlDB's statements.

Today this package parses: a script becomes statements, which are plain values. The planner, the
persistent queries and the shell are not there yet; docs/sql.md lists what is.

What lives here: ksqlDB's grammar, written from its documentation, on sqlglot's tokenizer and
expression parser (the extra `sql`). What may not: input and output, and operators of stream
processing, which are `streams`'. Nothing that starts without SQL imports this package.

    scripts             a text divided into statements, variables, limits
    statement_parser    statements
    query_parser        SELECT, joins, windows
    expression_parser   expressions, types, names
    sql_tokens          words and signs of the dialect
    statement_values    the values that the parser returns
    sql_failures        `SqlError`, with line and column

A module imports only those below it in this list.
"""
