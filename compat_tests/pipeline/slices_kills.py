"""Kill cycles of a file source and a file sink: a growing file, a topic, and a file again."""

import threading
from pathlib import Path
from typing import Any

from compat_tests.pipeline.forward_kills import ForwardJob
from compat_tests.pipeline.killed_job import (
    DriverProcess,
    create_topics,
    read_committed,
    wait_until,
)
from compat_tests.servers import ServerProcess

STRING = "org.apache.kafka.connect.storage.StringConverter"
CONVERTERS = {"key.converter": STRING, "value.converter": STRING}


class GrowingFile:
    """A thread that appends numbered lines to a file."""

    def __init__(self, path: Path, per_second: int = 400) -> None:
        self._path = path
        self._pause_s = 0.05
        self._burst = max(1, int(per_second * self._pause_s))
        self._ended = threading.Event()
        self.sent = 0
        path.touch()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._path.open("a") as file:
            while not self._ended.wait(self._pause_s):
                numbers = range(self.sent, self.sent + self._burst)
                file.write("".join(f"{number}\n" for number in numbers))
                file.flush()
                self.sent += self._burst

    def end(self) -> int:
        """Return the number of lines."""
        self._ended.set()
        self._thread.join()
        return self.sent


class FileSourceJob(ForwardJob):
    """A file source under load, with the cycles of a forward job."""

    points = ("begun", "produced", "committed")
    zombie_point = "produced"

    def __init__(self, server: ServerProcess, directory: Path, name: str) -> None:
        self.server = server
        self.name = name
        self.target = f"{name}-target"
        create_topics(server.bootstrap, [self.target], 1)
        create_topics(server.bootstrap, [f"{name}-offsets"])
        file = directory / "lines.txt"
        config = {"file": str(file), "topic": self.target}
        plan = {
            "name": name,
            "generation": 1,
            "kind": "source",
            "bootstrap": server.bootstrap,
            "group_id": name,
            "transactional_id": name,
            "connector_class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "task_configs": [config],
            "properties": {**CONVERTERS, **config},
            "offsets_topic": f"{name}-offsets",
            "transaction_timeout_ms": 10_000,
        }
        self.driver = DriverProcess(directory, {"plan": plan})
        self.load: Any = GrowingFile(file)
        self.driver.start()
        self.driver.wait_for_progress()

    def check(self) -> int:
        """Stop the load; each line must be in the topic once, in the order of the file."""
        sent = self.load.end()
        found: list[int] = []

        def is_complete() -> bool:
            messages = read_committed(self.server.bootstrap, self.target)
            found[:] = [int(message.value()) for message in messages]
            return len(found) >= sent

        wait_until(is_complete, f"{sent} lines", self.driver)
        self.driver.kill()
        assert found == list(range(sent))
        return sent


class FileSinkJob(ForwardJob):
    """A file sink under load, with the cycles of a forward job."""

    def __init__(self, server: ServerProcess, directory: Path, name: str) -> None:
        self.file = directory / "sink.txt"
        super().__init__(server, directory, name)

    def plan(self) -> dict[str, Any]:
        config = {"file": str(self.file), "topics": self.source}
        return {
            **super().plan(),
            "kind": "sink",
            "target_topic": None,
            "connector_class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "task_configs": [config],
            "properties": {**CONVERTERS, **config},
        }

    def replace_driver_of_zombie(self) -> None:
        """Start a driver: it reports the lock of the file, which the suspended worker holds."""
        self.driver.kill()
        self.driver.start()
        wait_until(lambda: bool(self.driver.events("failed")), "failure", self.driver)
        assert "holds the lock" in str(self.driver.events("failed")[0])

    def resume_zombie(self, point: str = "offsets-sent") -> str:
        """Suspend a worker inside a transaction, start a new driver, and resume the worker."""
        found = super().resume_zombie(point)
        self.driver.wait_for_progress()
        return found

    def check_output(self, sent: int) -> None:
        lines = [int(line) for line in self.file.read_text().splitlines()]
        assert sorted(lines) == list(range(sent))
