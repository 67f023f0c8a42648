"""Spark's format `barnabas`: a sink for any Spark job, exactly once into any Kafka.

    import barnabas.spark

    barnabas.spark.register(spark)
    (
        rows.writeStream.format("barnabas")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("topic", "orders")
        .option("name", "orders-to-kafka")
        .option("checkpointLocation", "/var/lib/orders")
        .start()
    )

docs/spark-sink.md is the guide. It needs `pip install 'barnabas[spark]'`, in the driver and in the
Python environment of the executors.
"""

from barnabas.pipeline.sink.format_registration import register
from barnabas.pipeline.sink.sink_errors import SinkColumnError, SinkError, SinkOptionError

__all__ = ["SinkColumnError", "SinkError", "SinkOptionError", "register"]
