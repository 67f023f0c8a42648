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
from compat_tests.pace import WAIT_S
from compat_tests.spark import JVM_OPTIONS

HOME = Path(pyspark.__file__).parent
WORKERS = 2


class SparkCluster:
    """A master and its workers."""

    def __init__(self, directory: Path, address: str = "127.0.0.1") -> None:
        self.directory = directory
        self.address = address
        (self.port,) = free_ports(1)
        self.master = f"spark://{address}:{self.port}"
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start all, and wait for the workers: an application has its executors where they are."""
        self._start(
            "master",
            "org.apache.spark.deploy.master.Master",
            *("--host", self.address, "--port", str(self.port), "--webui-port", "0"),
        )
        for number in range(WORKERS):
            self.start_worker(number)
        log = self.directory / "master.log"
        deadline = time.monotonic() + WAIT_S
        while log.read_text(errors="replace").count("Registering worker") < WORKERS:
            assert time.monotonic() < deadline, log.read_text(errors="replace")
            time.sleep(0.1)

    def start_worker(self, number: int) -> None:
        """Start a worker in its own folder."""
        name = f"worker-{number}"
        self._start(name, *worker(self.address, self.directory / name, self.master))

    def _start(self, name: str, *command: str) -> None:
        folder = self.directory / name
        folder.mkdir(parents=True)
        program = [str(HOME / "bin" / "spark-class"), *command]
        self._run(name, program, environment(HOME, self.address, folder), folder)

    def _run(
        self, name: str, program: list[str], variables: dict[str, str], folder: Path | None = None
    ) -> subprocess.Popen[bytes]:
        with (self.directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                program,
                cwd=folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        return process

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


def worker(address: str, folder: Path, master: str) -> list[str]:
    """Return the class of a worker and its arguments."""
    return [
        "org.apache.spark.deploy.worker.Worker",
        *("--host", address, "--webui-port", "0", "--cores", "2", "--memory", "1g"),
        *("--work-dir", str(folder), master),
    ]


def environment(spark: Path, address: str, folder: Path) -> dict[str, str]:
    """Return the variables of a master or a worker."""
    # The interpreter behind the virtual environment, which has none of its packages.
    python = Path(os.path.realpath(sys.executable)).parent
    java = Path(str(shutil.which("java"))).parent
    return {
        "HOME": str(folder),
        "PATH": f"{python}:{java}:/usr/sbin:/usr/bin:/sbin:/bin",
        "SPARK_HOME": str(spark),
        "SPARK_LOCAL_IP": address,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": JVM_OPTIONS,
        "LANG": "C.UTF-8",
    }
