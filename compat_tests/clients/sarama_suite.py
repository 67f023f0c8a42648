"""`python -m compat_tests.clients.sarama_suite`: sarama's functional tests on five nodes.

The tests reach the nodes through toxiproxy, cut connections, and stop and start nodes. They expect
fixed ports, so all of it runs in a network namespace, which needs root. The exit status is 1 when
a test fails.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compat_tests import jars
from compat_tests.clients.compose_stand_in import ComposeStandIn
from compat_tests.clients.outcomes import counts, failures, of_go
from compat_tests.clients.three_nodes import keep_logs

BINARIES = jars.ROOT / ".cache" / "sarama"
_NODES = range(1, 6)
_PORT = 29090
"""A node N has this port + N, the first that the tests know."""
_PROXY_PORT = 8474
_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
_TIMEOUT_S = 1200
_FUNCTIONAL = re.compile(r"^func (Test\w+)\(", re.MULTILINE)
_CONFIG = {
    "process.roles": "broker,controller",
    "listener.security.protocol.map": (
        "LISTENER_INTERNAL:PLAINTEXT,LISTENER_LOCAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
    ),
    "inter.broker.listener.name": "LISTENER_INTERNAL",
    "controller.listener.names": "CONTROLLER",
    "default.replication.factor": "2",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
}


def missing(server: str) -> str | None:
    """Return in one line why the suite cannot run here, or None."""
    if not (BINARIES / ".built").exists():
        return "sarama's suite is missing: install go 1.26"
    if server == "kafka" and (reason := jars.missing()):
        return reason
    if os.geteuid() != 0:
        return "a network namespace needs root: run it as root"
    for program in ("ip", "unshare"):
        if shutil.which(program) is None:
            return f"{program} is missing (Debian: apt install iproute2 util-linux)"
    return None


def properties(node_id: int, directory: Path) -> dict[str, str]:
    """Return the properties of a node, which has its own address."""
    host, port = f"127.0.1.{node_id}", _PORT + node_id
    inner, controller = f"LISTENER_INTERNAL://{host}:9091", f"CONTROLLER://{host}:9093"
    return {
        **_CONFIG,
        "node.id": str(node_id),
        "broker.rack": str(node_id),
        "log.dirs": str(directory / f"data-{node_id}"),
        "listeners": f"{inner},LISTENER_LOCAL://{host}:{port},{controller}",
        "advertised.listeners": f"{inner},LISTENER_LOCAL://localhost:{port}",
        "controller.quorum.voters": ",".join(f"{each}@127.0.1.{each}:9093" for each in _NODES),
    }


def command(server: str, file: Path) -> list[str]:
    """Format the directories of a node; return the command that starts it."""
    if server == "kafka":
        jars.java("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(file))
        options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", *jars.archive_options()]
        options += jars.LOG_OPTIONS
        return ["java", *options, "-cp", jars.classpath(), "kafka.Kafka", str(file)]
    barnabas = [sys.executable, "-m", "barnabas"]
    identity = ["--cluster-id", _CLUSTER_ID, "--config", str(file)]
    subprocess.run([*barnabas, "format", *identity], check=True, stdout=subprocess.DEVNULL)
    return [*barnabas, "serve", "--config", str(file)]


@contextmanager
def cluster(server: str, directory: Path) -> Iterator[ComposeStandIn]:
    """Run five nodes, and the program `docker` that stops and starts them."""
    commands: dict[int, list[str]] = {}
    for node_id in _NODES:
        file = directory / f"{node_id}.properties"
        lines = [f"{name}={value}" for name, value in properties(node_id, directory).items()]
        file.write_text("\n".join(lines) + "\n")
        commands[node_id] = command(server, file)
    nodes = ComposeStandIn(directory, commands)
    try:
        nodes.start()
        yield nodes
    finally:
        nodes.close()


@contextmanager
def proxies(directory: Path) -> Iterator[None]:
    """Run toxiproxy in front of the nodes."""
    file = directory / "proxies.json"
    each = (
        f'{{"name": "kafka{n}", "listen": "127.0.0.1:{_PORT + n}", '
        f'"upstream": "127.0.1.{n}:{_PORT + n}", "enabled": true}}'
        for n in _NODES
    )
    file.write_text(f"[{', '.join(each)}]")
    address = ["-host", "127.0.0.1", "-port", str(_PROXY_PORT), "-config", str(file)]
    with (directory / "proxies.log").open("wb") as log:
        process = subprocess.Popen([BINARIES / "toxiproxy", *address], stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def run(server: str) -> bool:
    """Run the suite in this network namespace; return True when no test fails."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    source = Path((BINARIES / "sarama.folder").read_text().strip())
    files = sorted(source.glob("functional*_test.go"))
    names = sorted({name for file in files for name in _FUNCTIONAL.findall(file.read_text())})
    with tempfile.TemporaryDirectory(prefix="sarama-") as scratch:
        directory = Path(scratch)
        with cluster(server, directory) as nodes, proxies(directory):
            nodes.await_ready({n: (f"127.0.1.{n}", _PORT + n) for n in _NODES})
            done = subprocess.run(
                [
                    BINARIES / "sarama.test",
                    "-test.v",
                    f"-test.timeout={_TIMEOUT_S}s",
                    f"-test.run=^({'|'.join(names)})$",
                ],
                cwd=source,
                env={
                    **os.environ,
                    "PATH": f"{nodes.programs}:{os.environ['PATH']}",
                    "TOXIPROXY_ADDR": f"http://127.0.0.1:{_PROXY_PORT}",
                    "KAFKA_VERSION": "4.3.0",
                },
                capture_output=True,
                text=True,
                check=False,
            )
            outcomes = of_go(done.stdout)
            is_complete = done.stdout.rstrip().endswith("PASS")
            print(f"sarama on {server}: {counts(outcomes)}", flush=True)
            if is_complete:
                return True
            print(failures(outcomes) or done.stdout[-4000:], flush=True)
            keep_logs(nodes.logs())
    return False


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.clients.sarama_suite")
    parser.add_argument("--server", nargs="+", choices=("barnabas", "kafka"), default=["barnabas"])
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        return 0 if run(given.inside) else 1
    for server in given.server:
        if reason := missing(server):
            parser.error(reason)
    program = [sys.executable, "-m", "compat_tests.clients.sarama_suite", "--inside"]
    return max(
        subprocess.run(["unshare", "--net", *program, server], check=False).returncode
        for server in given.server
    )


if __name__ == "__main__":
    sys.exit(main())
