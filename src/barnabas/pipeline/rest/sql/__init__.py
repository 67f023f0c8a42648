"""ksqlDB's REST API over sessions of SQL.

What lives here: routes, the JSON of ksqlDB's answers and errors, streams of rows in and out.
What may not: what statements mean and do, which is `pipeline.sql`'s.

How data passes: `sql_api` reads a request and finds its handler. Statements run in threads, each
request in a separate session; their answers are the values of `sql.shell.answer_values`.

    sql_host           the application on the HTTP host, with its rules of access
    sql_api            the ASGI application: routes, errors, content types
    statement_requests POST /ksql, POST /ksql/terminate
    connector_statements   CONNECTOR statements, as requests to Connect's REST API
    query_requests     POST /query, /query-stream, /close-query
    socket_queries     GET /ws/query
    query_runs         the query of a request: its start, its rows and its end
    insert_requests    POST /inserts-stream
    server_requests    GET: what the server is, the states of commands
    row_formats        the forms in which rows are sent
    entity_json        answers as ksqlDB's JSON
    standby_relay      requests that a runner on standby passes on
    socket_relay       WebSockets that it passes on
    statement_rights   the topics that a statement reads and writes
    sql_context        what handlers share: sessions, running queries, commands
    request_bodies     bodies of requests
    sql_errors         errors with ksqlDB's codes
"""
