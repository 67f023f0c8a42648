"""Apache Kafka's jars: their location, and how to run a Java program of them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Short-lived tools start faster without the optimizing compiler.
TOOL_OPTIONS = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
LOG_OPTIONS = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]


def kafka_lib() -> Path | None:
    """Return the directory that `make compat` fills with Kafka's jars, or None."""
    folder = Path(os.environ.get("BARNABAS_KAFKA_LIB") or ROOT / ".cache" / "kafka" / "lib")
    return folder if any(folder.glob("kafka-tools-*.jar")) else None


def missing() -> str | None:
    """Return in one line why Java programs cannot run here, or None."""
    if shutil.which("java") is None:
        return "java is missing: install a JDK 17 (Debian: openjdk-17-jdk)"
    if kafka_lib() is None:
        return "Kafka's jars are missing: run `make compat` with mvn on the PATH"
    return None


needed = pytest.mark.skipif(missing() is not None, reason=missing() or "")
"""Skips a test, or the tests of a module, where Java programs cannot run."""


def classpath() -> str:
    """Return the class path of Kafka and its tools; skip the test without one."""
    if reason := missing():
        pytest.skip(reason)
    return f"{kafka_lib()}/*"


def java(
    main_class: str,
    *arguments: str | Path,
    stdin: str | None = None,
    timeout_s: float = 90,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's programs and return its output."""
    command = ["java", *TOOL_OPTIONS, *LOG_OPTIONS, "-cp", classpath(), main_class]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if check and done.returncode != 0:
        raise AssertionError(
            f"{main_class} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        )
    return done
