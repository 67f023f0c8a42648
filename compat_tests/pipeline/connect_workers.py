"""Workers that serve Connect's REST API: Java's of Apache Kafka, and a runner of barnabas."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from barnabas.testing.free_ports import free_ports
from compat_tests import jars
from compat_tests.spark import FIRST_COMPILER_ONLY

_START_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 90.0
_POLL_S = 0.3
_STRING = "org.apache.kafka.connect.storage.StringConverter"


class Response(NamedTuple):
    """Status, headers and JSON body of a response; a text that is not JSON stays a text."""

    status: int
    headers: dict[str, str]
    body: Any


class ConnectWorker:
    """One worker process on its own port."""

    kind = ""
    jvm_environment: Mapping[str, str] = {}
    """Environment variables of the worker's JVM."""

    def __init__(
        self, bootstrap: str, directory: Path, group: str, *, topics: str | None = None
    ) -> None:
        """`topics` is the prefix of Connect's topics: workers of two groups may share them."""
        self.bootstrap = bootstrap
        self.directory = directory
        self.group = group
        self.topics = topics or group
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_file = directory / f"{self.kind}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._last: Response | None = None

    def properties(self) -> dict[str, str]:
        """Return the settings that both kinds have."""
        return {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "config.storage.topic": f"{self.topics}-configs",
            "offset.storage.topic": f"{self.topics}-offsets",
            "status.storage.topic": f"{self.topics}-status",
            "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "key.converter": _STRING,
            "value.converter": _STRING,
        }

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        """Start the process and wait until it is healthy."""
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", **self.jvm_environment}
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        self.wait(lambda: self._is_healthy(), _START_TIMEOUT_S)

    def _is_healthy(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"{self.kind} ended:\n{self.log_tail()}"
        try:
            return self.ask("GET", "/health").status == 200
        except OSError:
            return False

    def log_tail(self, lines: int = 60) -> str:
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        accept: str = "application/json",
    ) -> Response:
        """Return the response to a request; `raw` is a body that need not be JSON."""
        data = raw if raw is not None or body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": accept}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                self._last = _response(answer.status, dict(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            self._last = _response(error.code, dict(error.headers), error.read())
        return self._last

    def wait(self, condition: Callable[[], bool], timeout_s: float = 180.0) -> None:
        """Wait until a condition holds; a member that never comes back is awaited for 45 s."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, (
                f"{self.kind}: the last response was {self._last}\n{self.log_tail()}"
            )
            time.sleep(_POLL_S)

    def wait_states(self, name: str, connector: str, tasks: list[str]) -> None:
        """Wait until a connector and its tasks have certain states."""

        def has_states() -> bool:
            found = self.ask("GET", f"/connectors/{name}/status")
            if found.status != 200:
                return False
            states = [each["state"] for each in found.body["tasks"]]
            return (found.body["connector"]["state"], states) == (connector, tasks)

        self.wait(has_states)

    def settle(self, sink: str, tasks: int) -> None:
        """Wait until a sink runs, before its configuration changes again."""

        def runs() -> bool:
            found = self.ask("GET", f"/connectors/{sink}/status")
            parts = [found.body["connector"], *found.body["tasks"]] if found.status == 200 else []
            return len(parts) > 1 and all(each["state"] == "RUNNING" for each in parts)

        self.wait(runs)

    def stop(self) -> None:
        """Stop the process."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


def _response(status: int, headers: dict[str, str], data: bytes) -> Response:
    text = data.decode(errors="replace")
    try:
        body = json.loads(text) if text else None
    except ValueError:
        body = text
    return Response(status, {name.lower(): value for name, value in headers.items()}, body)


class JavaWorker(ConnectWorker):
    """Connect's distributed worker of Apache Kafka."""

    kind = "java"
    plugins: Path | None = None
    """A directory of directories with the jars of connectors."""

    def properties(self) -> dict[str, str]:
        found = super().properties()
        if self.plugins is not None:
            found |= {"plugin.path": str(self.plugins), "plugin.discovery": "service_load"}
        return found

    def settle(self, sink: str, tasks: int) -> None:
        """Wait until the tasks of a sink are the members of a stable group.

        When Java's worker stops a task whose consumer has requested a member id and does not have
        it yet, the consumer cannot leave the group. The member that never comes back then holds up
        the group's next generation until its session ends, which takes 45 seconds.
        """
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        group = f"connect-{sink}"

        def is_stable() -> bool:
            found = admin.describe_consumer_groups([group])[group].result(30)
            return (found.state, len(found.members)) == (ConsumerGroupState.STABLE, tasks)

        self.wait(is_stable)
        self.wait_states(sink, "RUNNING", ["RUNNING"] * tasks)

    def command(self) -> list[str]:
        file = self.directory / "java-worker.properties"
        settings = {
            **self.properties(),
            "listeners": self.url,
            "exactly.once.source.support": "enabled",
            "offset.flush.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "1000",
        }
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        options = ["-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        options += [*jars.archive_options(), *jars.LOG_OPTIONS]
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        return ["java", *options, "-cp", jars.classpath(), main, str(file)]


class RunnerProcess(ConnectWorker):
    """`barnabas pipelines`, which does not restart failed jobs."""

    kind = "barnabas"
    jvm_environment = FIRST_COMPILER_ONLY

    def command(self) -> list[str]:
        settings = {**self.properties(), "barnabas.restart.max": "0"}
        return [
            *(sys.executable, "-m", "barnabas", "pipelines", "--listen", f"127.0.0.1:{self.port}"),
            *(f"--set={name}={value}" for name, value in settings.items()),
            "--spark=spark.master=local[2]",
        ]
