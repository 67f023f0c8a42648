"""Sources of SQL by name for `barnabas.streams` and for PySpark; and the other way round.

    from barnabas import sql, streams as ks

    app = ks.App("report")
    clicks = sql.stream(app, "CLICKS")
    sql.register(spark, "127.0.0.1:9092")
    spark.table("PER_URL").show()

Names and schemas are those of the catalog of a runner (`barnabas pipelines --sql`). docs/sql.md is
the guide. It needs `pip install 'barnabas[spark,sql]'`.
"""

try:
    from barnabas.pipeline.sql.sharing.create_statements import create_statement
    from barnabas.pipeline.sql.sharing.shared_sources import register, stream, table
except ModuleNotFoundError as missing:
    remedy = f"{missing.name} is missing: pip install 'barnabas[spark,sql]'"
    raise ModuleNotFoundError(remedy, name=missing.name) from None

__all__ = ["create_statement", "register", "stream", "table"]
