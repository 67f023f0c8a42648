"""The process that forks Spark's Python workers (`spark.python.daemon.module`).

Before each task a worker calls `importlib.invalidate_caches()`, which reads pyspark.zip again for
every zip importer: 130 ms. Here the zip entries leave `sys.path` when the package is installed, and
zip importers keep their directory. Libraries that the tasks use are imported once, before the fork.
After each task a worker collects garbage, which takes 10 ms for the objects of these libraries:
they are frozen, so that a collection looks at those of the task only.
"""

import gc
import importlib.util
import os
import sys
import zipimport


def prepare() -> None:
    """Make tasks cheap in the workers that are forked from this process."""
    sys.path[:] = [entry for entry in sys.path if not _is_spark_archive(entry)]
    zipimport.zipimporter.invalidate_caches = lambda self: None
    for name in ("confluent_kafka", "pyarrow", "barnabas.pipeline.delivery.worker_tasks"):
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name)


def _is_spark_archive(entry: str) -> bool:
    """True for pyspark.zip and the py4j archive when both packages are installed beside them."""
    name = os.path.basename(entry)
    if not (name == "pyspark.zip" or (name.startswith("py4j-") and name.endswith(".zip"))):
        return False
    return any(
        os.path.isdir(os.path.join(other, "pyspark"))
        for other in sys.path
        if other and not other.endswith(".zip")
    )


def main() -> None:
    """Run Spark's daemon."""
    prepare()
    daemon = importlib.import_module("pyspark.daemon")
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
