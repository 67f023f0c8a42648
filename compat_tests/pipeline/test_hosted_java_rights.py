"""The worker of Java's connectors beside a runner that restarts jobs, on a secured node."""

import base64
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer

from barnabas.http import HttpOptions
from barnabas.http.http_settings import BY_KAFKA
from barnabas.pipeline.java import jvm_guard
from compat_tests import jars, spark
from compat_tests.pipeline.killed_job import children
from tests.pipeline.runner.live_runner import LiveRunner, eventually, live_runner
from tests.secured_node import SecuredNode, add_users, allow, secured_node

pytestmark = [pytest.mark.timeout(300), pytest.mark.barnabas_only]

STRING = "org.apache.kafka.connect.storage.StringConverter"
SECRET = "runner-secret"


@pytest.fixture(scope="module")
def node() -> Iterator[SecuredNode]:
    if reason := jars.missing() or spark.missing():
        pytest.skip(reason)
    with secured_node() as found:
        add_users(found, "runner", "alice", "bob", "watcher", "admin")
        allow(found, "runner", "broker:kafka-cluster", "DESCRIBE", "CREATE", "IDEMPOTENT_WRITE")
        for resource in ("topic", "group", "transactional_id"):
            allow(found, "runner", f"{resource}:*", "ALL")
        allow(found, "alice", "topic:lines", "WRITE")
        allow(found, "bob", "topic:lines", "READ")
        yield found


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rights")


@pytest.fixture(scope="module")
def runner(node: SecuredNode, directory: Path) -> Iterator[LiveRunner]:
    library = jars.kafka_lib()
    assert library is not None
    (jar,) = library.glob("connect-file-*.jar")
    (directory / "plugins").mkdir()
    (directory / "plugins" / jar.name).symlink_to(jar)
    properties = {
        **node.properties("runner", SECRET),
        "barnabas.rest.full.users": "alice,bob,admin",
        "barnabas.rest.authorize": "true",
        "super.users": "User:admin",
        "plugin.path": str(directory / "plugins"),
        "plugin.discovery": "service_load",
        "barnabas.java.options": "-Xmx384m -XX:TieredStopAtLevel=1",
    }
    with live_runner(node.sasl, http=HttpOptions(auth=BY_KAFKA), more=properties) as found:
        eventually(lambda: ask(found, "admin", "GET", "/health")[0] == 200)
        yield found


def ask(runner: LiveRunner, user: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    token = base64.b64encode(f"{user}:{user}-secret".encode()).decode()
    return runner.ask(method, path, body, authorization=f"Basic {token}")


def refusal(answer: tuple[int, Any]) -> str:
    status, body = answer
    assert status == 403, body
    return str(body["message"])


def config(kind: str, directory: Path, **more: str) -> dict[str, str]:
    return {
        "connector.class": f"FileStream{kind}",
        "barnabas.worker": "java",
        "file": str(directory / f"{kind}.txt"),
        "key.converter": STRING,
        "value.converter": STRING,
        **more,
    }


def test_rights_of_the_caller_decide_on_jobs_of_java(runner: LiveRunner, directory: Path) -> None:
    source = config("Source", directory, topic="lines")
    sink = config("Sink", directory, topics="lines")
    place = "/connectors/source/config"
    # Java's sources may write to topics that no property names.
    assert refusal(ask(runner, "alice", "PUT", place, source)).endswith(
        "needs WRITE on the topic * of the job"
    )
    assert ask(runner, "admin", "PUT", place, source)[0] == 201
    assert "READ on the topic lines" in refusal(
        ask(runner, "alice", "PUT", "/connectors/sink/config", sink)
    )
    assert ask(runner, "bob", "PUT", "/connectors/sink/config", sink)[0] == 201
    for user in ("alice", "watcher"):
        for method, path in (
            ("PUT", "/connectors/source/pause"),
            ("PUT", "/connectors/source/stop"),
            ("POST", "/connectors/source/restart"),
            ("DELETE", "/connectors/source"),
            ("DELETE", "/connectors/source/offsets"),
        ):
            refusal(ask(runner, user, method, path))
        refusal(ask(runner, user, "PATCH", place, {"topic": "other"}))
        assert ask(runner, user, "GET", place)[0] == 200


def test_worker_logs_in_as_the_runner_and_its_connectors_do(
    runner: LiveRunner, node: SecuredNode, directory: Path
) -> None:
    (directory / "Source.txt").write_text("one\ntwo\n")
    found: list[bytes] = []
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "r", "auto.offset.reset": "earliest"}
    )

    def are_read() -> bool:
        found.extend(each.value() for each in consumer.consume(10, 0.2) if each.error() is None)
        return len(found) == 2

    consumer.subscribe(["lines"])
    try:
        eventually(are_read, lambda: ask(runner, "admin", "GET", "/connectors/source/status"))
    finally:
        consumer.close()
    assert found == [b"one", b"two"]
    output = directory / "Sink.txt"
    eventually(lambda: output.exists() and output.read_text() == "one\ntwo\n")


def test_secrets_of_the_worker_are_in_private_files_only(runner: LiveRunner) -> None:
    processes = [pid for guard in guards() for pid in (guard, *children(guard))]
    assert len(processes) == 2
    for pid in processes:
        assert SECRET.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert SECRET.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    words = Path(f"/proc/{processes[0]}/cmdline").read_text().split("\0")
    private = Path(words[words.index(jvm_guard.__file__) + 1])
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    files = list(private.iterdir())
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}
    assert any(SECRET in each.read_text() for each in files)


def guards() -> list[int]:
    """Return the children of this process that guard a JVM."""
    return [
        pid
        for pid in children(os.getpid())
        if b"jvm_guard" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def test_requests_past_the_runner_are_refused_by_the_worker(runner: LiveRunner) -> None:
    status = ask(runner, "admin", "GET", "/connectors/source/status")[1]
    worker = status["connector"]["worker_id"]
    assert worker.startswith("127.0.0.1:")
    for path in ("/", "/connectors", "/connectors/source/config", "/admin/loggers"):
        with pytest.raises(HTTPError) as caught:
            urlopen(f"http://{worker}{path}")
        assert caught.value.code == 401


def test_failed_task_is_restarted_when_its_cause_has_passed(
    runner: LiveRunner, directory: Path
) -> None:
    output = directory / "later" / "out.txt"
    given = {**config("Sink", directory, topics="lines"), "file": str(output)}
    assert ask(runner, "admin", "PUT", "/connectors/fails/config", given)[0] == 201

    def state() -> str:
        status, found = ask(runner, "admin", "GET", "/connectors/fails/status")
        return found["tasks"][0]["state"] if status == 200 and found["tasks"] else ""

    eventually(lambda: state() == "FAILED", state)
    output.parent.mkdir()
    eventually(lambda: state() == "RUNNING", state)
    eventually(lambda: output.exists() and output.read_text() == "one\ntwo\n")
