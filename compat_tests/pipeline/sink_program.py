"""A PySpark program that writes a stream to a topic: `python -m ... SETTINGS_FILE`.

Each row has a number that is the same when its batch is repeated, and a text that is not. A query
that failed is started again in the same session.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from barnabas.pipeline.sink.kafka_data_source import KafkaDataSource
from compat_tests import spark
from compat_tests.pipeline import planted_sink

TASKS = 3
ROWS_PER_BATCH = 60


class PlantedSource(KafkaDataSource):
    """The format, in processes with planted points."""

    driver = os.urandom(8).hex()

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
        planted_sink.plant()
        return super().streamWriter(schema, overwrite)


def main() -> None:
    settings = json.loads(Path(sys.argv[1]).read_text())
    os.environ.update({**spark.environment(), "BARNABAS_DRIVER": str(os.getpid())})
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.python.daemon.module", settings["daemon"])
        .getOrCreate()
    )
    session.dataSource.register(PlantedSource)
    done = 0
    while True:
        rows = (
            session.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", ROWS_PER_BATCH)
            .option("numPartitions", TASKS)
            .load()
            .selectExpr("CAST(value AS STRING) AS key", "uuid() AS value")
        )
        query = (
            rows.writeStream.format("barnabas")
            .options(**settings["options"])
            .option("checkpointLocation", settings["checkpoint"])
            .trigger(processingTime="100 milliseconds")
            .start()
        )
        seen = -1
        while query.isActive:
            time.sleep(0.1)
            progress = query.lastProgress
            if progress is not None and progress["batchId"] != seen:
                seen = progress["batchId"]
                done += 1
                print(json.dumps({"event": "progress", "records": done}), flush=True)
        print(json.dumps({"event": "failed", "message": str(query.exception())}), flush=True)


if __name__ == "__main__":
    main()
