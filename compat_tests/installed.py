"""Barnabas as the README installs it: in an empty environment, without the tests' packages."""

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

from compat_tests.spark import FIRST_COMPILER_ONLY

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/pipelines.md", "docs/streams.md")
_INSTALL = re.compile(r"^\$ (pip install '\.\[spark\]')", re.MULTILINE)
_TIMEOUT_S = 600


def commands() -> set[str]:
    """Return what the README and the pages with a quickstart say to install."""
    found = [_INSTALL.findall((ROOT / page).read_text()) for page in PAGES]
    assert all(len(each) == 1 for each in found), found
    return {command for each in found for command in each}


def pyspark_of_tests() -> Path:
    """Return the directory of the tests' PySpark."""
    import pyspark

    return Path(pyspark.__file__).parent


def sizes(pyspark: Path) -> dict[str, int]:
    """Return the size of each jar by its name."""
    return {path.name: path.stat().st_size for path in (pyspark / "jars").glob("*.jar")}


class Installed:
    """An environment with barnabas, its pipelines and streams, and with nothing else.

    Its JVMs read the jars at the path of the tests' PySpark, the same files as its own: an archive
    of classes holds for one path only. Processes that are given one directory share what the first
    of them installs.
    """

    def __init__(self, directory: Path) -> None:
        self.programs = directory / "bin"
        complete = directory / "complete"
        with directory.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not complete.exists():
                self._install(directory)
                complete.touch()

    def _install(self, directory: Path) -> None:
        run = [sys.executable, "-m", "venv", str(directory)]
        subprocess.run(run, check=True, capture_output=True, timeout=_TIMEOUT_S)
        (command,) = commands()
        # The drivers of databases are another extra, for the example with a table.
        for line in (command, command.replace("spark", "jdbc")):
            done = subprocess.run(
                ["sh", "-c", line],
                cwd=ROOT,
                # Python compiles the modules that it imports; "0" stands for --no-compile.
                env=self.environment(PIP_NO_COMPILE="0"),
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
            )
            assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        (pyspark,) = directory.glob("lib/python3*/site-packages/pyspark")
        assert sizes(pyspark) == sizes(pyspark_of_tests())

    def environment(self, **more: str) -> dict[str, str]:
        """Return the variables of a shell in which the environment is active."""
        found = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        own = {"PATH": path, "PIP_ROOT_USER_ACTION": "ignore"}
        own["SPARK_HOME"] = str(pyspark_of_tests())
        return {**found, **FIRST_COMPILER_ONLY, **own, **more}
