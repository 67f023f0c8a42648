"""A process with plain PySpark: `python -m bench.pipeline_spark BOOTSTRAP DIRECTORY`.

It starts a query for each line of input, `copy SOURCE TARGET`, and ends with the input.
"""

import os
import sys
from pathlib import Path

from compat_tests import spark

_SETTINGS = {
    "spark.jars.packages": spark.CONNECTOR,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


def main() -> int:
    bootstrap, directory = sys.argv[1], Path(sys.argv[2])
    os.environ.update(spark.environment())
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
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
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", target)
            .option("checkpointLocation", str(directory / f"checkpoint-{source}"))
            .start()
        )
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
