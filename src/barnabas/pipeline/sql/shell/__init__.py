"""Sessions: statements one after the other, in this process (`barnabas sql`) or on a runner.

    sql_session        a session in this process
    session_statements what each statement does, and what it answers
    session_backend    how statements become real, as the sessions see it
    local_queries      in this process: a catalog in memory, queries as apps of streams
    catalog_change     a statement that changes the catalog, and the queries that start and end
    key_lookups        SELECT of a table's key, as a look-up in a view
    explained_query    EXPLAIN
    created_topics     the topics that statements create
    join_partitions    the check that joined streams have the same number of partitions
    transient_queries  SELECT: the rows of a query, as they come
    shown_values       the values of these rows as ksqlDB answers them
    inserted_rows      INSERT INTO .. VALUES, and rows as JSON, as bytes
    misfit_numbers     numbers of such rows that their columns do not hold
    produced_rows      rows that are produced to a topic
    printed_topics     PRINT: the records of a topic
    printed_values     their keys and values as texts
    shown_objects      SHOW and DESCRIBE
    asserted_objects   ASSERT: conditions on topics and schemas, which may become true in time
    command_answers    what a change of the catalog answers
    answer_tables      answers as tables of texts
    answer_values      what a statement answers, as values
    session_values     settings and state of a session

In this process, persistent queries run until it stops. A script is the catalog: run again, it
continues where it was, since positions are those of the queries' groups. `sql.hosting` has the
sessions of a runner.
"""
