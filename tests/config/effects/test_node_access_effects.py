"""Properties of the connections between nodes, observed in clusters of two."""

from pathlib import Path

import pytest
import trustme
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.server.node_failures import StartupError
from barnabas.testing import Cluster
from tests.config.effects.observed import observes
from tests.config.effects.wire import eventually

MODULES = "org.apache.kafka.common.security"
PLAIN = f"{MODULES}.plain.PlainLoginModule required"
SCRAM = f"{MODULES}.scram.ScramLoginModule required"
SASL = {
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
        f'{SCRAM} username="of-brokers" password="b";'
    ),
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": (
        f'{PLAIN} username="of-quorum" password="q" user_of-quorum="q";'
    ),
}
USERS = {"of-brokers": "b"}
NO_CLUSTER = {"initial.broker.registration.timeout.ms": "2000"}


def users_of(cluster: Cluster, listener: str) -> set[str]:
    """Return the users whose connections a listener of the first node has."""
    server = cluster.nodes[1].server
    assert server is not None
    connections = server.transport.connections
    return {each.principal.name for each in connections if each.listener_name == listener}


@observes("sasl.mechanism.inter.broker.protocol", "sasl.mechanism.controller.protocol")
def test_nodes_authenticate_with_the_mechanism_and_user_of_each_listener() -> None:
    config = {**SASL, "offsets.topic.replication.factor": "2"}
    with Cluster(2, config=config, users=USERS, voters=1) as cluster:
        assert eventually(lambda: users_of(cluster, "CONTROLLER") == {"of-quorum"})
        server = cluster.nodes[2].server
        assert server is not None
        # The detector of node 1 watches node 2 over the listener of brokers.
        assert eventually(
            lambda: (
                {(each.listener_name, each.principal.name) for each in server.transport.connections}
                == {("SASL_PLAINTEXT", "of-brokers")}
            )
        )


def test_broker_uses_scram_at_the_only_controller() -> None:
    """Several controllers cannot: `test_node_credentials` has the refusal."""
    config = {
        **SASL,
        "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
        "listener.name.controller.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.controller.scram-sha-512.sasl.jaas.config": (
            f'{SCRAM} username="of-quorum" password="q";'
        ),
    }
    with Cluster(2, config=config, users={**USERS, "of-quorum": "q"}, voters=1) as cluster:
        assert eventually(lambda: users_of(cluster, "CONTROLLER") == {"of-quorum"})


def test_follower_replaces_its_connection_before_the_end_of_its_session() -> None:
    lifetime = "listener.name.sasl_plaintext.scram-sha-256.connections.max.reauth.ms"
    with Cluster(2, config={**SASL, lifetime: "1000"}, users=USERS, voters=1) as cluster:
        client = {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "of-brokers",
            "sasl.password": "b",
        }
        admin = AdminClient(client)
        topics = [NewTopic("t", 1, replica_assignment=[[1, 2]])]
        admin.create_topics(topics)["t"].result(30)
        cluster.wait_in_sync("t", 0)
        del admin
        server = cluster.nodes[1].server
        assert server is not None
        accepted = server.transport.accepted

        def open_now() -> int:
            listeners = [each.listener_name for each in server.transport.connections]
            return listeners.count("SASL_PLAINTEXT")

        assert eventually(lambda: server.transport.accepted >= accepted + 4)
        assert eventually(lambda: open_now() == 1)
        cluster.wait_in_sync("t", 0)


@pytest.mark.parametrize(
    ("users", "fault"),
    [({}, "no such user for SCRAM-SHA-256"), ({"of-brokers": "c"}, "another one")],
)
def test_broker_whose_user_no_node_accepts_does_not_start(
    users: dict[str, str], fault: str
) -> None:
    with (
        pytest.raises(StartupError, match=fault) as refused,
        Cluster(2, config=SASL, users=users, voters=1),
    ):
        pass
    text = str(refused.value)
    assert "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config" in text
    assert "kafka-configs.sh --alter --entity-type users --entity-name of-brokers" in text


def test_broker_that_controllers_refuse_ends_with_the_reason() -> None:
    """A broker without a vote cannot know the users of controllers at its start."""
    jaas = f'{PLAIN} username="of-quorum" password="wrong";'
    other = {2: {"listener.name.controller.plain.sasl.jaas.config": jaas, **NO_CLUSTER}}
    with (
        pytest.raises(StartupError, match="Invalid username or password\\): compare"),
        Cluster(2, config=SASL, node_config=other, users=USERS, voters=1),
    ):
        pass


def tls(directory: Path, name: str) -> dict[str, str]:
    """Return the properties of nodes whose certificate is for a name."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "ca.pem")
    own = authority.issue_cert(name)
    own.private_key_and_cert_chain_pem.write_to_path(directory / "node.pem")
    return {
        **NO_CLUSTER,
        "inter.broker.listener.name": "SSL",
        "listener.security.protocol.map": "SSL:SSL,CONTROLLER:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
    }


@observes("ssl.endpoint.identification.algorithm")
def test_certificate_of_another_name_is_accepted_without_the_check(tmp_path: Path) -> None:
    config = tls(tmp_path, "other.example")
    with Cluster(2, config={**config, "ssl.endpoint.identification.algorithm": ""}, voters=1):
        pass
    with pytest.raises(StartupError), Cluster(2, config=config, voters=1):
        pass
