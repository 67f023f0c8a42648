"""Jobs on a Spark cluster: executors in other folders, with the packages that the runner sends."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from compat_tests import spark as setup
from compat_tests.jars import ROOT
from compat_tests.pipeline.forward_kills import ForwardJob
from compat_tests.pipeline.killed_job import wait_until
from compat_tests.servers import ServerProcess

pytestmark = [
    pytest.mark.skipif(setup.missing() is not None, reason=setup.missing() or ""),
    pytest.mark.timeout(600),
]

EXECUTORS = {
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.cores.max": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


class ClusterJob(ForwardJob):
    """A forward job on a cluster, under load, with planted points in the executors' workers."""

    def __init__(self, server: ServerProcess, directory: Path, name: str, master: str) -> None:
        self.directory = directory
        self.master = master
        super().__init__(server, directory, name)

    def settings(self) -> dict[str, Any]:
        plants = self.directory / "plants"
        target = plants / "compat_tests" / "pipeline"
        target.mkdir(parents=True)
        for package in (target.parent, target):
            (package / "__init__.py").touch()
        shutil.copy(ROOT / "compat_tests" / "pipeline" / "planted_daemon.py", target)
        points = self.directory / "points"
        points.mkdir()
        (points / "note-packages").touch()
        of_executors = {
            "spark.executorEnv.PYTHONPATH": str(plants),
            "spark.executorEnv.BARNABAS_POINTS": str(points),
        }
        return {
            "plan": self.plan(),
            "master": self.master,
            "spark": {**EXECUTORS, **of_executors},
        }


def test_executor_and_worker_killed_inside_a_transaction_lose_and_double_nothing(
    start_server: Any, unique: Any, tmp_path: Path
) -> None:
    from compat_tests.pipeline.spark_cluster import SparkCluster

    cluster = SparkCluster(tmp_path / "cluster")
    cluster.start()
    try:
        job = ClusterJob(start_server(), tmp_path, unique("cluster"), cluster.master)
        wait_until(lambda: len(cluster.executors()) == 2, "two executors", job.driver)
        job.driver.plant("offsets-sent", "kill-executor")
        progress = job.driver.events("progress")[-1]["records"]
        job.driver.wait_for_progress(progress + 500)
        assert job.check() > 1000
    finally:
        cluster.stop()
    notes = [path.read_text().splitlines() for path in job.driver.points.glob("packages-*")]
    assert len(notes) >= 2
    for places in notes:
        assert all("/barnabas-workers/" in place for place in places), places
