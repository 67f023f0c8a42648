"""`barnabas serve --secure --nodes 3`: one directory, started several times by its owner."""

import os
import re
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.client import (
    ClientConfig,
    ConnectionFailureError,
    NewRecord,
    open_client,
)
from barnabas.client import Producer as OwnProducer
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.testing.eventually import wait_until
from tests.cli.conftest import Barnabas
from tests.cli.test_serve_nodes import Group
from tests.cli.test_serve_secure import get, settings, topics

_PASSWORD = re.compile(r"The user admin has the password (\S+)\n")
_URL = re.compile(r"schema registry ready url=(\S+)")
_READY = "all nodes are ready"
_OPTIONS = ("--secure", "--registry", "--registry-listen", "127.0.0.1:0")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Group]]:
    """The first start of a directory with a registry, and a topic with three replicas."""
    data = tmp_path_factory.mktemp("secured") / "data"
    group = Group(data, 3, *_OPTIONS)
    try:
        group.wait_for("schema registry ready")
        admin = AdminClient(settings(data))
        admin.create_topics([NewTopic("orders", 3, 3)])["orders"].result(60)
        yield data, group
    finally:
        if group.process.poll() is None:
            group.process.kill()
            group.process.wait()
        print("".join(group.lines[-60:]))


def password(group: Group) -> str:
    (found,) = _PASSWORD.findall("".join(group.lines))
    return found


def test_first_start_prints_the_password_and_writes_a_file_that_names_all_nodes(
    first: tuple[Path, Group],
) -> None:
    data, group = first
    found = settings(data)
    assert found["sasl.password"] == password(group)
    assert found["bootstrap.servers"] == ",".join(group.addresses)
    private = [path for path in data.iterdir() if path.is_file() and path.name != "ca.pem"]
    private.remove(data / "group.properties")
    assert {path.name for path in private} >= {"admin.conf", "admin.properties", "nodes.pem"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}
    assert stat.S_IMODE(data.stat().st_mode) == 0o700


def test_no_command_line_and_no_log_has_a_secret(first: tuple[Path, Group]) -> None:
    data, group = first
    secrets = [settings(data)["sasl.password"], settings(data, "registry")["sasl.password"]]
    lines = [
        Path(f"/proc/{pid}/cmdline").read_text()
        for pid in (group.process.pid, *(group.pids(node)[-1] for node in (1, 2, 3)))
    ]
    lines += [line for line in group.lines if not _PASSWORD.match(line)]
    assert not [line for line in lines if any(secret in line for secret in secrets)]


def test_client_without_tls_is_refused_with_a_line(first: tuple[Path, Group]) -> None:
    _, group = first
    plain = AdminClient({"bootstrap.servers": group.addresses[1], "log_level": "0"})
    with pytest.raises(KafkaException):
        plain.list_topics(timeout=1)
    group.wait_for("the client does not speak TLS")


@pytest.mark.parametrize("certificate", [None, "node.pem"])
@pytest.mark.parametrize("distance", [10_000, 20_000], ids=["controllers", "brokers"])
def test_only_nodes_are_accepted_between_nodes(
    certificate: str | None, distance: int, first: tuple[Path, Group]
) -> None:
    """The certificate for clients and companions is of the same authority, and not a node's."""
    data, group = first
    found = {
        "bootstrap.servers": f"127.0.0.1:{group.port + distance}",
        "security.protocol": "SSL",
        "ssl.ca.location": str(data / "ca.pem"),
        "socket.connection.setup.timeout.ms": "5000",
    }
    if certificate is not None:
        found["ssl.keystore.location"] = str(data / certificate)

    async def ask() -> None:
        async with open_client(ClientConfig.from_properties(found)) as client:
            await client.ask_any(MetadataRequest(topics=[]), MetadataResponse)

    with pytest.raises(ConnectionFailureError):
        trio.run(ask)


def test_certificate_of_the_nodes_is_that_of_a_super_user(first: tuple[Path, Group]) -> None:
    data, group = first
    found = {
        "bootstrap.servers": f"127.0.0.1:{group.port + 20_000}",
        "security.protocol": "SSL",
        "ssl.ca.location": str(data / "ca.pem"),
        "ssl.certificate.location": str(data / "nodes.pem"),
        "ssl.key.location": str(data / "nodes.pem"),
    }
    assert "orders" in topics(found)


def test_registry_beside_the_nodes_serves_the_administrator(first: tuple[Path, Group]) -> None:
    data, group = first
    (url,) = _URL.findall("".join(group.lines))
    assert get(f"{url}/subjects", data, password(group)) == b"[]"
    assert topics(settings(data, "registry")) == {"_schemas"}


def test_killed_leader_loses_no_acked_record_of_two_clients(first: tuple[Path, Group]) -> None:
    data, group = first
    admin = AdminClient(settings(data))
    leader = partitions(admin)[0][0]
    assert partitions(admin)[0][1] == [1, 2, 3]
    acked = write(data, b"before")
    (pid,) = group.pids(leader)
    os.kill(pid, signal.SIGKILL)
    acked += write(data, b"meanwhile")
    wait_until(lambda: partitions(admin)[0][1] == [1, 2, 3], 60)
    assert len(group.pids(leader)) == 2
    acked += write(data, b"after")
    assert sorted(read(data, len(acked))) == sorted(acked)


