"""Views: the rows of a table's topic in SQLite, for look-ups by key.

A view reads the committed records of a topic. Each record sets the row of its key, and a record
without a value removes it. Rows and the positions in the topic change in one transaction of SQLite,
so a view that was killed resumes where its rows end.

    view_keys     from a record's key to a row's key and window (pure)
    view_store    the SQLite file: rows, positions, origin
    view_feed     from the topic to the store (trio)
    live_view     a view that a thread keeps up to date, and its queries
    view_job      a view as a job of the runner

What may not live here: Spark. A view is derived data: when its rows may be wrong (a recreated
topic, records that were deleted before they were read, another format), it is rebuilt from the
topic, with a warning that names the reason. Queries are refused until a view has read its topic
once.
"""
