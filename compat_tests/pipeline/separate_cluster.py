"""A standalone Spark cluster whose workers are on separate hosts without a shared folder.

The master and the driver are on this machine. A worker reaches it only over the network, and sees
neither its folders nor those of the other worker: what they share is in an object store.
"""

import os
import signal
import subprocess
import tempfile
from pathlib import Path

from barnabas.pipeline.spark.session import cache_directory
from compat_tests.jars import ROOT
from compat_tests.pipeline import separate_hosts
from compat_tests.pipeline.killed_job import children
from compat_tests.pipeline.separate_hosts import FOLDER, SPARK, Network, ObjectStore
from compat_tests.pipeline.spark_cluster import HOME, SparkCluster, environment, worker

_SDK = "2.24.12"
_PACKAGES = (
    "org.apache.hadoop:hadoop-aws:3.4.1",
    *(f"software.amazon.awssdk:{name}:{_SDK}" for name in ("s3", "s3-transfer-manager", "sts")),
)
"""Hadoop's S3A with the parts of Amazon's SDK that it uses; the whole SDK has 500 MB."""


def store_properties(url: str) -> dict[str, str]:
    """Return the properties of Spark with which it reaches an object store."""
    return {
        "spark.jars.packages": ",".join(_PACKAGES),
        "spark.jars.excludes": "software.amazon.awssdk:bundle",
        "spark.hadoop.fs.s3a.endpoint": url,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": "user",
        "spark.hadoop.fs.s3a.secret.key": "not-on-a-command-line",
    }


class SeparateCluster(SparkCluster):
    """A master, its workers on other hosts, and an object store."""

    def __init__(self, directory: Path) -> None:
        self.network = Network()
        super().__init__(directory, self.network.address)
        self.store = ObjectStore(self.network.address, directory)
        self.workers: list[subprocess.Popen[bytes]] = []
        self._hidden = (ROOT, directory, cache_directory(), Path(tempfile.gettempdir()))

    def start(self) -> None:
        self.directory.mkdir(parents=True)
        self.network.start()
        self.store.start()
        super().start()

    def start_worker(self, number: int) -> None:
        host, address = self.network.add_host()
        program = [str(SPARK / "bin" / "spark-class"), *worker(address, FOLDER, self.master)]
        hidden = [folder for folder in self._hidden if folder.is_dir()]
        command = separate_hosts.command(host, HOME, hidden, program)
        variables = environment(SPARK, address, FOLDER)
        self.workers.append(self._run(f"worker-{number}", command, variables))

    def seen_by(self, number: int, folder: Path) -> list[str]:
        """Return the names in a folder as a worker sees it, none where there is no folder."""
        seen = Path(f"/proc/{self.workers[number].pid}/root") / folder.relative_to("/")
        return sorted(path.name for path in seen.iterdir()) if seen.is_dir() else []

    def executors(self) -> set[str]:
        found: set[str] = set()
        for number, process in enumerate(self.workers):
            root = Path(f"/proc/{process.pid}/root")
            folder = root / FOLDER.relative_to("/")
            if any(folder.glob("app-*/*/barnabas-workers/barnabas")):
                found.add(f"worker-{number}")
        return found

    def properties(self) -> dict[str, str]:
        """Return the properties of an application on this cluster."""
        return {
            **store_properties(self.store.url),
            "spark.driver.host": self.address,
            "spark.driver.bindAddress": self.address,
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.cores.max": "2",
            "spark.sql.shuffle.partitions": "2",
        }

    def kill_executor(self, number: int) -> None:
        """Kill the executor of a worker with SIGKILL; the worker starts another one."""
        for pid in children(self.workers[number].pid):
            if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
                return
        raise AssertionError(f"worker {number} has no executor")

    def stop(self) -> None:
        super().stop()
        self.store.stop()
        self.network.stop()
