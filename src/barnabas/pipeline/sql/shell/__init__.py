"""Statements that run in this process: the scripts of `barnabas sql`, and requests of the REST API.

    sql_session        statements, one after the other: catalog, topics, queries
    transient_queries  SELECT: the rows of a query, as they come
    inserted_rows      INSERT INTO .. VALUES: a row, produced to a topic
    printed_topics     PRINT: the records of a topic
    shown_objects      SHOW and DESCRIBE
    command_answers    what a change of the catalog answers
    answer_tables      answers as tables of texts
    answer_values      what a statement answers, as values
    session_values     settings and state of a session

Persistent queries are apps of `barnabas.streams`, which run until the process stops. A script is
the catalog: run again, it continues where it was, since positions are those of the queries' groups.
"""
