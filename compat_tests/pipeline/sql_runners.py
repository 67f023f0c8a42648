"""A runner with SQL that takes scripts as lines, and is started again after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from compat_tests import spark as setup
from compat_tests.pace import WAIT_S, Pace
from compat_tests.pipeline.killed_job import children

T = TypeVar("T")


class LineRunner:
    """The runner process, started again after each kill."""

    url: str
    """The address of Connect's REST API, once the runner has started."""

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        group: str,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.group = group
        self._file = directory / "settings.json"
        self._log = directory / "runner.log"
        self._process: subprocess.Popen[str] | None = None
        names = {kind: f"{group}-{kind}" for kind in ("config", "offset", "status")}
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            **{f"{kind}.storage.topic": name for kind, name in names.items()},
            "offset.storage.partitions": "1",
            "barnabas.sql.enable": "true",
            "barnabas.sql.storage.topic": f"{group}-sql",
            "checkpoint.dir": str(directory / "state"),
            "view.dir": str(directory / "views"),
            "spark.master": "local[2]",
            "spark.sql.shuffle.partitions": "2",
            **setup.INTERPRETED,
            **(properties or {}),
        }
        self._file.write_text(json.dumps(settings))

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "compat_tests.pipeline.sql_runner", str(self._file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=setup.environment(),
            )
        self.url = self._line()["url"]

    def execute(self, script: str) -> list[Any]:
        """Run a script; a runner that has just started may stand by for a moment."""
        until = time.monotonic() + WAIT_S
        while True:
            assert self._process is not None
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(script) + "\n")
            self._process.stdin.flush()
            answers: list[Any] = self._line()["answers"]
            if not any("stands by" in str(each) for each in answers):
                return answers
            assert time.monotonic() < until, answers
            time.sleep(0.2)

    def wait_for(self, found: Callable[[], T], what: str = "") -> T:
        """Return what is found once it is true; after WAIT_S fail with the end of the log."""
        until = time.monotonic() + WAIT_S
        pace = Pace()
        while not (value := found()):
            assert time.monotonic() < until, f"{what}\n{self.tail()}"
            pace.pause()
        return value

    def kill(self) -> None:
        """Kill the runner and its JVM with SIGKILL."""
        assert self._process is not None
        for pid in (*children(self._process.pid), self._process.pid):
            os.kill(pid, signal.SIGKILL)
        self._process.wait()

    @property
    def pid(self) -> int:
        """Return the process id of the runner."""
        assert self._process is not None
        return self._process.pid

    def has_ended(self) -> bool:
        """True when the runner's process has ended by itself or was killed."""
        return self._process is None or self._process.poll() is not None

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-60:])

    def _line(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.tail()
        return json.loads(line)
