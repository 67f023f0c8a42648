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
from compat_tests.pipeline import separate_hosts
from compat_tests.pipeline.killed_job import read_committed
from compat_tests.servers import KINDS

_MISSING = separate_hosts.missing()
pytestmark = [
    setup.needed,
    setup.long,
    pytest.mark.skipif(_MISSING is not None, reason=_MISSING or ""),
    pytest.mark.timeout(900),
]
KEYS = 5
_WAIT_S = 400.0
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_STRING = "org.apache.kafka.connect.storage.StringConverter"


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
    """Numbers that a thread sends to a topic until it is told to stop."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.sent = 0
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._topic = topic
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.05):
            for _ in range(10):
                value = json.dumps({"number": self.sent})
                self._producer.produce(self._topic, value, str(self.sent % KEYS))
                self.sent += 1
            self._producer.poll(0)

    def end(self) -> int:
        """Return how many numbers are sent and stored."""
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        return self.sent


def create(bootstrap: str, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for each in admin.create_topics([NewTopic(name, 2, 1) for name in names]).values():
        each.result(30)


def wait_until(condition: Callable[[], bool], problem: Callable[[], str]) -> None:
    deadline = time.monotonic() + _WAIT_S
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
        assert cluster.store.requests(f"/app/checkpoints/{target}/{part}/"), part


def environment(directory: Path) -> dict[str, str]:
    """Return the variables of a driver that has no state on this host from another run."""
    found = {**setup.environment(), "XDG_STATE_HOME": str(directory / "home")}
    return {name: text for name, text in found.items() if name not in _OF_LOCAL}


_OF_LOCAL = ("PYSPARK_PYTHON", "SPARK_LOCAL_IP")
"""What `setup.environment` says of a driver whose executors are on this host."""
