"""The environment of PySpark: a JDK, and a separate cache for the connector's jars."""

import contextlib
import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas.pipeline.spark.session import SHORT_LIVED
from compat_tests import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROWTH = "BARNABAS_GROWTH"
long = pytest.mark.skipif(GROWTH not in os.environ, reason="a long test: make compat-growth")
CACHE = Path(__file__).parent.parent / ".cache"
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"


def missing() -> str | None:
    """Return in one line why Spark cannot run here, or None."""
    if shutil.which("java") is None:
        return "java is missing, which Spark needs: install a JDK 17 (Debian: openjdk-17-jdk)"
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark is missing: run `make compat`, which installs it"
    return None


needed = pytest.mark.skipif(missing() is not None, reason=missing() or "")
"""Skips a test, or the tests of a module, where Spark cannot run."""


_FIRST_COMPILER = shlex.join(SHORT_LIVED)
JVM_OPTIONS = f"{_FIRST_COMPILER} -XX:+UseSerialGC"
"""Options of a JVM that ends before the second compiler and the parallel collector pay off."""
FIRST_COMPILER_ONLY = {
    "SPARK_SUBMIT_OPTS": _FIRST_COMPILER,
    # Of the JVM that only prints the command of the other one.
    "SPARK_LAUNCHER_OPTS": shlex.join(jars.SHORT_LIVED),
}
"""Environment of a program whose JVM ends before the second compiler has paid for itself."""
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Properties of a session that interprets its expressions. For the few records of a test that takes
a third less CPU than to compile classes for each query, as sessions of users do. The command of
barnabas compiles in the tests too, and so do modules with `COMPILES`."""
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


def environment() -> dict[str, str]:
    """Return the environment in which Spark resolves its connector.

    Spark's resolver (Ivy) takes a POM in the user's Maven repository for the jar itself and fails
    without the jar; a separate home directory avoids that repository.
    """
    home = CACHE / "spark"
    home.mkdir(parents=True, exist_ok=True)
    return {
        **os.environ,
        **FIRST_COMPILER_ONLY,
        "SPARK_SUBMIT_OPTS": f"-Duser.home={home} {JVM_OPTIONS}",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


@contextlib.contextmanager
def session(properties: dict[str, str]) -> "Iterator[SparkSession]":
    """Run a session with Spark's own defaults, in a separate JVM that ends with the session.

    `SparkSession.stop` leaves the JVM, which the next session of the process would run in: with the
    options and the class path of this one.
    """
    from pyspark.sql import SparkSession

    from barnabas.pipeline.delivery.driver.spark_internals import DriverJvm

    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment().items():
            patch.setenv(name, value)
        if (other := SparkSession.getActiveSession()) is not None:
            DriverJvm(other).stop()
        found = SparkSession.builder.config(map=properties).getOrCreate()
        jvm = DriverJvm(found)
        try:
            found.sparkContext.setLogLevel("ERROR")
            yield found
        finally:
            jvm.stop()
