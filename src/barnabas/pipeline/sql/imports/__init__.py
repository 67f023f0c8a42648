"""Import of the statements that a ksqlDB server keeps in its command topic.

    ksqldb_commands     a record of the topic as a value
    live_commands       the commands whose streams, tables, types and queries are still there
    import_plan         whether each of these runs here
    source_statements   the CREATE of a source whose query was terminated

All of it is pure: the command line reads the topic, and a server runs the statements.
"""
