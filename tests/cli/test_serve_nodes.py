"""`barnabas serve --nodes N`: child processes, their restart, and their end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, TopicMetadata

from barnabas.testing.eventually import wait_until
from barnabas.testing.free_ports import free_group_port
from barnabas.testing.known_brokers import wait_until_topic_known
from tests.processes import is_alive

_PID = re.compile(r"node started name=node-(\d+) pid=(\d+)")
_READY = "all nodes are ready"


class Group:
    """A running group, and what it writes."""

    def __init__(self, data: Path, count: int, *options: str) -> None:
        self.count, self.port = count, free_group_port(count)
        command = [sys.executable, "-m", "barnabas", "serve", "--nodes", str(count)]
        command += ["--data", str(data), "--listen", f"127.0.0.1:{self.port}", *options]
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            self.lines.extend(lines)

    def wait_for(self, text: str, timeout_s: float = 60) -> None:
        wait_until(lambda: any(text in line for line in self.lines), timeout_s)

    @property
    def addresses(self) -> list[str]:
        """The addresses of the nodes for clients."""
        return [f"127.0.0.1:{self.port + index}" for index in range(self.count)]

    def pids(self, node_id: int) -> list[int]:
        found = [match for match in map(_PID.search, self.lines) if match]
        return [int(match[2]) for match in found if int(match[1]) == node_id]

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(40)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Group]]:
    groups: list[Group] = []

    def start(count: int, *options: str) -> Group:
        groups.append(Group(tmp_path / "data", count, *options))
        return groups[-1]

    yield start
    for group in groups:
        if group.process.poll() is None:
            group.process.kill()
            group.process.wait()
        print("".join(group.lines[-60:]))


def test_node_that_is_killed_restarts_and_the_group_stops_cleanly(
    serve: Callable[..., Group],
) -> None:
    group = serve(1)
    group.wait_for(_READY)
    assert group.lines[0].split() == ["NODE", "ROLES", "CLIENTS", "CONTROLLER", "DIRECTORY"]
    (pid,) = group.pids(1)
    os.kill(pid, signal.SIGKILL)
    group.wait_for("node was ended by signal 9, restarting")
    wait_until(lambda: sum("server.node.node ready" in line for line in group.lines) == 2, 60)
    assert group.stop() == 0
    assert not is_alive(group.pids(1)[-1])


@pytest.mark.parametrize(
    ("line", "count"), [("restarting delay_s", 1), ("node started", 2)], ids=["waiting", "starting"]
)
def test_group_stops_cleanly_while_a_node_is_being_restarted(
    serve: Callable[..., Group], line: str, count: int
) -> None:
    group = serve(1)
    group.wait_for(_READY)
    os.kill(group.pids(1)[0], signal.SIGKILL)
    wait_until(lambda: sum(line in each for each in group.lines) == count, 60)
    assert group.stop() == 0


def test_nodes_end_when_the_parent_is_killed(serve: Callable[..., Group]) -> None:
    group = serve(1)
    group.wait_for(_READY)
    (pid,) = group.pids(1)
    group.process.kill()
    wait_until(lambda: not is_alive(pid), 60)
    group.wait_for("stopped clean=true")


def test_group_whose_node_cannot_start_ends_with_its_name(
    serve: Callable[..., Group], tmp_path: Path
) -> None:
    group = serve(1)
    group.wait_for(_READY)
    command = [sys.executable, "-m", "barnabas", "serve", "--nodes", "1"]
    command += ["--data", str(tmp_path / "other"), "--listen", f"127.0.0.1:{group.port}"]
    second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert second.returncode == 1
    assert "barnabas: node 1 did not start (status 1)" in second.stderr
    assert group.stop() == 0


def test_three_nodes_form_a_cluster_and_stop_in_order(serve: Callable[..., Group]) -> None:
    group = serve(3)
    group.wait_for(_READY, 40)
    os.kill(group.pids(2)[0], signal.SIGKILL)
    wait_until(lambda: sum("node-2 server.node.node ready" in x for x in group.lines) == 2, 40)
    assert group.stop() == 0
    stopped = [line.split()[2] for line in group.lines if "stopped clean=true" in line]
    assert stopped[0] == "node-3"
    assert sorted(stopped) == ["node-1", "node-2", "node-3"]


def test_topic_created_without_settings_survives_a_killed_node(
    serve: Callable[..., Group],
) -> None:
    group = serve(3)
    group.wait_for(_READY)
    servers = ",".join(group.addresses)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic("t", 1)])["t"].result(60)
    wait_until_topic_known(group.addresses, "t")
    assert len(topic(admin).partitions[0].replicas) == 3
    resource = ConfigResource(ConfigResource.Type.TOPIC, "t")
    settings = admin.describe_configs([resource])[resource].result(30)
    assert settings["min.insync.replicas"].value == "2"
    producer = Producer({"bootstrap.servers": servers, "acks": "all"})
    producer.produce("t", b"before")
    assert producer.flush(30) == 0
    leader = topic(admin).partitions[0].leader
    os.kill(group.pids(leader)[0], signal.SIGKILL)
    wait_until(lambda: topic(admin).partitions[0].leader not in (leader, -1))
    producer.produce("t", b"after")
    assert producer.flush(30) == 0
    assert group.stop() == 0


def topic(admin: AdminClient) -> TopicMetadata:
    return admin.list_topics("t", timeout=30).topics["t"]


def test_group_that_exists_keeps_its_values_and_says_how_to_change_them(
    serve: Callable[..., Group], tmp_path: Path
) -> None:
    group = serve(3)
    group.wait_for(_READY)
    assert not any("default.replication.factor" in line for line in group.lines)
    assert group.stop() == 0
    (tmp_path / "data" / "group.properties").unlink()  # as if an earlier version created it
    addresses = group.addresses
    group = serve(3, "--listen", addresses[0])
    group.wait_for(_READY)
    assert any("--set default.replication.factor=3" in line for line in group.lines)
    admin = AdminClient({"bootstrap.servers": addresses[0]})
    admin.create_topics([NewTopic("t", 1)])["t"].result(60)
    wait_until_topic_known(addresses, "t")
    assert len(topic(admin).partitions[0].replicas) == 1
    assert group.stop() == 0


def test_pinned_node_runs_on_one_core(serve: Callable[..., Group]) -> None:
    group = serve(1, "--pin")
    group.wait_for(_READY)
    assert len(os.sched_getaffinity(group.pids(1)[0])) == 1
    assert group.stop() == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--pin"], "--pin needs --nodes"),
        (["--nodes", "3", "--set", "node.id=2"], "cannot be used with --nodes"),
        (["--nodes", "3", "--listen", "127.0.0.1:60000"], "choose a port up to"),
    ],
)
def test_nodes_with_wrong_options_is_one_line(
    options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from barnabas.cli.main import run

    assert run(["serve", *options]) in (1, 2)
    assert says in capsys.readouterr().err