def test_certificates_are_renewed_while_the_nodes_run(first: tuple[Path, Group]) -> None:
    data, group = first
    old = {name: (data / name).read_bytes() for name in ("node.pem", "nodes.pem")}
    for name in old:
        (data / name).unlink()
    group.process.send_signal(signal.SIGHUP)
    # Three nodes, and three listeners of each.
    wait_until(lambda: sum("renewed the TLS settings listener=" in x for x in group.lines) == 9, 60)
    assert all((data / name).read_bytes() != old[name] for name in old)
    starts = ready_lines(group, 1)
    os.kill(group.pids(1)[-1], signal.SIGKILL)  # it comes back, and connects to the others
    wait_until(lambda: ready_lines(group, 1) == starts + 1, 60)
    admin = AdminClient(settings(data))
    wait_until(lambda: partitions(admin)[0][1] == [1, 2, 3], 60)


def ready_lines(group: Group, node_id: int) -> int:
    return sum(f"node-{node_id} server.node.node ready" in line for line in group.lines)


def partitions(admin: AdminClient) -> dict[int, tuple[int, list[int]]]:
    """Return leader and in-sync replicas of each partition."""
    found = admin.list_topics("orders", timeout=30).topics["orders"].partitions
    return {number: (each.leader, sorted(each.isrs)) for number, each in found.items()}


def write(data: Path, value: bytes) -> list[bytes]:
    """Write a record with each client, to all replicas; return what was acknowledged."""
    producer = Producer({**settings(data), "acks": "all", "log_level": "0"})
    refused: list[object] = []
    producer.produce(
        "orders", b"librdkafka " + value, partition=0, callback=lambda e, _: e and refused.append(e)
    )
    assert producer.flush(60) == 0
    assert refused == []
    trio.run(write_with_own_client, data, b"own " + value)
    return [b"librdkafka " + value, b"own " + value]


async def write_with_own_client(data: Path, value: bytes) -> None:
    async with open_client(ClientConfig.load(data / "admin.properties", {})) as client:
        await OwnProducer(client).send("orders", 0, [NewRecord(None, value)])


def read(data: Path, count: int) -> list[bytes | None]:
    consumer = Consumer({**settings(data), "group.id": "readers", "log_level": "0"})
    try:
        consumer.assign([TopicPartition("orders", 0, 0)])
        found: list[bytes | None] = []
        while batch := consumer.consume(count - len(found), 20):
            found += [each.value() for each in batch if not each.error()]
        return found
    finally:
        consumer.close()


def test_later_start_has_the_same_users_and_a_removed_file_is_the_way_back(
    first: tuple[Path, Group], barnabas: Barnabas
) -> None:
    data, group = first
    old, address = settings(data), group.addresses[0]
    kept = {path.name: path.read_bytes() for path in data.iterdir() if path.suffix == ".pem"}
    assert group.stop() == 0
    for options, says in (
        (("--nodes", "3"), "was started with --secure: add --secure"),
        (("--secure",), "is the directory of several nodes: add --nodes"),
    ):
        refused = barnabas("serve", "--data", str(data), "--listen", address, *options)
        assert (refused.code, refused.err.count("\n")) == (1, 1)
        assert says in refused.err

    again = Group(data, 3, "--secure", "--listen", address)
    try:
        again.wait_for(_READY)
        assert "orders" in topics(old)
        assert settings(data) == old
        assert _PASSWORD.findall("".join(again.lines)) == []
        assert again.stop() == 0
    finally:
        again.process.kill()

    (data / "admin.properties").unlink()
    third = Group(data, 3, "--secure", "--listen", address)
    try:
        third.wait_for("It is shown once")
        assert password(third) != old["sasl.password"]
        assert "orders" in topics(settings(data))
        with pytest.raises(KafkaException):
            AdminClient({**old, "log_level": "0"}).list_topics(timeout=2)
        assert third.stop() == 0
    finally:
        third.process.kill()
    assert {name: (data / name).read_bytes() for name in kept} == kept


def test_group_in_the_directory_of_a_single_node_is_refused(
    barnabas: Barnabas, tmp_path: Path
) -> None:
    (tmp_path / "meta.properties").write_text("")
    refused = barnabas("serve", "--secure", "--nodes", "3", "--data", str(tmp_path))
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert "is the directory of a single node" in refused.err


def test_running_plain_group_gets_users_at_its_next_start(tmp_path: Path) -> None:
    """Its quorum is the same, at the same addresses, and goes to TLS with all nodes together."""
    data = tmp_path / "data"
    plain = Group(data, 1)
    plain.wait_for(_READY)
    admin = AdminClient({"bootstrap.servers": plain.addresses[0]})
    admin.create_topics([NewTopic("orders", 1)])["orders"].result(60)
    assert plain.stop() == 0
    secured = Group(data, 1, "--secure", "--listen", plain.addresses[0])
    try:
        secured.wait_for("It is shown once")
        assert "orders" in topics(settings(data))
        assert secured.stop() == 0
    finally:
        secured.process.kill()
