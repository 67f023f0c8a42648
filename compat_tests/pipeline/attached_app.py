"""A PySpark program with its own session on a cluster, to which it attaches an app.

It gets the master, the bootstrap servers, three topics, a directory and the options of the
executors' JVMs, and runs until a signal.
"""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import barnabas.streams as ks
from barnabas.pipeline.spark import jar_cache
from barnabas.pipeline.spark.session import cache_directory


def main(
    master: str,
    bootstrap: str,
    source: str,
    target: str,
    counted: str,
    directory: str,
    jvm_options: str,
) -> None:
    jars = jar_cache.find_or_fetch(cache_directory())
    # As on a real cluster: its hosts have Python, without the packages of this environment.
    os.environ["PYSPARK_PYTHON"] = os.path.realpath(sys.executable)
    session = (
        SparkSession.builder.master(master)
        .config("spark.jars", ",".join(map(str, jars.files)))
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.executor.cores", "1")
        .config("spark.executor.extraJavaOptions", jvm_options)
        .config("spark.cores.max", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.barnabas.streams.buckets", "8")
        .config("spark.sql.warehouse.dir", f"{directory}/warehouse")
        .getOrCreate()
    )
    app = ks.App.attach(session, source, bootstrap, state=Path(directory, "state"))
    numbers = app.topic(source, key=ks.String(), value=ks.String())
    counts = numbers.group_by_key().fold(0, lambda count, value: count + 1, returns="BIGINT")
    app.write(numbers, target)
    app.write(counts, counted)
    app.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
