"""Three nodes that authenticate to each other: a leader is killed, and no acked record is lost."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from barnabas.testing import Security as OneOption
from barnabas.testing.eventually import wait_until
from barnabas.testing.free_ports import free_group_port
from barnabas.testing.known_brokers import wait_until_known
from barnabas.testing.process import ClusterProcess
from compat_tests.cluster.pinger import Pinger, faults
from compat_tests.cluster.replicated_topics import (
    PARTITIONS,
    create_replicated,
    partitions,
    restart_leader,
    wait_until_in_sync,
)
from compat_tests.cluster.secured import USERS, Security
from compat_tests.token_issuer import TokenIssuer


def cluster_of(kind: str, directory: Path) -> ClusterProcess:
    """Return three nodes with SASL, with client certificates, or as `--secure` has them."""
    data = directory / "data"
    if kind == "one option":
        return ClusterProcess(3, data, replicates_topics=True, security=OneOption())
    nodes, client = Security(directory).of(kind)
    users = USERS if kind == "sasl" else {}
    return ClusterProcess(3, data, nodes, replicates_topics=True, users=users, client=client)


@pytest.mark.parametrize("kind", ["sasl", "mutual", "one option"])
def test_killed_leader_loses_no_acked_record(tmp_path: Path, kind: str) -> None:
    with cluster_of(kind, tmp_path) as cluster:
        client = cluster.client_config()
        config: dict[str, object] = {**client}
        admin = AdminClient({**client, "log_level": 0})
        create_replicated(admin, "t")
        with Pinger(cluster.bootstrap, "t", PARTITIONS, config=config) as load:
            load.wait_for_acks(time.monotonic())
            leader = partitions(admin, "t")[0][0]
            cluster.nodes[leader].kill()
            load.wait_for_acks(time.monotonic())
            cluster.nodes[leader].start()
            wait_until_in_sync(admin, "t")
            load.wait_for_acks(time.monotonic())
        assert load.ledger.failed == {}
        assert faults(cluster.bootstrap, "t", PARTITIONS, load.ledger, config=config) == []
        logs = "".join(line for node in cluster.nodes.values() for line in node.log)
        assert "secret" not in logs
        # The detectors were admitted: they noticed the end of the process.
        assert f"broker process has ended broker={leader}" in logs


def test_nodes_log_in_with_tokens_of_an_issuer(tmp_path: Path) -> None:
    """A node is killed and comes back with a new token; sessions of 4 s are renewed meanwhile."""
    security = Security(tmp_path)
    with TokenIssuer({"broker": "broker-secret"}, lifetime_s=4) as issuer:
        keys = issuer.write_keys(tmp_path / "keys.json")
        nodes, client = security.token_nodes(issuer, keys), security.sasl_client()
        data = tmp_path / "data"
        with ClusterProcess(
            3, data, nodes, replicates_topics=True, users=USERS, client=client
        ) as cluster:
            issued = issuer.issued["broker"]
            assert issued >= len(cluster.nodes)
            admin = AdminClient({**cluster.client_config(), "log_level": 0})
            create_replicated(admin, "t")
            restart_leader(cluster, admin, "t")
            wait_until(lambda: issuer.issued["broker"] >= issued + 2 * len(cluster.nodes), 60)
            create_replicated(admin, "u")
            wait_until_in_sync(admin, "u")
            logs = "".join(line for node in cluster.nodes.values() for line in node.log)
        assert "broker-secret" not in logs


def test_group_of_nodes_takes_its_security_from_a_file(tmp_path: Path) -> None:
    """`serve --nodes` with a configuration file: the names of its listeners are those of all."""
    nodes, client = Security(tmp_path).of("mutual")
    file = tmp_path / "nodes.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in nodes.items()))
    port = free_group_port(3)
    command = [sys.executable, "-m", "barnabas", "serve", "--nodes", "3", "--config", str(file)]
    command += [f"--data={tmp_path / 'data'}", f"--listen=127.0.0.1:{port}"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        addresses = {number: f"127.0.0.1:{port + number - 1}" for number in (1, 2, 3)}
        wait_until_known(addresses, client)
    finally:
        process.terminate()
        assert process.wait(60) == 0, (tmp_path / "log").read_text()
