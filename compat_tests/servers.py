"""Servers as separate processes: start, wait until ready, kill, restart."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from barnabas.testing.free_ports import free_ports
from compat_tests import jars
from compat_tests.client_security import ClientSecurity

_HOST = "127.0.0.1"
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 90.0
# ApiVersions v0, correlation id 1, null client id: the smallest request to a ready server.
PROBE = struct.pack(">ihhih", 10, 18, 0, 1, -1)
# The few members of these groups join within moments; waiting three seconds for more is not needed.
FAST_GROUPS = {"group.initial.rebalance.delay.ms": "300"}
# Tests write old timestamps, which a check of retention would delete: the first one is a day away.
KEPT_RECORDS = {
    "log.initial.task.delay.ms": "86400000",
    "log.retention.check.interval.ms": "86400000",
}


def answers(port: int, security: ClientSecurity | None = None) -> bool:
    """True when a Kafka server answers on the port, which is one of TLS where security is given."""
    try:
        with socket.create_connection((_HOST, port), timeout=2) as plain:
            connection = plain if security is None else security.tls(plain, _HOST)
            with connection:
                connection.sendall(PROBE)
                return len(connection.recv(4)) == 4
    except OSError:
        return False


class ServerProcess:
    """One server process; its data directory survives it.

    The port stays the same over restarts, so connected clients find it again.
    """

    kind = ""

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="barnabas-compat-"))
        self.data = self.directory / "data"
        self.log_file = self.directory / "server.log"
        self.port, self.controller_port = free_ports(2)
        self.properties = {**FAST_GROUPS, **KEPT_RECORDS, **(properties or {})}
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None, "the server is not running"
        return self.process.pid

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """Return the variables of the process."""
        return {**os.environ, "PYTHONUNBUFFERED": "1"}

    def start(self) -> None:
        """Start the process and wait until it answers."""
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment(),
            )
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not answers(self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                status = self.process.poll()
                self.kill()
                raise AssertionError(f"{self.kind} did not start ({status}):\n{self.log_tail()}")
            time.sleep(0.05)

    def log_tail(self, lines: int = 60) -> str:
        text = self.log_file.read_text(errors="replace") if self.log_file.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def stop(self) -> int:
        """Stop the process with SIGTERM; return its exit status."""
        assert self.process is not None
        self.process.terminate()
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self.process = None

    def close(self) -> None:
        """Kill the process and remove its data."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


@contextmanager
def started(*servers: ServerProcess) -> Iterator[None]:
    """Run servers; close them at the end."""
    try:
        for server in servers:
            server.start()
        yield
    finally:
        for server in servers:
            server.close()


class BarnabasProcess(ServerProcess):
    """`barnabas serve`, as a user runs it."""

    kind = "barnabas"

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(properties)
        # --listen would use the next port for the controller, which may be taken.
        controller = f"CONTROLLER://127.0.0.1:{self.controller_port}"
        self.listeners = f"PLAINTEXT://{self.bootstrap},{controller}"

    def command(self) -> list[str]:
        properties = {"listeners": self.listeners, **self.properties}
        settings = [f"--set={name}={value}" for name, value in properties.items()]
        return [sys.executable, "-m", "barnabas", "serve", "--data", str(self.data), *settings]


class KafkaProcess(ServerProcess):
    """Apache Kafka from its jars: one node with both roles, formatted as in its quick start.

    Each has another cluster id, as a flow refuses to copy a cluster to itself.
    """

    kind = "kafka"

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(properties)
        self.properties_file = self.directory / "server.properties"

    def write_properties(self) -> None:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://{self.bootstrap},"
            f"CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap},"
            f"CONTROLLER://127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **self.properties,
        }
        lines = [f"{name}={value}" for name, value in settings.items()]
        self.properties_file.write_text("\n".join(lines) + "\n")

    def start(self) -> None:
        self.write_properties()
        if not (self.data / "meta.properties").exists():
            file = str(self.properties_file)
            identity = ["-t", f"MkU3OEVBNTcwNTJ{self.controller_port:06d}g", "--standalone"]
            jars.java("kafka.tools.StorageTool", "format", *identity, "-c", file)
        super().start()

    def command(self) -> list[str]:
        options = ["-Xmx512m", *jars.SHORT_LIVED, *jars.archive_options(), *jars.LOG_OPTIONS]
        path = ["-cp", jars.classpath()]
        return ["java", *options, *path, "kafka.Kafka", str(self.properties_file)]


KINDS: dict[str, type[ServerProcess]] = {"barnabas": BarnabasProcess, "kafka": KafkaProcess}
