"""Jobs on a Spark cluster: executors in other folders, with the packages that the runner sends."""

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from compat_tests import spark as setup
from compat_tests.jars import ROOT
from compat_tests.pipeline.connect_workers import RunnerProcess
from compat_tests.pipeline.forward_kills import ForwardJob
from compat_tests.pipeline.killed_job import children, read_committed, wait_until
from compat_tests.servers import ServerProcess
from tests.processes import is_alive

pytestmark = [
    setup.needed,
    pytest.mark.timeout(600),
]

EXECUTORS = {
    "spark.executor.extraJavaOptions": setup.JVM_OPTIONS,
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


def test_app_attached_to_a_session_on_a_cluster_sends_its_packages(
    bootstrap: str, topics: Any, tmp_path: Path
) -> None:
    from compat_tests.pipeline.spark_cluster import SparkCluster

    source, target, counts = (
        topics.create(name, partitions=2) for name in ("source", "target", "counts")
    )
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(200):
        producer.produce(source, str(number), str(number % 5))
    assert producer.flush(60) == 0
    cluster = SparkCluster(tmp_path / "cluster")
    cluster.start()
    program = str(ROOT / "compat_tests" / "pipeline" / "attached_app.py")
    places = (cluster.master, bootstrap, source, target, counts, str(tmp_path))
    with (tmp_path / "app.log").open("wb") as log:
        app = subprocess.Popen(
            [sys.executable, program, *places, setup.JVM_OPTIONS],
            env=setup.environment(),
            cwd=tmp_path,
            stdout=log,
            stderr=log,
        )
    try:
        deadline = time.monotonic() + 300
        while not has_copied(bootstrap, target, 200) or not has_counted(bootstrap, counts):
            problem = (tmp_path / "app.log").read_text(errors="replace")[-3000:]
            assert app.poll() is None, problem
            assert time.monotonic() < deadline, problem
            time.sleep(0.5)
        assert cluster.executors(), "an executor with the packed packages"
    finally:
        app.terminate()
        app.wait(120)
        cluster.stop()


def has_copied(bootstrap: str, target: str, count: int) -> bool:
    values = [int(message.value()) for message in read_committed(bootstrap, target)]
    return sorted(values) == list(range(count))


def has_counted(bootstrap: str, topic: str) -> bool:
    """True when a kernel has counted 40 records of each key."""
    newest = {message.key(): message.value() for message in read_committed(bootstrap, topic)}
    return newest == {str(key).encode(): (40).to_bytes(8) for key in range(5)}


class ClusterRunner(RunnerProcess):
    """A runner on a cluster, started here or by spark-submit."""

    jvm_environment: Mapping[str, str] = {}

    def __init__(
        self, bootstrap: str, directory: Path, group: str, master: str, *options: str
    ) -> None:
        super().__init__(bootstrap, directory, group)
        self.settings = {**EXECUTORS, "spark.master": master}
        self.options = options
        self.checkpoints = str(directory / "checkpoints")
        self.environment: dict[str, str] = {}

    def command(self) -> list[str]:
        checkpoints = f"--set=checkpoint.dir={self.checkpoints}"
        return [
            *("env", *(f"{name}={value}" for name, value in self.environment.items())),
            *(sys.executable, "-m", "barnabas", "pipelines", *self.options, checkpoints),
            *("--listen", f"127.0.0.1:{self.port}"),
            *(f"--set={name}={value}" for name, value in self.properties().items()),
            *(f"--spark={name}={value}" for name, value in self.settings.items()),
        ]

    def copy(self, source: str, target: str) -> None:
        """Create a job that copies a topic."""
        config = {"connector.class": "TopicCopy", "topics": source, "target.topic": target}
        assert self.ask("POST", "/connectors", {"name": source, "config": config}).status == 201

    def wait_copied(self, target: str, count: int) -> None:
        """Wait until all numbers are in the target; each is there once."""
        self.wait(lambda: len(read_committed(self.bootstrap, target)) >= count, 240)
        values = [int(message.value()) for message in read_committed(self.bootstrap, target)]
        assert sorted(values) == list(range(count))

    def descendants(self) -> set[int]:
        """Return the pids of all processes that this runner has started."""
        assert self.process is not None
        found: set[int] = set()
        new = {self.process.pid}
        while new:
            found |= new
            new = {child for pid in new for child in _children(pid)} - found
        return found - {self.process.pid}


def _children(pid: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return children(pid)
    return []


def produce(bootstrap: str, topic: str, first: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(first, end):
        producer.produce(topic, str(number), partition=number % 2)
    assert producer.flush(60) == 0


def own_home(directory: Path) -> Path:
    """Return PySpark's installation by another path: a local cluster writes into it."""
    from compat_tests.pipeline.spark_cluster import HOME

    directory.mkdir()
    for path in HOME.iterdir():
        (directory / path.name).symlink_to(path)
    return directory


@setup.long
def test_runner_copies_on_a_local_cluster(bootstrap: str, topics: Any, tmp_path: Path) -> None:
    source, target = topics.create("source", partitions=2), topics.create("target", partitions=2)
    produce(bootstrap, source, 0, 500)
    runner = ClusterRunner(bootstrap, tmp_path, source, "local-cluster[2,1,1024]")
    home = own_home(tmp_path / "spark")
    runner.environment = {"SPARK_HOME": str(home)}
    runner.start()
    try:
        runner.copy(source, target)
        runner.wait_copied(target, 500)
        packages = list(home.glob("work/app-*/*/barnabas-workers/barnabas"))
        assert packages, "an executor with the packed packages"
    finally:
        runner.stop()


@setup.long
def test_submitted_runner_copies_on_a_cluster_and_stops_with_all_its_processes(
    bootstrap: str, topics: Any, tmp_path: Path
) -> None:
    from compat_tests.pipeline.spark_cluster import SparkCluster

    source, target = topics.create("source", partitions=2), topics.create("target", partitions=2)
    produce(bootstrap, source, 0, 500)
    cluster = SparkCluster(tmp_path / "cluster")
    cluster.start()
    runner = ClusterRunner(bootstrap, tmp_path, source, cluster.master, "submit")
    try:
        runner.start()
        runner.copy(source, target)
        runner.wait_copied(target, 500)
        assert cluster.executors(), "an executor with the packed packages"
        assert runner.process is not None
        others = runner.descendants()
        runner.process.terminate()
        assert runner.process.wait(120) == 0, runner.log_tail()
        runner.wait(lambda: not any(map(is_alive, others)), 120)
        assert "stop requested" in runner.log_tail()
    finally:
        runner.stop()
        cluster.stop()
