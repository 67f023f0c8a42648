"""Members that a cluster must refuse, and requests that no member sends.

Each test requires the outcome, and a line in plain words in the log of the node whose operator can
do something about it.
"""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.vote import VoteRequest
from barnabas.protocol.types import Uuid
from barnabas.testing.eventually import wait_until
from barnabas.testing.free_ports import free_ports
from barnabas.testing.known_brokers import known_brokers, wait_until_topic_known
from barnabas.testing.process import ClusterProcess
from compat_tests import wire
from compat_tests.cluster import observation
from compat_tests.cluster.machines import Machine, barnabas

OTHER_CLUSTER = "b3RoZXItY2x1c3Rlci1pZA"
# A node that is refused gives up early.
IMPATIENT = {"initial.broker.registration.timeout.ms": "4000"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterProcess]:
    with ClusterProcess(3) as made:
        admin = AdminClient({"bootstrap.servers": made.bootstrap})
        admin.create_topics([NewTopic("t", 1, 3)])["t"].result(30)
        wait_until_topic_known(made.bootstrap.split(","), "t")
        yield made


def cluster_id(cluster: ClusterProcess) -> str:
    return wire.call(cluster.nodes[1].bootstrap, MetadataRequest(topics=[]), 9).cluster_id


def controllers(cluster: ClusterProcess) -> str:
    """The controller listeners of the voters."""
    return ",".join(f"127.0.0.1:{node.controller_port}" for node in cluster.layout.plan.nodes)


def newcomer(cluster: ClusterProcess, directory: Path, node_id: int, **given: str) -> Machine:
    """Return a broker for the cluster that is not formatted yet."""
    first, second = free_ports(2)
    properties = {**IMPATIENT, **{name.replace("_", "."): text for name, text in given.items()}}
    quorum = properties.pop("controller.quorum.bootstrap.servers", controllers(cluster))
    return Machine(directory, node_id, (first, second), quorum, properties, roles="broker")


