"""A standalone Spark cluster of one master and two workers, each with its own folder and packages.

The workers have the Python interpreter of this machine without its installed packages: what their
tasks import comes with the job.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyspark

from barnabas.testing.free_ports import free_ports

HOME = Path(pyspark.__file__).parent
WORKERS = 2
_WAIT_S = 120.0


class SparkCluster:
    """A master and its workers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (self.port,) = free_ports(1)
        self.master = f"spark://127.0.0.1:{self.port}"
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start all, and wait for the workers: an application has its executors where they are."""
        self._start(
            "master",
            "org.apache.spark.deploy.master.Master",
            *("--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0"),
        )
        for number in range(WORKERS):
            self._start(
                f"worker-{number}",
                "org.apache.spark.deploy.worker.Worker",
                *("--host", "127.0.0.1", "--webui-port", "0", "--cores", "2", "--memory", "1g"),
                *("--work-dir", str(self.directory / f"worker-{number}"), self.master),
            )
        log = self.directory / "master.log"
        deadline = time.monotonic() + _WAIT_S
        while log.read_text(errors="replace").count("Registering worker") < WORKERS:
            assert time.monotonic() < deadline, log.read_text(errors="replace")
            time.sleep(0.1)

    def _start(self, name: str, *command: str) -> None:
        folder = self.directory / name
        folder.mkdir(parents=True)
        # The interpreter behind the virtual environment, which has none of its packages.
        python = Path(os.path.realpath(sys.executable)).parent
        java = Path(str(shutil.which("java"))).parent
        environment = {
            "HOME": str(folder),
            "PATH": f"{python}:{java}:/usr/bin:/bin",
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "LANG": "C.UTF-8",
        }
        with (self.directory / f"{name}.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(HOME / "bin" / "spark-class"), *command],
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def executors(self) -> set[str]:
        """Return the names of the workers that have unpacked the job's packages."""
        found = self.directory.glob("worker-*/app-*/*/barnabas-workers/barnabas")
        return {path.relative_to(self.directory).parts[0] for path in found}

    def stop(self) -> None:
        for process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
