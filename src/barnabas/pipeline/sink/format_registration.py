"""The registration of the format in a session: the rest of the sink is imported with it."""

import importlib
import shutil
import subprocess
import sys
from typing import Any, Final

from barnabas.pipeline.delivery.driver.spark_internals import active_session
from barnabas.pipeline.delivery.driver.spark_library import SparkSession
from barnabas.pipeline.sink.sink_errors import SinkError

_SOURCES: Final = "barnabas.pipeline.sink.kafka_data_source"
_IMPORT_S: Final = 60.0


def register(spark: SparkSession) -> None:
    """Register the format `barnabas` in a Spark session. Raises SinkError.

    Each session of a program needs it once, also one that `newSession` has made.
    """
    if not hasattr(spark, "dataSource"):
        raise SinkError(
            f"the format `barnabas` needs PySpark 4, and this session is of {spark.version}: "
            "install barnabas[spark]"
        )
    context = getattr(spark, "sparkContext", None)  # a client of Spark Connect has none
    if context is not None and str(context.master).startswith("local"):
        _check_python(str(context.pythonExec))
    sources: Any = importlib.import_module(_SOURCES)
    with active_session(spark):
        spark.dataSource.register(sources.source_of_driver())


def _check_python(command: str) -> None:
    """Raise SinkError when the Python of Spark's workers on this host lacks barnabas."""
    if shutil.which(command) == sys.executable:
        return
    try:
        found = subprocess.run(
            [command, "-c", f"import {_SOURCES}"], capture_output=True, timeout=_IMPORT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return  # Spark names what is wrong with the command
    if found.returncode:
        reason = found.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise SinkError(
            f"the Python of Spark's workers, {command}, cannot import barnabas ({reason}): set the "
            f"environment variable PYSPARK_PYTHON={sys.executable} before the session starts"
        )
