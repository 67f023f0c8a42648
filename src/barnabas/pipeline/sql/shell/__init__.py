"""Scripts of statements that run in this process: `barnabas sql`.

    sql_session        a script's statements, one after the other: catalog, topics, queries
    transient_queries  SELECT: the rows of a query, as they come
    inserted_rows      INSERT INTO .. VALUES: a row, produced to a topic
    shown_objects      SHOW and DESCRIBE, as tables of texts
    session_values     settings, and what a statement answers

Persistent queries are apps of `barnabas.streams`, which run until the process stops. A script is
the catalog: run again, it continues where it was, since positions are those of the queries' groups.
"""
