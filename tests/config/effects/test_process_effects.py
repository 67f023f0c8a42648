"""Properties of the process, observed in its output, files and HTTP endpoint."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from barnabas.testing import Node
from tests.config.effects.observed import observes
from tests.config.effects.wire import create, eventually, node_with

KAFKA = "org.apache.kafka.common"
FILE = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0
controller.listener.names=CONTROLLER
"""


def output_of_a_start(path: Path, **properties: str) -> list[str]:
    """Serve with a file until data directories are formatted, stop, and return the output."""
    file = path / "server.properties"
    data = path / "from-log-dir"
    lines = [f"{name.replace('_', '.')}={value}" for name, value in properties.items()]
    file.write_text(FILE + "\n".join([*lines, f"log.dir={data}", "num.io.threads=3"]))
    command = [sys.executable, "-m", "barnabas", "serve", "--config", str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        # The node is about to be ready once its metadata log exists.
        assert eventually(lambda: list(data.glob("__cluster_metadata-0/*.log")), 60)
        process.terminate()
        _, output = process.communicate(timeout=60)
    return output.splitlines()


@observes("config.providers")
def test_directory_of_the_quorum_is_that_of_a_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BARNABAS_TEST_DIRECTORY", str(tmp_path / "from-environment"))
    providers = {
        "config.providers": "env",
        "config.providers.env.class": f"{KAFKA}.config.provider.EnvVarConfigProvider",
        "metadata.log.dir": "${env:BARNABAS_TEST_DIRECTORY}",
    }
    with Node(config=providers):
        assert (tmp_path / "from-environment" / "__cluster_metadata-0").exists()


@observes("barnabas.log.level", "barnabas.log.format", "log.dir")
def test_output_has_the_level_and_format_and_data_is_in_log_dir(tmp_path: Path) -> None:
    (tmp_path / "json").mkdir()
    entries = [
        json.loads(line)
        for line in output_of_a_start(tmp_path / "json", barnabas_log_format="json")
    ]
    assert {"info", "warning"} <= {entry["level"] for entry in entries}
    text = output_of_a_start(tmp_path, barnabas_log_level="warning")
    assert len(text) == 1, "\n".join(text)
    assert "num.io.threads=3 has no effect" in text[0]
    assert not text[0].startswith("{")


@observes("barnabas.metrics.port", "barnabas.metrics.host")
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_metrics_are_served_at_the_address(host: str) -> None:
    with Node(config={"barnabas.metrics.port": "0", "barnabas.metrics.host": host}) as node:
        assert node.server is not None
        assert eventually(lambda: node.server is not None and node.server.metrics_port)
        url = f"http://{host}:{node.server.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert b"barnabas_" in answer.read()
    with Node() as node:
        assert node.server is not None
        assert node.server.metrics_port is None


@observes("barnabas.slow.request.ms")
def test_slow_request_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    for limit, is_logged in (("0", True), ("-1", False)):
        caplog.clear()
        with node_with({"barnabas.slow.request.ms": limit}) as (_, wire):
            create(wire)
        assert ("slow request api=CreateTopics" in caplog.text) is is_logged
