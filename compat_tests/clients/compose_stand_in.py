"""A program `docker` for suites that stop and start nodes by `docker compose`.

It knows `stop`, `start` and `logs` of a service `kafka-N`; the nodes are processes of this machine.
"""

import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_READY_TIMEOUT_S = 120.0
_DOCKER = """#!/bin/sh
# docker compose stop|start|logs [options] kafka-N
verb=$2
for name; do :; done
cd {directory} && node=${{name#kafka-}} || exit
case $verb in
stop)
  pid=$(cat "$node.pid") && kill "$pid" || exit
  for attempt in $(seq 300); do kill -0 "$pid" 2>/dev/null || exit 0; sleep 0.1; done
  kill -9 "$pid" ;;
start) sh "start-$node" ;;
logs) cat "$node.log" ;;
*) echo "docker compose $verb is not known here" >&2; exit 1 ;;
esac
"""
_START = """cd {directory}
setsid {command} >>{node_id}.log 2>&1 </dev/null &
echo $! >{node_id}.pid
"""


class ComposeStandIn:
    """Nodes by id, each with its command; `programs` is the directory of the program `docker`."""

    def __init__(self, directory: Path, commands: Mapping[int, list[str]]) -> None:
        self._directory = directory
        self._nodes = list(commands)
        self.programs = directory / "programs"
        self.programs.mkdir()
        docker = self.programs / "docker"
        docker.write_text(_DOCKER.format(directory=shlex.quote(str(directory))))
        docker.chmod(0o755)
        for node_id, command in commands.items():
            text = _START.format(
                directory=shlex.quote(str(directory)),
                command=shlex.join(map(str, command)),
                node_id=node_id,
            )
            (directory / f"start-{node_id}").write_text(text)

    def start(self) -> None:
        """Start all nodes."""
        for node_id in self._nodes:
            subprocess.run(["sh", self._directory / f"start-{node_id}"], check=True)

    def await_ready(self, addresses: Mapping[int, tuple[str, int]]) -> None:
        """Wait until each node accepts connections. Raises AssertionError with its log."""
        deadline = time.monotonic() + _READY_TIMEOUT_S
        for node_id, address in addresses.items():
            while not _accepts(address):
                assert time.monotonic() < deadline, self.logs()[node_id][-4000:]
                time.sleep(0.1)

    def logs(self) -> dict[int, str]:
        """Return the nodes' logs by node id."""
        files = {node_id: self._directory / f"{node_id}.log" for node_id in self._nodes}
        return {node_id: file.read_text(errors="replace") for node_id, file in files.items()}

    def close(self) -> None:
        """Kill the nodes that run, by their process ids."""
        for node_id in self._nodes:
            file = self._directory / f"{node_id}.pid"
            if file.exists():
                with suppress(ProcessLookupError):
                    os.kill(int(file.read_text()), signal.SIGKILL)


def _accepts(address: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(address, timeout=2):
            return True
    except OSError:
        return False