@pytest.fixture(scope="module")
def refused(cluster: ClusterProcess, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Start nodes that must not start, all at once; return their logs by mistake."""
    own, leading = cluster_id(cluster), observation.quorum(cluster.nodes[1].bootstrap).leader
    broker_listener, unused = cluster.nodes[1].bootstrap, f"127.0.0.1:{free_ports(1)[0]}"
    directory = tmp_path_factory.mktemp("refused")
    quorum = "controller_quorum_bootstrap_servers"
    nodes = {
        "twin": newcomer(cluster, directory, 1 if leading != 1 else 2),
        "twin of the leader": newcomer(cluster, directory, leading),
        "stranger": newcomer(cluster, directory, 4),
        "without controllers": newcomer(cluster, directory, 9, **{quorum: unused}),
        "at a broker": newcomer(cluster, directory, 10, **{quorum: broker_listener}),
    }
    for mistake, node in nodes.items():
        node.format(OTHER_CLUSTER if mistake == "stranger" else own)
    other = newcomer(cluster, directory, 5)
    other.format(own)
    nodes["wrong directory"] = newcomer(cluster, directory, 6, log_dirs=str(other.data))
    for node in nodes.values():
        node.launch()
    for node in nodes.values():
        with pytest.raises(RuntimeError):
            node.wait_ready()
    logs = {mistake: "".join(node.log) for mistake, node in nodes.items()}
    return {**logs, "unused": unused, "broker": broker_listener, "leader": str(leading)}


def check_members(cluster: ClusterProcess) -> None:
    """No broker is registered beside those of the cluster, and its nodes know one leader."""
    wait_until(lambda: known_brokers(cluster.nodes[1].bootstrap) == {1, 2, 3})
    wait_until(lambda: len(found := set(epochs(cluster).values())) == 1 and None not in found)


def epochs(cluster: ClusterProcess) -> dict[int, int | None]:
    """Return the epoch of the quorum of each node, None while it does not have a leader."""
    states = {number: observation.try_quorum(each.bootstrap) for number, each in nodes(cluster)}
    return {number: state and state.epoch for number, state in states.items()}


def nodes(cluster: ClusterProcess) -> list[tuple[int, Any]]:
    return [(number, node) for number, node in cluster.nodes.items() if node.is_running]


def leader(cluster: ClusterProcess) -> str:
    """Return the address of the active controller's listener."""
    found = observation.quorum(cluster.nodes[1].bootstrap).leader
    (node,) = (each for each in cluster.layout.plan.nodes if each.node_id == found)
    return f"127.0.0.1:{node.controller_port}"


def test_second_node_with_one_id_is_not_registered(
    cluster: ClusterProcess, refused: dict[str, str]
) -> None:
    log = refused["twin"]
    assert "error=DUPLICATE_BROKER_REGISTRATION hint=another process has this node.id" in log
    assert "did not register this broker within initial.broker.registration.timeout.ms" in log
    check_members(cluster)


def test_second_node_with_the_id_of_the_leader_finds_no_leader(
    cluster: ClusterProcess, refused: dict[str, str]
) -> None:
    wanted = f"another process with this node.id leads the quorum node_id={refused['leader']}"
    assert wanted in refused["twin of the leader"]
    assert observation.quorum(cluster.nodes[1].bootstrap).leader == int(refused["leader"])
    check_members(cluster)


def test_node_of_another_cluster_does_not_join(
    cluster: ClusterProcess, refused: dict[str, str]
) -> None:
    hint = r"error=INCONSISTENT_CLUSTER_ID hint=.*belong to another cluster"
    assert re.search(hint, refused["stranger"])
    check_members(cluster)


def test_directory_of_another_node_does_not_start(refused: dict[str, str]) -> None:
    log = refused["wrong directory"]
    assert re.search(r"node\.id.*5.*6|node\.id.*6.*5", log), log


def test_copied_directory_is_not_registered(cluster: ClusterProcess, tmp_path: Path) -> None:
    """Two brokers with one directory.id: the second one has a copy of the first disk."""
    first = newcomer(cluster, tmp_path, 7)
    first.format(cluster_id(cluster))
    with first:
        copy = newcomer(cluster, tmp_path, 8)
        shutil.copytree(first.data, copy.data, ignore=shutil.ignore_patterns(".lock"))
        properties = Path(copy.data) / "meta.properties"
        properties.write_text(properties.read_text().replace("node.id=7", "node.id=8"))
        with pytest.raises(RuntimeError):
            copy.start()
        log = "".join(copy.log)
    assert "error=INVALID_REGISTRATION hint=a data directory is registered by another broker" in log


def test_unreachable_controllers_are_named(refused: dict[str, str]) -> None:
    log = refused["without controllers"]
    assert f"cannot fetch the metadata from={refused['unused']}" in log
    assert "did not register this broker within" in log


def test_address_that_is_not_a_controller_is_named(refused: dict[str, str]) -> None:
    """The port of a broker listener in place of the controller's."""
    hint = rf"address={refused['broker']} error=\w+ hint=this address is not a controller"
    assert re.search(hint, refused["at a broker"]), refused["at a broker"]


def test_wrong_address_of_a_voter_is_corrected_by_the_voter(tmp_path: Path) -> None:
    ports = free_ports(6)
    ids = {number: Uuid.random() for number in (1, 2, 3)}
    addresses = {number: f"127.0.0.1:{ports[number + 2]}" for number in ids}
    wrong = {**addresses, 3: f"127.0.0.1:{free_ports(1, excluding=ports)[0]}"}
    voters = ",".join(f"{number}@{wrong[number]}:{ids[number]}" for number in ids)
    quorum = ",".join(addresses[number] for number in (1, 2))
    machines = [
        Machine(tmp_path, number, (ports[number - 1], ports[number + 2]), quorum, {})
        for number in ids
    ]
    try:
        for machine in machines:
            machine.format(OTHER_CLUSTER, "--initial-controllers", voters)
            machine.launch()
        for machine in machines:
            machine.wait_ready()
        # It fetches, so the others do not need its address; it reports the right one.
        right = machines[2].controller_port
        wait_until(lambda: voter_ports(machines[0].bootstrap)[3] == right, 60)
        machines[2].kill()
        wanted = f"cannot reach voter id=3 address=127.0.0.1:{right}"
        wait_until(lambda: any(wanted in "".join(each.log) for each in machines[:2]))
    finally:
        for machine in machines:
            machine.kill()


def voter_ports(bootstrap: str) -> dict[int, int]:
    """Return the ports of the voters' controller listeners, as the quorum's leader has them."""
    partition = DescribeQuorumRequest.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    nodes = wire.call(bootstrap, DescribeQuorumRequest(topics=[topic]), 2).nodes
    return {each.node_id: each.listeners[0].port for each in nodes}


def test_swapped_disk_of_a_voter_does_not_vote(tmp_path: Path) -> None:
    with ClusterProcess(3, tmp_path) as cluster:
        number = next(
            each for each in (2, 3) if each != observation.quorum(cluster.nodes[1].bootstrap).leader
        )
        swapped = cluster.nodes[number]
        (planned,) = (each for each in cluster.layout.plan.nodes if each.node_id == number)
        swapped.kill()
        shutil.rmtree(planned.directory)
        properties = "".join(f"{name}={text}\n" for name, text in swapped.config.items())
        file = tmp_path / "swapped.properties"
        file.write_text(properties + f"log.dirs={planned.directory}\n")
        barnabas_format(file, cluster_id(cluster))
        swapped.start()
        described = observation.quorum(cluster.nodes[1].bootstrap)
        assert number in described.observers
        wait_until(lambda: "this node is not a voter" in "".join(swapped.log), 60)
        survivor, other = (each for each in (1, 2, 3) if each != number)
        cluster.nodes[other].kill()
        assert not can_create(cluster.nodes[survivor].bootstrap, "without-a-majority")
        cluster.nodes[other].start()
        wait_until(lambda: can_create(cluster.nodes[survivor].bootstrap, "with-a-majority"))


def barnabas_format(file: Path, cluster_id: str) -> None:
    barnabas(
        "format", "--config", str(file), "--cluster-id", cluster_id, "--no-initial-controllers"
    )


def can_create(bootstrap: str, topic: str) -> bool:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        admin.create_topics([NewTopic(topic, 1, 1)], request_timeout=4)[topic].result(6)
    except Exception:
        return False
    return True


def broker_epoch(cluster: ClusterProcess, broker_id: int) -> int:
    """Return a broker's epoch as its log says."""
    (found,) = re.findall(r"epoch=(\d+)", "".join(cluster.nodes[broker_id].log))[-1:]
    return int(found)


def test_requests_of_an_old_incarnation_are_refused(cluster: ClusterProcess) -> None:
    heartbeat = BrokerHeartbeatRequest(broker_id=2, broker_epoch=0, current_metadata_offset=0)
    answer = wire.call(leader(cluster), heartbeat, 1)
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    alter = AlterPartitionRequest(broker_id=2, broker_epoch=0)
    assert wire.call(leader(cluster), alter, 3).error_code == ErrorCode.STALE_BROKER_EPOCH
    unknown = BrokerHeartbeatRequest(broker_id=77, broker_epoch=0, current_metadata_offset=0)
    answer = wire.call(leader(cluster), unknown, 1)
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH  # as Kafka
    time.sleep(0.3)
    wait_until(lambda: known_brokers(cluster.nodes[1].bootstrap) == {1, 2, 3})


def replica_fetch(cluster: ClusterProcess, replica: int, epoch: int, offset: int) -> Any:
    """Fetch as a replica from the leader of the topic, and return the partition's answer."""
    bootstrap = cluster.nodes[1].bootstrap
    topics = [MetadataRequest.MetadataRequestTopic(name="t")]
    (topic,) = wire.call(bootstrap, MetadataRequest(topics=topics), 12).topics
    (partition,) = topic.partitions
    asked = FetchRequest.FetchPartition(
        partition=0,
        current_leader_epoch=partition.leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=1 << 20,
    )
    request = FetchRequest(
        replica_state=FetchRequest.ReplicaState(replica_id=replica, replica_epoch=epoch),
        max_wait_ms=0,
        topics=[FetchRequest.FetchTopic(topic_id=topic.topic_id, partitions=[asked])],
    )
    answer = wire.call(cluster.nodes[partition.leader_id].bootstrap, request, 17)
    return answer.responses[0].partitions[0] if answer.responses else answer


def test_forged_replica_ids_change_no_isr(cluster: ClusterProcess) -> None:
    """An unknown replica is refused; a replica's id with another epoch joins no ISR (KIP-903)."""
    bootstrap = cluster.nodes[1].bootstrap
    assert replica_fetch(cluster, 99, 1, 0).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    (found,) = observation.partitions(bootstrap, "t").values()
    victim = next(each for each in found.replicas if each not in (found.leader, 1))
    cluster.nodes[victim].kill()
    wait_until(lambda: victim not in observation.partitions(bootstrap, "t")[0].isr, 60)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    producer.produce("t", b"x")
    assert producer.flush(30) == 0
    for epoch in (-1, 0, 1 << 40):
        for offset in (0, 1, 1):
            replica_fetch(cluster, victim, epoch, offset)
    time.sleep(1)
    assert victim not in observation.partitions(bootstrap, "t")[0].isr
    cluster.nodes[victim].start()
    wait_until(lambda: victim in observation.partitions(bootstrap, "t")[0].isr, 60)


def test_forged_votes_and_quorum_fetches_are_refused(cluster: ClusterProcess) -> None:
    address = leader(cluster)
    partition = VoteRequest.PartitionData(
        partition_index=0, replica_epoch=1000, replica_id=2, last_offset_epoch=0, last_offset=0
    )
    topic = VoteRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    answer = wire.call(address, VoteRequest(cluster_id=OTHER_CLUSTER, topics=[topic]), 1)
    assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    time.sleep(0.5)
    found: list[int | None] = []

    def all_know_a_leader() -> bool:
        found[:] = epochs(cluster).values()
        return None not in found

    wait_until(all_know_a_leader)
    assert all(epoch is not None and epoch < 1000 for epoch in found)


def test_process_of_a_node_that_runs_is_refused(cluster: ClusterProcess) -> None:
    """A second process on the same directories, as a careless restart does."""
    node = cluster.nodes[2]
    settings = [f"--set={name}={value}" for name, value in node.config.items()]
    command = [sys.executable, "-m", "barnabas", "serve", "--data", str(node.data), *settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert node.is_running
