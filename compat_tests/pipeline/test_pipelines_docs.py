"""The quickstart of docs/pipelines.md, run unchanged except for ports and directories."""

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests import spark
from compat_tests.servers import BarnabasProcess, free_ports

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.barnabas_only,
    pytest.mark.skipif(spark.missing() is not None, reason=spark.missing() or ""),
]

PAGE = (Path(__file__).parents[2] / "docs" / "pipelines.md").read_text()
TIMEOUT_S = 90


class ServedPipelines(BarnabasProcess):
    """`barnabas serve --pipelines`."""

    def __init__(self) -> None:
        super().__init__()
        self.url = f"http://127.0.0.1:{free_ports()[0]}"

    def command(self) -> list[str]:
        listen = self.url.removeprefix("http://")
        return [*super().command(), "--pipelines", "--pipelines-listen", listen]


@pytest.fixture
def served() -> Iterator[ServedPipelines]:
    process = ServedPipelines()
    process.start()
    yield process
    process.stop()
    process.close()


def quickstart() -> str:
    return PAGE.partition("## Quickstart")[2].partition("\n## ")[0]


def commands() -> list[list[str]]:
    """Return the `barnabas job` commands of the quickstart."""
    lines = re.findall(r"^\$ barnabas (job .*)$", quickstart(), re.MULTILINE)
    return [shlex.split(line) for line in lines]


def write_files(directory: Path) -> None:
    """Write the page's files; what they name in /tmp is in the directory."""
    blocks = re.findall(r"`(\w+\.json)`.*?```json\n(.*?)```", quickstart(), re.DOTALL)
    assert [name for name, _ in blocks] == ["source.json", "sink.json"]
    for name, text in blocks:
        (directory / name).write_text(text.replace("/tmp/", f"{directory}/"))


def test_quickstart_copies_each_line_once(served: ServedPipelines, tmp_path: Path) -> None:
    write_files(tmp_path)
    lines = [f"GET /{number}" for number in range(100)]
    (tmp_path / "access.log").write_text("".join(f"{line}\n" for line in lines))
    environment = {**os.environ, "BARNABAS_PIPELINES": served.url}
    wait_ready(served)
    outputs = []
    for command in commands():
        done = subprocess.run(
            [sys.executable, "-m", "barnabas", *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr + served.log_tail()
        outputs.append(done.stdout)
    assert "access-copy" in outputs[-2]
    copy = tmp_path / "access-copy.log"
    deadline = time.monotonic() + TIMEOUT_S
    while not copy.exists() or len(copy.read_text().splitlines()) < len(lines):
        assert time.monotonic() < deadline, served.log_tail()
        time.sleep(0.3)
    assert copy.read_text().splitlines() == lines


def wait_ready(served: ServedPipelines) -> None:
    """Wait until the runner answers: the commands of a person come later than those of a test."""
    deadline = time.monotonic() + TIMEOUT_S
    while "Spark started" not in served.log_tail(500):
        assert time.monotonic() < deadline, served.log_tail()
        time.sleep(0.3)
