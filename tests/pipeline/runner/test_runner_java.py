"""A runner with a worker of Java's connectors that cannot start: what a user reads."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.pipeline.spark import class_archive
from barnabas.testing import Node
from tests.pipeline.runner.live_runner import LiveRunner, eventually, live_runner

JAVA = {"connector.class": "org.example.JavaSource", "topic": "t"}
VIEW = {"connector.class": "View", "topics": "t"}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Node() as node:
        yield node.bootstrap


@pytest.fixture(scope="module")
def runner(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveRunner]:
    """A runner on a host without Java."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_archive, "java_command", lambda: None)
        plugins = str(tmp_path_factory.mktemp("plugins"))
        with live_runner(bootstrap, plugin_path=plugins, group_id="no-java") as found:
            eventually(found.is_healthy)
            # A write opens the producer of configurations, which is not a test's own client.
            level = {"level": "INFO"}
            assert found.ask("PUT", "/admin/loggers/x?scope=cluster", level)[0] == 204
            yield found


def refusal(answer: tuple[int, Any]) -> str:
    status, body = answer
    assert status == 503, body
    return str(body["message"])


def test_missing_java_is_named_with_the_package_to_install(runner: LiveRunner) -> None:
    message = refusal(runner.ask("PUT", "/connectors/j/config", JAVA))
    assert message.startswith("The worker of Java's connectors: Java is missing, which")
    assert "install a JDK 17 or 21 (Debian: openjdk-17-jdk); next start in" in message


def test_directory_that_is_missing_is_named(bootstrap: str, tmp_path: Path) -> None:
    path = tmp_path / "none"
    with live_runner(bootstrap, plugin_path=str(path), group_id="no-directory") as found:
        eventually(found.is_healthy)
        message = refusal(found.ask("POST", "/connectors", {"name": "j", "config": JAVA}))
        assert f"plugin.path={path} is not a directory: create it" in message


def test_own_jobs_and_plugins_do_not_need_the_worker(runner: LiveRunner) -> None:
    assert runner.ask("PUT", "/connectors/own/config", VIEW)[0] == 201
    assert runner.ask("GET", "/connectors") == (200, ["own"])
    status, plugins = runner.ask("GET", "/connector-plugins")
    assert status == 200
    assert "barnabas.ViewConnector" in [each["class"] for each in plugins]
    assert runner.ask("DELETE", "/connectors/own")[0] == 204


def test_validation_of_a_java_class_needs_the_worker(runner: LiveRunner) -> None:
    path = "/connector-plugins/org.example.JavaSource/config"
    assert "Java is missing" in refusal(runner.ask("PUT", f"{path}/validate", JAVA))
    assert "Java is missing" in refusal(runner.ask("GET", path))
    assert runner.ask("GET", "/connector-plugins/View/config")[0] == 200


def test_worker_can_be_chosen_by_its_name_only(runner: LiveRunner) -> None:
    status, body = runner.ask("PUT", "/connectors/j/config", {**VIEW, "barnabas.worker": "jvm"})
    assert (status, body["message"]) == (
        400,
        "Invalid value jvm for configuration barnabas.worker: it can be java",
    )


def test_metrics_say_that_the_worker_does_not_run(runner: LiveRunner) -> None:
    with urllib.request.urlopen(f"{runner.url}/metrics") as answer:
        text = answer.read().decode()
    assert "\nbarnabas_pipeline_java_worker_up 0.0\n" in text
    assert "\nbarnabas_pipeline_java_worker_starts_total 0.0\n" in text


def test_class_that_is_not_known_is_refused_without_a_plugin_path(bootstrap: str) -> None:
    with live_runner(bootstrap, group_id="plain") as found:
        eventually(found.is_healthy)
        status, body = found.ask("PUT", "/connectors/j/config", JAVA)
        assert status == 400
        assert body["message"].startswith("Failed to find any class that implements Connector")


def test_runner_on_standby_has_the_active_one_answer(bootstrap: str, tmp_path: Path) -> None:
    """The refusals name the directory of the runner that answered."""
    first, second = ({"plugin.path": str(tmp_path / name)} for name in ("first", "second"))
    with live_runner(bootstrap, group_id="two", more=first) as active:
        eventually(active.is_healthy)
        with live_runner(bootstrap, group_id="two", more=second) as standby:
            eventually(standby.is_healthy)
            for method, path in (
                ("PUT", "/connectors/j/config"),
                ("PUT", "/connector-plugins/org.example.JavaSource/config/validate"),
            ):
                message = refusal(standby.ask(method, path, JAVA))
                assert f"plugin.path={tmp_path}/first is not" in message
            status, plugins = standby.ask("GET", "/connector-plugins")
            assert status == 200
            assert "barnabas.ViewConnector" in [each["class"] for each in plugins]


def test_stored_job_of_java_is_read_while_the_worker_cannot_start(
    bootstrap: str, tmp_path: Path
) -> None:
    """It was created on another host; its states were written by the worker there."""
    records = [
        (b"connector-j", b'{"properties":{"connector.class":"x.J","name":"j","a.password":"p"}}'),
        (b"task-j-0", b'{"properties":{"task.class":"x.T"}}'),
        (b"commit-j", b'{"tasks":1}'),
    ]
    state = b'{"state":"RUNNING","trace":null,"worker_id":"w","generation":1,"version":"7"}'
    statuses = [(b"status-connector-j", state), (b"status-task-j-0", state)]
    write(bootstrap, "stored-configs-java", records)
    write(bootstrap, "stored-status-java", statuses)
    topics = {
        "config.storage.topic": "stored-configs",
        "status.storage.topic": "stored-status",
        "plugin.path": str(tmp_path / "none"),
    }
    with live_runner(bootstrap, group_id="stored", more=topics) as found:
        eventually(found.is_healthy)
        found.wait_states("j", "UNASSIGNED", "UNASSIGNED")
        status, body = found.ask("GET", "/connectors/j/status")
        assert (status, body["type"]) == (200, "source")
        assert "does not run: plugin.path=" in body["tasks"][0]["trace"]
        assert found.ask("GET", "/connectors/j/config")[1]["a.password"] == "[hidden]"
        assert found.ask("GET", "/connectors/j/tasks")[1][0]["config"] == {"task.class": "x.T"}
        assert found.ask("GET", "/connectors") == (200, ["j"])
        assert list(found.ask("GET", "/connectors?expand=info")[1]) == ["j"]
        assert found.ask("GET", "/progress") == (200, {})
        assert found.ask("GET", "/connectors/j/progress")[0] == 404
        assert found.ask("POST", "/connectors", {"name": "j", "config": VIEW})[0] == 409
        assert found.ask("PUT", "/connectors/j/config", VIEW)[0] == 409
        refusal(found.ask("PUT", "/connectors/j/pause"))


def write(bootstrap: str, topic: str, records: list[tuple[bytes, bytes]]) -> None:
    """Write records to a compacted topic with one partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {"cleanup.policy": "compact"}
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(60)
    producer = Producer({"bootstrap.servers": bootstrap})
    for key, value in records:
        producer.produce(topic, value, key)
    assert producer.flush(60) == 0
