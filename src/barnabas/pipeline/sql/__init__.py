"""SQL over topics, in ksqlDB's statements.

A script becomes statements, which are plain values, and an expression becomes a column of Spark
with its type. docs/sql.md lists what is not there yet.

What lives here: ksqlDB's grammar, written from its documentation, on sqlglot's tokenizer and
expression parser (the extra `sql`), and ksqlDB's types and functions. What may not: input and
output, and operators of stream processing, which are `streams`'. Nothing that starts without SQL
imports this package.

    functions           types of expressions, operators and functions, as columns of Spark
    scripts             a text divided into statements, variables, limits
    statement_parser    statements
    query_parser        SELECT, joins, windows
    expression_parser   expressions, types, names
    sql_tokens          words and signs of the dialect
    statement_values    the values that the parser returns
    sql_types           the types of SQL, and Spark's
    sql_failures        `SqlError`, with line and column

A module imports only those below it in this list.
"""
