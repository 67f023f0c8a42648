"""Jobs on a Spark cluster whose hosts share an object store and nothing else."""

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests import spark as setup
from compat_tests.jars import ROOT
from compat_tests.pace import WAIT_S
from compat_tests.pipeline import separate_hosts
from compat_tests.pipeline.killed_job import read_committed
from compat_tests.pipeline.test_spark_cluster import ClusterRunner
from compat_tests.servers import KINDS

_MISSING = separate_hosts.missing()
pytestmark = [
    setup.needed,
    setup.long,
    pytest.mark.skipif(_MISSING is not None, reason=_MISSING or ""),
    pytest.mark.timeout(900),
]
KEYS = 5
_SECRET = "spark.hadoop.fs.s3a.secret.key"
_JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Any]:
    from compat_tests.pipeline.separate_cluster import SeparateCluster

    found = SeparateCluster(tmp_path / "cluster")
    try:
        found.start()
        for number in range(len(found.workers)):
            for folder in (ROOT, tmp_path / "cluster"):
                assert found.seen_by(number, folder) == []
        yield found
    finally:
        found.stop()


@pytest.fixture
def kafka(cluster: Any, server_kind: str) -> Iterator[str]:
    """The bootstrap address of a server that all hosts reach."""
    process = KINDS[server_kind]()
    controller = f"CONTROLLER://127.0.0.1:{process.controller_port}"
    process.properties |= {
        "listeners": f"PLAINTEXT://0.0.0.0:{process.port},{controller}",
        "advertised.listeners": f"PLAINTEXT://{cluster.address}:{process.port}",
    }
    try:
        process.start()
        yield f"{cluster.address}:{process.port}"
    finally:
        process.close()


