"""A broker that ends right after its start is fenced at once: the controllers are connected to it.

They connect when it registers. Planted once: they connected when it was unfenced, and such a broker
kept its leaderships until the end of its session. A pause of the active controller in the moment of
the end changes nothing. Planted once: refused attempts counted for a second after the end only.
"""

import time

from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.testing.eventually import wait_until
from barnabas.testing.process import ClusterProcess
from compat_tests import wire
from compat_tests.cluster import observation

PAUSE_S = 1.3
SESSION_S = 90
FENCED_WITHIN_S = 60.0  # without the connections it takes the whole session


def session_timeout(address: str) -> str | None:
    """Return broker.session.timeout.ms of node 1."""
    resource = ConfigResource(ResourceType.BROKER, "1")
    admin = AdminClient({"bootstrap.servers": address})
    return (
        admin.describe_configs([resource])[resource].result(30)["broker.session.timeout.ms"].value
    )


def is_fenced(address: str, broker_id: int) -> bool:
    """True when a node has a broker as fenced. Metadata lists it for some seconds more."""
    request = DescribeClusterRequest(endpoint_type=1, include_fenced_brokers=True)
    brokers = wire.call(address, request, 2).brokers
    return any(each.broker_id == broker_id and each.is_fenced for each in brokers)


def test_broker_killed_right_after_its_start_is_fenced_at_once() -> None:
    config = {"broker.session.timeout.ms": str(SESSION_S * 1000)}
    with ClusterProcess(3, config=config) as cluster:
        assert session_timeout(cluster.nodes[1].bootstrap) == config["broker.session.timeout.ms"]
        leader = observation.quorum(cluster.nodes[1].bootstrap).leader
        victim = next(each for each in cluster.nodes if each != leader)
        others = [node.bootstrap for number, node in cluster.nodes.items() if number != victim]

        def wait_fenced() -> None:
            wait_until(lambda: all(is_fenced(each, victim) for each in others), FENCED_WITHIN_S)

        for paused in ([], [leader]):
            cluster.nodes[victim].kill()
            wait_fenced()
            time.sleep(3.1)  # evidence against a broker counts once in three seconds
            cluster.nodes[victim].start()
            cluster.nodes[victim].send_kill()
            time.sleep(0.015)
            for each in paused:
                cluster.nodes[each].suspend()
                time.sleep(PAUSE_S)
                cluster.nodes[each].resume()
            wait_fenced()
