"""A broker that refuses the connections of one other node only, and serves all other nodes.

The controller reaches the broker, so it does not fence it. The node that is refused takes the
broker for ended, and hides it from its own clients for three seconds. It says that it is alone with
that.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.testing.eventually import wait_until
from barnabas.testing.free_ports import free_ports
from compat_tests.cluster import observation
from compat_tests.cluster.clusters import ProxiedCluster
from compat_tests.cluster.machines import barnabas
from compat_tests.cluster.pair_proxy import Link, Rule
from compat_tests.cluster.steps.trial import active_controller, create_topic, wait_in_sync

pytestmark = [pytest.mark.barnabas_only, pytest.mark.timeout(300)]

HIDDEN_S_MAX = 10.0
"""Three seconds and some, on a busy machine."""
WATCHED_S = 5.0


class RefusedCluster(ProxiedCluster):
    """Nodes whose connections to chosen ports are refused while the test wants it."""

    def __init__(self) -> None:
        super().__init__()
        pages = iter(free_ports(len(self.nodes)))
        for node_id, node in self.processes.nodes.items():
            node.program = ("-m", "compat_tests.cluster.refused_node", str(self._file(node_id)))
            node.config["barnabas.metrics.port"] = str(next(pages))

    def refuse(self, node_id: int, broker_id: int) -> None:
        """End the connections from a node to a broker, and refuse new ones to its listener."""
        self._file(node_id).write_text(self.addresses[broker_id].rpartition(":")[2])
        self.proxy.set_rule(node_id, broker_id, Rule(Link.RESET))

    def accept(self, node_id: int) -> None:
        """Refuse nothing anymore."""
        self.proxy.heal()
        self._file(node_id).unlink()

    def _file(self, node_id: int) -> Path:
        return self.data / f"refused-{node_id}"


@pytest.fixture
def cluster() -> Iterator[RefusedCluster]:
    with RefusedCluster() as started:
        yield started


def test_node_that_a_broker_refuses_hides_it_for_three_seconds(cluster: RefusedCluster) -> None:
    controller = active_controller(cluster)
    refusing, refused = (each for each in cluster.nodes if each != controller)
    topic = create_topic(cluster, 1, leader=refusing)
    address = cluster.addresses[refused]
    assert observation.leader(address, topic) == refusing
    assert disputed(cluster) == dict.fromkeys(cluster.nodes, 0)

    cluster.refuse(refused, refusing)
    wait_until(lambda: observation.leader(address, topic) == -1, 30)
    hidden_s = observation.seconds_until(lambda: observation.leader(address, topic) == refusing, 60)
    watched_until = time.monotonic() + WATCHED_S
    while time.monotonic() < watched_until:
        assert observation.leader(address, topic) == refusing
    assert observation.leader(cluster.addresses[controller], topic) == refusing
    assert disputed(cluster) == {**dict.fromkeys(cluster.nodes, 0), refused: 1}

    cluster.accept(refused)
    wait_until(lambda: not disputed(cluster)[refused], 60)
    wait_in_sync(cluster, topic)
    assert hidden_s < HIDDEN_S_MAX


def disputed(cluster: RefusedCluster) -> dict[int, int]:
    """Return how many brokers each node is alone to take for ended, as `barnabas cluster` does."""
    overview = json.loads(barnabas("cluster", "--json", bootstrap=cluster.bootstrap))
    return {node["id"]: node["disputed_brokers"] for node in overview["nodes"]}
