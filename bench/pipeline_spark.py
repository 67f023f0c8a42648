"""A process with plain PySpark: `python -m bench.pipeline_spark BOOTSTRAP DIRECTORY FORMAT`.

It starts a query for each line of input, `copy SOURCE TARGET`, which writes with Spark's own sink
(`kafka`) or with that of `barnabas.spark` (`barnabas`). It ends with the input.
"""

import os
import sys
from pathlib import Path

import barnabas.spark
from compat_tests import spark

_SETTINGS = {
    "spark.jars.packages": spark.CONNECTOR,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


def main() -> int:
    bootstrap, directory, written = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    os.environ.update(spark.environment())
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    barnabas.spark.register(session)
    for line in sys.stdin:
        _, source, target = line.split()
        rows = (
            session.readStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .load()
        )
        (
            rows.select("key", "value")
            .writeStream.format(written)
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", target)
            .options(**({"name": source} if written == "barnabas" else {}))
            .option("checkpointLocation", str(directory / f"checkpoint-{source}"))
            .start()
        )
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