class Load:
    """Numbers that a thread sends to a topic until `end`."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.sent = 0
        self._bootstrap = bootstrap
        self._topic = topic
        self._left = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap})
        while not self._ended.wait(0.05):
            for _ in range(10):
                value = json.dumps({"number": self.sent})
                producer.produce(self._topic, value, str(self.sent % KEYS))
                self.sent += 1
            producer.poll(0)
        self._left = producer.flush(60)

    def end(self) -> int:
        """Return how many numbers are sent and stored."""
        self._ended.set()
        self._thread.join()
        assert self._left == 0
        return self.sent


def create(bootstrap: str, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for each in admin.create_topics([NewTopic(name, 2, 1) for name in names]).values():
        each.result(30)


def wait_until(condition: Callable[[], bool], problem: Callable[[], str]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, problem()
        time.sleep(0.5)


def test_app_counts_exactly_with_its_state_in_the_store(
    cluster: Any, kafka: str, unique: Any, tmp_path: Path
) -> None:
    """An executor is killed while micro-batches write to the store."""
    source, target = unique("source"), unique("counts")
    create(kafka, source, target)
    state = f"s3a://{cluster.store.bucket}/app"
    program = str(ROOT / "compat_tests" / "pipeline" / "distributed_app.py")
    arguments = (kafka, source, target, cluster.master, state, json.dumps(cluster.properties()))
    output = tmp_path / "app.log"
    with output.open("wb") as log:
        app = subprocess.Popen(
            [sys.executable, program, *arguments],
            env=environment(tmp_path),
            stdout=log,
            stderr=log,
        )

    def problem() -> str:
        return f"{app.poll()}: {output.read_text(errors='replace')[-4000:]}"

    def counts() -> Counter[str]:
        assert app.poll() is None, problem()
        found: Counter[str] = Counter()
        for message in read_committed(kafka, target):
            key, count = message.key().decode(), int.from_bytes(message.value())
            assert count > found[key], f"{key}: {count} after {found[key]}"
            found[key] = count
        return found

    load = Load(kafka, source)
    try:
        wait_until(lambda: counts().total() > 0, problem)
        assert cluster.executors() == {"worker-0", "worker-1"}
        cluster.kill_executor(1)
        killed_at = load.sent
        wait_until(lambda: counts().total() > killed_at, problem)
        sent = load.end()
        wait_until(lambda: counts().total() >= sent, problem)
        assert counts() == Counter(str(number % KEYS) for number in range(sent))
    finally:
        load.end()
        app.terminate()
        app.wait(120)
    for part in ("offsets", "commits", "state"):
        assert cluster.store.requests(f"/app/checkpoints/{source}-{target}/{part}/"), part


def environment(directory: Path) -> dict[str, str]:
    """Return the variables of a driver that has no state on this host from another run."""
    found = {**setup.environment(), "XDG_STATE_HOME": str(directory / "home")}
    return {name: text for name, text in found.items() if name not in _OF_LOCAL}


_OF_LOCAL = ("PYSPARK_PYTHON", "SPARK_LOCAL_IP")
"""What `setup.environment`, and an engine in this process, say for executors on this host."""


class StoreRunner(ClusterRunner):
    """A runner whose checkpoints are in the store."""

    def __init__(self, kafka: str, directory: Path, group: str, cluster: Any) -> None:
        file = directory / "runner.properties"
        super().__init__(kafka, directory, group, cluster.master, f"--config={file}")
        properties = cluster.properties()
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self.settings = {"spark.master": cluster.master}
        self.store = f"s3a://{cluster.store.bucket}"
        self.checkpoints = f"{self.store}/checkpoints"
        self.jvm_environment = {"SPARK_SUBMIT_OPTS": setup.environment()["SPARK_SUBMIT_OPTS"]}

    def command(self) -> list[str]:
        env, *rest = super().command()
        return [env, *(f"--unset={name}" for name in _OF_LOCAL), *rest]

    def create(self, name: str, connector: str, **settings: str) -> None:
        config = {
            "connector.class": connector,
            **{k.replace("__", "."): v for k, v in settings.items()},
        }
        assert self.ask("POST", "/connectors", {"name": name, "config": config}).status == 201

    def numbers(self, topic: str) -> list[int]:
        """Return the numbers in a topic, in order."""
        found = read_committed(self.bootstrap, topic)
        return sorted(json.loads(message.value())["number"] for message in found)


def test_copy_and_rows_by_way_of_the_store_are_exact(
    cluster: Any, kafka: str, unique: Any, tmp_path: Path
) -> None:
    """A copy; a sink that writes rows to the store, and a source that reads them from there."""
    source, copy, rows = unique("source"), unique("copy"), unique("rows")
    create(kafka, source, copy, rows)
    runner = StoreRunner(kafka, tmp_path, source, cluster)
    files = {"spark__format": "json", "path": f"{runner.store}/rows", "schema": "number BIGINT"}
    plain = {"value__converter": _JSON, "value__converter__schemas__enable": "false"}
    load = Load(kafka, source)
    try:
        runner.start()
        runner.create(f"{source}-copy", "TopicCopy", topics=source, target__topic=copy)
        runner.create(f"{source}-sink", "SparkSink", topics=source, **files, **plain)
        runner.wait(lambda: bool(runner.numbers(copy)), WAIT_S)
        runner.create(
            f"{source}-source",
            "SparkSource",
            topic=rows,
            checkpoint__location=f"{runner.store}/checkpoints/source",
            **files,
            **plain,
        )
        runner.wait(lambda: bool(runner.numbers(rows)), WAIT_S)
        assert cluster.executors() == {"worker-0", "worker-1"}
        for pid in runner.descendants():
            assert (
                cluster.properties()[_SECRET].encode()
                not in Path(f"/proc/{pid}/cmdline").read_bytes()
            )
        cluster.kill_executor(0)
        killed_at = load.sent
        runner.wait(lambda: len(runner.numbers(copy)) > killed_at, WAIT_S)
        sent = load.end()
        for target in (copy, rows):
            runner.wait(lambda target=target: len(runner.numbers(target)) >= sent, WAIT_S)
            assert runner.numbers(target) == list(range(sent))
    finally:
        load.end()
        runner.stop()
