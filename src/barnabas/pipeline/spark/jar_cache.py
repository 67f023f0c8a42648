"""Spark's Kafka connector and the libraries of table formats in the user's cache.

They are not part of PySpark. Each is fetched once, with Spark's own resolver, and kept per version
of Spark; later sessions start without the resolver, which saves two seconds.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import attrs

from barnabas.pipeline.delivery.driver.spark_library import pyspark

SUPPORTED_VERSIONS: Final = ("4.0.0",)
"""The versions of PySpark that the tests cover. Many others have no Kafka connector in Maven."""
_CONNECTOR: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_FETCH_TIMEOUT_S: Final = 600.0


class JarsUnavailableError(Exception):
    """A library is not in the cache and cannot be fetched."""


@attrs.frozen
class Jars:
    """The jars that a session needs in addition to PySpark's."""

    files: tuple[Path, ...]

    @property
    def class_path(self) -> str:
        """Return the jars as a Java class path."""
        return os.pathsep.join(map(str, self.files))


def find(directory: Path, package: str | None = None) -> Jars | None:
    """Return the jars in the cache for the installed version of PySpark, or None."""
    files = tuple(sorted(_jars_directory(directory, package).glob("*.jar")))
    return Jars(files) if files else None


def find_or_fetch(directory: Path, packages: Sequence[str] = ()) -> Jars:
    """Return the jars of the connector and of further packages, fetched when the cache lacks them.

    Raises JarsUnavailableError.
    """
    wanted: tuple[str | None, ...] = (None, *packages)
    found = [find(directory, each) or fetch(directory, each) for each in wanted]
    return Jars(tuple(file for jars in found for file in jars.files))


def fetch(directory: Path, package: str | None = None) -> Jars:
    """Fetch a package, or the connector for the installed PySpark. Raises JarsUnavailableError."""
    present = {path.name for path in _pyspark_jars().glob("*.jar")}
    connector = package or f"{_CONNECTOR}:{spark_version()}"
    return fetch_into(_jars_directory(directory, package), [connector], present)


def fetch_into(
    target: Path, packages: Sequence[str], present: Collection[str] = frozenset()
) -> Jars:
    """Fetch packages with all that they need into a new directory, without the jars in `present`.

    Raises JarsUnavailableError.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    names = ",".join(packages)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=target.parent) as scratch:
        resolved = _resolve(names, Path(scratch))
        whole = Path(scratch) / "jars"
        whole.mkdir()
        for jar in resolved:
            # Ivy names a jar ORGANIZATION_ARTIFACT-VERSION.jar; PySpark has most of them already.
            artifact = jar.name.partition("_")[2]
            if artifact not in present:
                shutil.copy(jar, whole / artifact)
        try:
            whole.rename(target)
        except OSError:  # another process has fetched them meanwhile
            if not any(target.glob("*.jar")):
                raise
    files = tuple(sorted(target.glob("*.jar")))
    if not files:
        raise JarsUnavailableError(f"the resolver found no jar of {names}")
    return Jars(files)


def _resolve(connector: str, scratch: Path) -> list[Path]:
    """Run Spark's resolver in `scratch`. Raises JarsUnavailableError.

    The resolver takes a POM in the user's Maven repository for the jar itself, so it runs with
    another home directory.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise JarsUnavailableError(
            f"cannot fetch {connector}: PySpark, whose resolver fetches it, is missing: "
            "pip install 'barnabas[spark]'"
        )
    empty = scratch / "empty.py"
    empty.write_text("")
    ivy = scratch / "ivy"
    home = scratch / "home"
    home.mkdir()
    command = [
        str(_pyspark_directory() / "bin" / "spark-submit"),
        *("--master", "local[1]", "--packages", connector),
        *("--conf", f"spark.jars.ivy={ivy}", str(empty)),
    ]
    options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} -Duser.home={home}"
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": options, "PYSPARK_PYTHON": sys.executable}
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_FETCH_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _unavailable(connector, str(error)) from error
    jars = sorted((ivy / "jars").glob("*.jar"))
    if done.returncode != 0 or not jars:
        raise _unavailable(connector, _reason(done.stderr))
    return jars


def _unavailable(connector: str, reason: str) -> JarsUnavailableError:
    return JarsUnavailableError(
        f"cannot fetch {connector}, which is fetched once: {reason}; without access to a Maven "
        "repository, copy ~/.cache/barnabas/spark from a host that has run pipelines"
    )


def _reason(output: str) -> str:
    """Return the line of the resolver's output that says what is wrong."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    wanted = ("unresolved dependency", "UnknownHost", "Server access error", "Exception")
    for mark in wanted:
        for line in lines:
            if mark in line:
                return line.lstrip(": \t")
    return lines[-1] if lines else "the resolver printed nothing"


def _jars_directory(directory: Path, package: str | None = None) -> Path:
    name = f"jars-{spark_version()}"
    if package is None:
        return directory / name
    _, artifact, version = package.split(":")
    return directory / f"{name}-{artifact}-{version}"


def spark_version() -> str:
    """Return the version of the installed PySpark."""
    return str(pyspark("version").__version__)


def spark_jars() -> tuple[Path, ...]:
    """Return the jars of Spark in the order in which a JVM expands `jars/*`: the directory's."""
    directory = Path(os.environ.get("SPARK_HOME") or _pyspark_directory()) / "jars"
    return tuple(directory / name for name in os.listdir(directory) if name.endswith(".jar"))


def _pyspark_directory() -> Path:
    return Path(pyspark().__file__).parent


def _pyspark_jars() -> Path:
    return _pyspark_directory() / "jars"
