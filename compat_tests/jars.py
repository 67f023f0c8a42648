"""Apache Kafka's jars: their location, and how to run a Java program of them.

The JVM maps Kafka's classes from an archive, which halves the start of a tool and of a broker. The
first broker that stops cleanly writes it.
"""

import functools
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Short-lived tools start faster without the optimizing compiler.
TOOL_OPTIONS = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
LOG_OPTIONS = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
# A JVM that cannot use an archive says so on the standard output, where tools print their results.
_QUIET = ["-Xlog:disable", "-Xlog:all=error:stderr"]


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
def _archive() -> Path | None:
    """Return the archive of this JDK and these jars, which may not exist yet; None without them."""
    folder = kafka_lib()
    if folder is None or shutil.which("java") is None:
        return None
    version = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    jars = "\n".join(sorted(str(jar) for jar in folder.iterdir()))
    digest = hashlib.sha256(f"{version.stderr}\n{jars}".encode()).hexdigest()[:16]
    return folder.parent / f"classes-{digest}.jsa"


def archive_options() -> list[str]:
    """Return the JVM's options that use the archive of classes; none when it does not exist."""
    archive = _archive()
    if archive is None or not archive.is_file():
        return []
    return [f"-XX:SharedArchiveFile={archive}", *_QUIET]


class ArchiveOfBroker:
    """The options of a broker's JVM: they use the archive, or write it at the JVM's clean exit."""

    def __init__(self) -> None:
        self.options = archive_options()
        archive = _archive()
        self._partial: Path | None = None
        if archive is not None and not self.options:
            self._partial = archive.with_suffix(f".{os.getpid()}")
            self.options = [f"-XX:ArchiveClassesAtExit={self._partial}", *_QUIET]

    def keep(self) -> None:
        """Publish the archive that the JVM wrote, after its clean exit."""
        archive = _archive()
        if archive is not None and self._partial is not None and self._partial.is_file():
            self._partial.replace(archive)


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
