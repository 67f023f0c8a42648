"""Properties of a cluster of several nodes, observed on the nodes of one."""

from pathlib import Path

import pytest

from barnabas.testing import Cluster, Node
from barnabas.testing.free_ports import free_ports
from tests.cli.conftest import run
from tests.config.effects.observed import observes


@observes("process.roles", "controller.quorum.bootstrap.servers", "barnabas.peer.bind.address")
def test_broker_finds_the_quorum_and_connects_from_its_own_address() -> None:
    own = {2: {"barnabas.peer.bind.address": "127.0.0.12"}}
    with Cluster(nodes=2, voters=1, node_config=own) as cluster:
        controller, broker = cluster.nodes[1].server, cluster.nodes[2].server
        assert controller is not None
        assert broker is not None
        assert sorted(broker.image.brokers) == [1, 2]
        assert sorted(broker.image.controllers) == [1]
        assert [listener.name for listener in broker.listeners] == ["PLAINTEXT"]
        hosts = {connection.client_host for connection in controller.transport.connections}
        assert "127.0.0.12" in hosts


@observes("controller.quorum.voters")
def test_static_voter_leads_its_quorum(tmp_path: Path) -> None:
    clients, quorum = free_ports(2)
    config = {
        "listeners": f"PLAINTEXT://127.0.0.1:{clients},CONTROLLER://127.0.0.1:{quorum}",
        "controller.quorum.voters": f"1@127.0.0.1:{quorum}",
    }
    options = [f"--set={name}={value}" for name, value in config.items()]
    data = tmp_path / "data"
    cluster_id = "MkU3OEVBNTcwNTJENDM2Qg"
    assert run(["format", "--data", str(data), "--cluster-id", cluster_id, *options]) == 0
    with Node(data, config) as node:
        assert node.server is not None
        assert node.server.cluster_id == cluster_id
        assert node.server.quorum.core.kraft_version == 0
    other = {**config, "controller.quorum.voters": f"2@127.0.0.1:{quorum}"}
    with pytest.raises(Exception, match=r"must\b.* be among the voters"):
        Node(data, other).start()
