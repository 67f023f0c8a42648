"""Three nodes as separate processes: barnabas, or Apache Kafka from its jars.

Both kinds have the same interface: `nodes[1].kill()`, `nodes[1].start()`, `bootstrap`.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, Self

from barnabas.protocol.types import Uuid
from barnabas.server.node_group.group_plan import internal_topics
from barnabas.testing.eventually import wait_until
from barnabas.testing.free_ports import free_ports
from barnabas.testing.known_brokers import wait_until_known
from barnabas.testing.process import ClusterProcess
from barnabas.testing.process_group import NodeControl, kill_together, start_together
from compat_tests import jars
from compat_tests.client_security import ClientSecurity, credentials, protect, security_of
from compat_tests.cluster.pair_proxy import PairProxy, Route, proxied_config
from compat_tests.cluster.secured import USERS, Security
from compat_tests.servers import answers

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_KAFKA_START_S = 90.0


class TrialNode(NodeControl, Protocol):
    """A node of a cluster under trial."""

    @property
    def pid(self) -> int: ...
    def start(self) -> object: ...
    def suspend(self) -> None: ...
    def resume(self) -> None: ...
    def stop(self) -> int: ...


class TrialCluster:
    """A cluster under trial; `addresses` are those for clients, by node id."""

    name = ""

    def __init__(self, addresses: Mapping[int, str], data: Path) -> None:
        self.addresses = dict(addresses)
        self.data = data
        self.nodes: dict[int, TrialNode] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses.values())

    def start(self) -> None:
        """Start the nodes that do not run; return when all serve clients and name each other."""
        launched = {i: node for i, node in self.nodes.items() if not node.is_running}
        start_together(launched.values())
        client = credentials(self.bootstrap)
        wait_until_known({node_id: self.addresses[node_id] for node_id in launched}, client)

    def kill_all(self) -> None:
        kill_together(self.nodes.values())

    def directory(self, node_id: int) -> Path:
        """Return the directory of a node's quorum log."""
        return self.data / f"node-{node_id}"

    def log_directories(self, node_id: int) -> tuple[Path, ...]:
        """Return the directories of a node's partitions."""
        return (self.directory(node_id),)

    def replica(self, node_id: int, topic: str, partition: int) -> Path:
        """Return the directory of a replica, which exists or not."""
        places = [each / f"{topic}-{partition}" for each in self.log_directories(node_id)]
        return next((each for each in places if each.exists()), places[0])

    def log_of(self, node_id: int, lines: int = 40) -> str:
        raise NotImplementedError

    def logs(self) -> dict[int, str]:
        """Return the whole log of each node."""
        return {node_id: self.log_of(node_id, lines=sys.maxsize) for node_id in self.nodes}

    def close(self) -> None:
        self.kill_all()
        shutil.rmtree(self.data, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BarnabasCluster(TrialCluster):
    """`barnabas serve` processes."""

    name = "barnabas"

    def __init__(
        self, config: Mapping[str, str] | None = None, nodes: int = 3, voters: int | None = None
    ) -> None:
        data = Path(tempfile.mkdtemp(prefix="barnabas-ladder-"))
        self.processes = self._processes(data, config or {}, nodes, voters)
        plan = self.processes.layout.plan
        super().__init__({node.node_id: node.bootstrap for node in plan.nodes}, data)
        self.nodes = dict(self.processes.nodes)

    def _processes(
        self, data: Path, config: Mapping[str, str], nodes: int, voters: int | None
    ) -> ClusterProcess:
        return ClusterProcess(nodes, data, config, voters=voters)

    def log_of(self, node_id: int, lines: int = 40) -> str:
        return "".join(self.processes.nodes[node_id].log[-lines:])


class SecuredCluster(BarnabasCluster):
    """`barnabas serve` processes with SASL_SSL on each listener, and an authorizer."""

    name = "barnabas, SASL_SSL"

    def __init__(
        self, config: Mapping[str, str] | None = None, nodes: int = 3, voters: int | None = None
    ) -> None:
        super().__init__(config, nodes, voters)
        client = ClientSecurity("alice", USERS["alice"], self.data / "ca.pem")
        protect(self.addresses.values(), client)

    def _processes(
        self, data: Path, config: Mapping[str, str], nodes: int, voters: int | None
    ) -> ClusterProcess:
        security = Security(data)
        own = {**security.sasl_nodes(), **config}
        client = security.sasl_client()
        return ClusterProcess(nodes, data, own, voters=voters, users=USERS, client=client)


class ProxiedCluster(BarnabasCluster):
    """`barnabas serve` processes that reach each other, and their clients, through pair proxies."""

    def __init__(
        self, config: Mapping[str, str] | None = None, nodes: int = 3, voters: int | None = None
    ) -> None:
        super().__init__(config, nodes, voters)
        routes: list[Route] = []
        planned = self.processes.layout.plan.nodes
        advertised = {port for node in planned for port in (node.port, node.controller_port)}
        actual = iter(free_ports(2 * nodes, excluding=advertised))
        for node in planned:
            of_node = {"PLAINTEXT": Route(node.node_id, node.port, next(actual))}
            if node.is_controller:
                quorum = Route(node.node_id, node.controller_port, next(actual))
                of_node["CONTROLLER"] = quorum
            self.processes.nodes[node.node_id].config |= proxied_config(node.node_id, of_node)
            routes += of_node.values()
        self.proxy = PairProxy(routes)

    def start(self) -> None:
        if not self.proxy.is_running:
            self.proxy.start()
        super().start()

    def close(self) -> None:
        super().close()
        self.proxy.stop()


class KafkaNode:
    """One Apache Kafka process of a cluster, with the compiler of its start script."""

    compiler: Sequence[str] = ("-server", "-XX:+UseG1GC")

    def __init__(self, properties: Mapping[str, str], directory: Path, port: int) -> None:
        self.properties = dict(properties)
        self.file = directory.with_suffix(".properties")
        self.file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self.log_file = directory.with_suffix(".log")
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        options = ["-Xmx512m", "-Xms512m", *self.compiler]
        options += [*jars.archive_options(), *jars.LOG_OPTIONS]
        command = ["java", *options, "-cp", jars.classpath(), "kafka.Kafka", str(self.file)]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def wait_ready(self) -> None:
        security = security_of(f"127.0.0.1:{self._port}")
        wait_until(lambda: not self.is_running or answers(self._port, security), _KAFKA_START_S)
        assert self.is_running, self.log_file.read_text(errors="replace")[-3000:]

    def start(self) -> None:
        self.launch()
        self.wait_ready()

    def send_kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def suspend(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> int:
        assert self._process is not None
        self._process.terminate()
        try:
            return self._process.wait(60)
        finally:
            self.kill()


class KafkaCluster(TrialCluster):
    """Three Apache Kafka nodes with both roles, 512 MB of heap each."""

    name = "kafka"
    listener = "PLAINTEXT"

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        nodes: int = 3,
        features: Sequence[str] = (),
    ) -> None:
        data = Path(tempfile.mkdtemp(prefix="kafka-ladder-"))
        ports = free_ports(2 * nodes)
        ids = range(1, nodes + 1)
        addresses = {each: f"127.0.0.1:{ports[each - 1]}" for each in ids}
        quorum = {each: f"127.0.0.1:{ports[nodes + each - 1]}" for each in ids}
        super().__init__(addresses, data)
        voters = ",".join(f"{each}@{quorum[each]}:{Uuid.random()}" for each in ids)
        cluster_id = str(Uuid.random())
        own, arguments = self._security(data)
        for each in ids:
            listeners = f"{self.listener}://{addresses[each]},CONTROLLER://{quorum[each]}"
            properties = {
                "process.roles": "broker,controller",
                "node.id": str(each),
                "controller.quorum.bootstrap.servers": ",".join(quorum.values()),
                "listeners": listeners,
                "advertised.listeners": listeners,
                "controller.listener.names": "CONTROLLER",
                "log.dirs": str(self.directory(each)),
                **internal_topics(min(nodes, 3)),
                **own,
                **(config or {}),
            }
            node = KafkaNode(properties, self.directory(each), ports[each - 1])
            self.nodes[each] = node
            identity = ("-t", cluster_id, "-c", str(node.file), "--initial-controllers", voters)
            jars.java("kafka.tools.StorageTool", "format", *identity, *arguments, *features)

    def _security(self, data: Path) -> tuple[Mapping[str, str], Sequence[str]]:
        """Return properties of the nodes, and arguments of `kafka-storage format`."""
        del data
        return {}, ()

    def log_of(self, node_id: int, lines: int = 40) -> str:
        text = self.directory(node_id).with_suffix(".log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])


class SecuredKafkaCluster(KafkaCluster):
    """Apache Kafka nodes with SASL_SSL on each listener, and an authorizer."""

    name = "kafka, SASL_SSL"
    listener = "SASL_SSL"

    def _security(self, data: Path) -> tuple[Mapping[str, str], Sequence[str]]:
        security = Security(data)
        protect(self.addresses.values(), ClientSecurity("alice", USERS["alice"], security.ca))
        scram = [f"SCRAM-SHA-512=[name={user},password={secret}]" for user, secret in USERS.items()]
        return security.sasl_nodes(), [part for each in scram for part in ("--add-scram", each)]


CLUSTERS: dict[str, type[BarnabasCluster] | type[KafkaCluster]] = {
    "barnabas": BarnabasCluster,
    "kafka": KafkaCluster,
}


def differing_replicas(
    cluster: TrialCluster, topic: str, replicas: Mapping[int, Iterable[int]]
) -> list[str]:
    """Return the partitions whose log files are not equal on the nodes of their replicas.

    The nodes must have stopped, some time after the last record.
    """
    wrong: list[str] = []
    for number, nodes in replicas.items():
        logs = {node_id: _log_bytes(cluster.replica(node_id, topic, number)) for node_id in nodes}
        if len(set(logs.values())) != 1:
            lengths = {node_id: len(log) for node_id, log in logs.items()}
            wrong.append(f"{topic}-{number} differs; its lengths on the nodes: {lengths}")
    return wrong


def _log_bytes(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process and its children, in MB."""
    return sum(_resident_kb(each) for each in [pid, *_children(pid)]) / 1024


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def _resident_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(each) for each in path.read_text().split()] if path.exists() else []
