"""Jobs of Java's Connect worker are taken over by a runner, and given back."""

from pathlib import Path

import pytest

from compat_tests import jars, spark
from compat_tests.pipeline.connect_workers import JavaWorker, RunnerProcess
from compat_tests.pipeline.rest_script import SINK, SOURCE
from compat_tests.servers import ServerProcess

pytestmark = [pytest.mark.timeout(300), pytest.mark.barnabas_only]


class Lines:
    """A file that a source reads, and the file that a sink writes."""

    def __init__(self, directory: Path) -> None:
        self.input = directory / "in.txt"
        self.output = directory / "out.txt"
        self.count = 0

    def append(self, count: int) -> None:
        with self.input.open("a") as file:
            for number in range(self.count, self.count + count):
                file.write(f"line {number}\n")
        self.count += count

    def are_copied(self) -> bool:
        """True when the output has every line."""
        found = self.output.read_text().splitlines() if self.output.exists() else []
        return len(found) >= self.count

    def check(self) -> None:
        """Every line is there once, in order."""
        assert self.output.read_text().splitlines() == [
            f"line {number}" for number in range(self.count)
        ]


def test_jobs_move_to_a_runner_and_back(server: ServerProcess | None, tmp_path: Path) -> None:
    if reason := jars.missing() or spark.missing():
        pytest.skip(reason)
    if server is None:
        pytest.skip("needs a server that this suite starts")
    lines = Lines(tmp_path)
    java = JavaWorker(server.bootstrap, tmp_path, "moving-java", topics="moving")
    ours = RunnerProcess(server.bootstrap, tmp_path, "moving-ours", topics="moving")
    source = {"connector.class": SOURCE, "file": str(lines.input), "topic": "moving-lines"}
    sink = {"connector.class": SINK, "file": str(lines.output), "topics": "moving-lines"}
    try:
        java.start()
        lines.append(50)
        java.ask("POST", "/connectors", {"name": "src", "config": source})
        java.ask("POST", "/connectors", {"name": "snk", "config": sink})
        java.ask("POST", "/connectors", {"name": "off", "config": sink, "initial_state": "STOPPED"})
        java.wait(lines.are_copied)
        java.wait_states("snk", "RUNNING", ["RUNNING"])
        before = java.ask("GET", "/connectors?expand=info").body
        java.stop()

        ours.start()
        lines.append(50)
        assert ours.ask("GET", "/connectors?expand=info").body == before
        ours.wait_states("src", "RUNNING", ["RUNNING"])
        ours.wait_states("off", "STOPPED", [])
        ours.wait(lines.are_copied)
        ours.ask("PUT", "/connectors/src/pause")
        ours.wait_states("src", "PAUSED", ["PAUSED"])
        position = ours.ask("GET", "/connectors/src/offsets").body
        ours.stop()
        lines.check()

        java.start()
        java.wait_states("src", "PAUSED", ["PAUSED"])
        assert java.ask("GET", "/connectors/src/offsets").body == position
        java.ask("PUT", "/connectors/src/resume")
        lines.append(50)
        java.wait(lines.are_copied)
        java.stop()
        lines.check()
    finally:
        java.stop()
        ours.stop()
