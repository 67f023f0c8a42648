"""Existing clients of Connect's REST API work with a runner.

`kafka-connect-cli` cannot be installed beside them: it has a module of the same name.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests import spark
from compat_tests.pipeline.connect_workers import RunnerProcess
from compat_tests.servers import ServerProcess

pytestmark = [pytest.mark.timeout(200), pytest.mark.barnabas_only]

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


@pytest.fixture(scope="module")
def runner(
    server: ServerProcess | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunnerProcess]:
    """A runner for all tests of this module."""
    if reason := spark.missing():
        pytest.skip(reason)
    if server is None:
        pytest.skip("needs a server that this suite starts")
    found = RunnerProcess(server.bootstrap, tmp_path_factory.mktemp("clients"), "clients")
    found.start()
    yield found
    found.stop()


@pytest.fixture
def config(runner: RunnerProcess, tmp_path: Path) -> dict[str, str]:
    """The configuration of a source."""
    file = tmp_path / "in.txt"
    file.write_text("one\ntwo\n")
    return {"connector.class": SOURCE, "file": str(file), "topic": "clients-lines"}


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_kafka_connect_py(runner: RunnerProcess, config: dict[str, str]) -> None:
    kafka_connect = pytest.importorskip("kafka_connect")
    client = kafka_connect.KafkaConnect(url=runner.url)
    assert client.get_cluster_info()["version"] == "4.3.0"
    created = client.create_connector({"name": "py", "config": config})
    assert created["type"] == "source"
    runner.wait_states("py", "RUNNING", ["RUNNING"])
    assert client.get_connector_task_status("py", 0)["state"] == "RUNNING"
    assert client.list_connectors(pattern="p.*", state="running") != {}
    assert client.get_connector_config("py")["file"] == config["file"]
    updated = client.update_connector("py", {**config, "tasks.max": "1"})
    assert updated["config"]["tasks.max"] == "1"
    client.pause_connector("py")
    eventually(lambda: client.get_connector_status("py")["connector"]["state"] == "PAUSED")
    client.resume_connector("py")
    client.restart_connector("py", include_tasks=True)
    eventually(lambda: client.get_connector_status("py")["connector"]["state"] == "RUNNING")
    assert client.list_connector_tasks("py")[0]["id"] == {"connector": "py", "task": 0}
    client.restart_connector_task("py", 0)
    assert "py" in client.list_connector_topics("py")
    client.reset_connector_topics("py")
    assert SOURCE in [each["class"] for each in client.list_connector_plugins()]
    validated = client.validate_connector_config("FileStreamSource", {**config, "name": "py"})
    assert validated["error_count"] == 0
    client.stop_connector("py")
    eventually(lambda: client.get_connector_status("py")["connector"]["state"] == "STOPPED")
    client.delete_connector("py")
    assert "py" not in client.list_connectors()


def test_kafka_connect_api(runner: RunnerProcess, config: dict[str, str]) -> None:
    api = pytest.importorskip("kafka_connect_api.kafka_connect_api")
    client = api.Api("127.0.0.1", runner.port)
    cluster = api.Cluster(client)
    assert cluster.version == "4.3.0"
    assert client.post("/connectors", json={"name": "api", "config": config})["name"] == "api"
    connector = cluster.connectors["api"]
    runner.wait_states("api", "RUNNING", ["RUNNING"])
    assert [task.state for task in connector.tasks] == ["RUNNING"]
    assert connector.connector_class == SOURCE
    connector.config = {**connector.config, "tasks.max": "1"}
    assert connector.config["tasks.max"] == "1"
    connector.pause()
    eventually(lambda: connector.state == "PAUSED")
    connector.resume()
    eventually(lambda: connector.state == "RUNNING")
    connector.restart()
    cluster.root_logger = "INFO"
    assert cluster.loggers["root"]["level"] == "INFO"
    connector.delete()
    eventually(lambda: "api" not in cluster.connectors)
