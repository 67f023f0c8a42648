"""Apache Kafka's jars: their location, and how to run a Java program of them.

The JVM maps the classes of Kafka, and of the compiler that runs a program's source, from an
archive: a broker starts with 2.0 s of CPU, not with 2.7. The first process that needs the archive
writes it, by a program that runs a broker and the tools (`java/ClassArchive.java`).
"""

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from barnabas.pipeline.spark import class_archive
from barnabas.testing.free_ports import free_ports

ROOT = Path(__file__).parent.parent
CONNECTORS = ROOT / ".cache" / "connectors" / "lib"
"""The jars of Debezium and MirrorMaker 2."""
# Short-lived tools start faster without the optimizing compiler.
TOOL_OPTIONS = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
SHORT_LIVED = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
"""Options of a server that ends before the second compiler and another collector pay off."""
LOG_OPTIONS = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
# A JVM that cannot use an archive says so on the standard output, where tools print their results.
_QUIET = ["-Xlog:disable", "-Xlog:all=error:stderr"]
_ARCHIVE_LIMIT_S = 170


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


@functools.cache
def archive_options() -> list[str]:
    """Return the JVM's options that use the archive of classes; it is written when it is missing.

    It belongs to this JDK and to these jars, so a class path has to begin with `classpath()`. A JDK
    without an archive for itself writes none: then there are no options.
    """
    folder = kafka_lib()
    if folder is None or shutil.which("java") is None:
        return []
    version = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    jars = "\n".join(sorted(str(jar) for jar in folder.iterdir()))
    digest = hashlib.sha256(f"{version.stderr}\n{jars}".encode()).hexdigest()[:16]
    archive = folder.parent / f"classes-{digest}.jsa"
    with (folder.parent / "classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.is_file():
            _write_archive(archive)
    if not archive.is_file():
        return []
    return [f"-XX:SharedArchiveFile={archive}", *class_archive.IN_PLACE, *_QUIET]


def _write_archive(archive: Path) -> None:
    """Run a broker and the tools in one JVM, which writes the archive at its end."""
    partial = archive.with_suffix(f".{os.getpid()}")
    program = ROOT / "compat_tests" / "java" / "ClassArchive.java"
    with tempfile.TemporaryDirectory(prefix="barnabas-archive-") as directory:
        command = ["java", *TOOL_OPTIONS, f"-XX:ArchiveClassesAtExit={partial}", *LOG_OPTIONS]
        command += ["-cp", classpath(), str(program), directory, *map(str, free_ports(2))]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_ARCHIVE_LIMIT_S, check=False
        )
    assert done.returncode == 0, f"{program.name} ended with {done.returncode}:\n{done.stderr}"
    if partial.is_file():
        partial.replace(archive)


def java(
    main_class: str,
    *arguments: str | Path,
    stdin: str | None = None,
    timeout_s: float = 90,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's programs and return its output."""
    options = [*TOOL_OPTIONS, *archive_options(), *LOG_OPTIONS]
    command = ["java", *options, "-cp", classpath(), main_class]
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
