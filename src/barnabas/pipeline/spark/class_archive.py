"""The JVM's class-data archive: classes of Spark in the form that the JVM maps into memory.

The first clean exit of a driver JVM writes it; later ones start in about half the time. The JVM
uses an archive only with the JDK and with the very files of the class path that it was written
with. The name of an archive has a digest of them, so each virtual environment has its own.
"""

import contextlib
import functools
import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

_JAVA_MIN: Final = 17
_KEPT_S: Final = 30 * 24 * 3_600.0
IN_PLACE: Final = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
"""Options that map an archive at the addresses that it was written for.

At others, the default of JDK 17.0.15, the JVM rewrites its pages at each start, which takes a
fourth of the CPU of a short program.
"""


def java_command() -> str | None:
    """Return the `java` that Spark runs, or None."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").is_file():
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")


@functools.cache
def java_version() -> str:
    """Return the full version text of `java`, or an empty text."""
    java = java_command()
    if java is None:
        return ""
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    return done.stderr


def java_major(version: str) -> int:
    """Return the major number in the text of `java -version`, or 0."""
    found = re.search(r'version "(?:1\.)?(\d+)', version)
    return int(found[1]) if found else 0


def java_problem(needed_by: str, program: str) -> str | None:
    """Return why `java` cannot run a program, and what to install; None when it can."""
    if java_command() is None:
        return (
            f"Java is missing, which {needed_by}: install a JDK 17 or 21 (Debian: openjdk-17-jdk)"
        )
    if 0 < (major := java_major(java_version())) < _JAVA_MIN:
        return (
            f"Java {major} is too old for {program}: install a JDK 17 or 21 (Debian: "
            "openjdk-17-jdk), and set JAVA_HOME to it"
        )
    return None


@attrs.frozen
class NewArchive:
    """An archive that the JVM writes when it exits, under another name until it is complete."""

    partial: Path
    final: Path

    def keep(self) -> None:
        """Publish the archive after the JVM has exited; a partial one is removed."""
        if self.partial.is_file() and self.partial.stat().st_size > 0:
            self.partial.replace(self.final)
        else:
            self.partial.unlink(missing_ok=True)


@attrs.frozen
class Choice:
    """The options of the JVM for its archive."""

    options: tuple[str, ...]
    new: NewArchive | None = None


def choose(directory: Path, class_path: Sequence[Path]) -> Choice:
    """Return the options that use the archive, or that write it when it is missing.

    `class_path` has the jars in the order of the JVM's class path.
    """
    version = java_version()
    if java_major(version) < _JAVA_MIN:
        return Choice(())
    final = directory / f"classes-{_digest(version, class_path)}.jsa"
    if final.is_file():
        with contextlib.suppress(OSError):  # a cache that belongs to another user
            os.utime(final)
        return Choice((f"-XX:SharedArchiveFile={final}", "-Xshare:auto"))
    _remove_old(directory)
    partial = final.with_suffix(f".{os.getpid()}")
    return Choice((f"-XX:ArchiveClassesAtExit={partial}",), NewArchive(partial, final))


def _digest(version: str, class_path: Sequence[Path]) -> str:
    """Return a text that changes with the JDK and with all that the JVM compares of each jar."""
    digest = hashlib.sha256(version.encode())
    for path in class_path:
        found = path.stat()
        digest.update(f"\n{path} {found.st_size} {found.st_mtime_ns}".encode())
    return digest.hexdigest()[:16]


def _remove_old(directory: Path) -> None:
    """Remove archives that no JVM has used for a month, and the parts of those that were killed."""
    for path in directory.glob("classes-*"):
        with contextlib.suppress(OSError):  # another process removed it
            if time.time() - path.stat().st_mtime > _KEPT_S:
                path.unlink()
