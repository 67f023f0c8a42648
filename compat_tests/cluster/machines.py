"""Nodes as docs/cluster.md sets them up: a properties file, `barnabas format`, `barnabas serve`."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from barnabas.log.checkpoints import META_PROPERTIES, MetaProperties
from barnabas.testing.process import NodeProcess

BOTH_ROLES = "broker,controller"


class Machine(NodeProcess):
    """One machine of a cluster: its properties are in a file, and its data in one directory.

    `source` is a directory with the code to run, in place of the code under test.
    """

    def __init__(
        self,
        directory: Path,
        node_id: int,
        ports: tuple[int, int],
        quorum: str,
        properties: Mapping[str, str],
        *,
        roles: str = BOTH_ROLES,
    ) -> None:
        super().__init__(directory / f"data-{node_id}")
        self.node_id = node_id
        self.port, self.controller_port = ports
        self.source: Path | None = None
        self.file = directory / f"server-{node_id}.properties"
        listeners = f"PLAINTEXT://127.0.0.1:{self.port}"
        if "controller" in roles:
            listeners += f",CONTROLLER://127.0.0.1:{self.controller_port}"
        stated = {
            "process.roles": roles,
            "node.id": str(node_id),
            "listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.quorum.bootstrap.servers": quorum,
            "log.dirs": str(self.data),
            **properties,
        }
        self.file.write_text("".join(f"{name}={value}\n" for name, value in stated.items()))

    def format(self, cluster_id: str, *options: str) -> None:
        """Format the directory with the cluster's id."""
        barnabas("format", "--config", str(self.file), "--cluster-id", cluster_id, *options)

    @property
    def stored(self) -> MetaProperties:
        """The ids in the node's directory."""
        return MetaProperties.decode((Path(self.data) / META_PROPERTIES).read_bytes())

    @property
    def voter(self) -> str:
        """The node as `barnabas cluster voters add` takes it."""
        address = f"127.0.0.1:{self.controller_port}"
        return f"{self.node_id}@{address}:{self.stored.directory_id}"

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "barnabas", "serve", "--config", str(self.file)]

    def _environment(self) -> Mapping[str, str]:
        own = super()._environment()
        return own if self.source is None else {**own, "PYTHONPATH": str(self.source)}


def barnabas(*arguments: str, bootstrap: str = "") -> str:
    """Run a command as a person does, and return its output. Raises AssertionError if it fails."""
    command = [sys.executable, "-m", "barnabas", *arguments]
    environment = {**os.environ, "BARNABAS_BOOTSTRAP": bootstrap} if bootstrap else None
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=120, check=False
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout
