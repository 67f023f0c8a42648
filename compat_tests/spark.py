"""The environment of PySpark: a JDK, and a separate cache for the connector's jars."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

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


FIRST_COMPILER_ONLY = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1"}
"""Environment of a program whose JVM ends before the second compiler has paid for itself."""


def environment() -> dict[str, str]:
    """Return the environment in which Spark resolves its connector.

    Spark's resolver (Ivy) takes a POM in the user's Maven repository for the jar itself and fails
    without the jar; a separate home directory avoids that repository.
    """
    home = CACHE / "spark"
    home.mkdir(parents=True, exist_ok=True)
    return {
        **os.environ,
        "SPARK_SUBMIT_OPTS": f"-Duser.home={home}",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
