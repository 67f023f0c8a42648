"""Sources of the stored catalog for `barnabas.streams` and PySpark, and topics of apps for SQL.

catalog_reading    the stored catalog, read by a client
shared_sources     a source as a stream, a table or a view of Spark
create_statements  the CREATE of a topic that an app writes
"""
