"""Clusters with `security`, in one process and of several: users, a killed leader, a restart."""

from collections.abc import Iterator

import pytest
import trio
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from barnabas.client import open_client
from barnabas.config import ConfigError
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.testing import Cluster, Security
from barnabas.testing.eventually import wait_until
from barnabas.testing.process import ClusterProcess
from tests.secured_node import outcome_of_a_write


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(security=Security(users=["alice"]), replicates_topics=True) as started:
        admin = AdminClient(started.client_config())
        admin.create_topics([NewTopic("orders", 1)])["orders"].result(60)
        yield started


def test_users_may_do_what_acls_allow_on_every_node(cluster: Cluster) -> None:
    assert (
        outcome_of_a_write(cluster.client_config("alice"), "orders") == "TOPIC_AUTHORIZATION_FAILED"
    )
    acl = AclBinding(
        ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:alice", "*",
        AclOperation.WRITE, AclPermissionType.ALLOW,
    )  # fmt: skip
    admin = AdminClient(cluster.client_config())
    admin.create_acls([acl])[acl].result(60)
    for node in cluster.nodes.values():
        settings = {**cluster.client_config("alice"), "bootstrap.servers": node.bootstrap}
        assert outcome_of_a_write(settings, "orders") is None


def test_forwarded_request_is_authorized_as_its_first_sender(cluster: Cluster) -> None:
    """Brokers, which may do everything, forward; their client may not."""
    for node in cluster.nodes.values():
        assert outcome_of_a_creation(cluster, node.bootstrap) == "TOPIC_AUTHORIZATION_FAILED"
    acl = AclBinding(
        ResourceType.TOPIC, "made-", ResourcePatternType.PREFIXED, "User:alice", "*",
        AclOperation.CREATE, AclPermissionType.ALLOW,
    )  # fmt: skip
    admin = AdminClient(cluster.client_config())
    admin.create_acls([acl])[acl].result(60)
    for node in cluster.nodes.values():
        assert outcome_of_a_creation(cluster, node.bootstrap) == "NONE"


def outcome_of_a_creation(cluster: Cluster, bootstrap: str) -> str:
    """Return the error's name of a creation by alice of a topic, sent to one node."""
    topic = CreateTopicsRequest.CreatableTopic(
        name=f"made-by-{bootstrap.replace(':', '-')}", num_partitions=1, replication_factor=1
    )
    settings = {**cluster.client_config("alice"), "bootstrap.servers": bootstrap}

    async def send() -> int:
        async with open_client(settings) as client:
            answer = await client.ask_any(
                CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, timeout_s=60
            )
            return answer.topics[0].error_code

    return ErrorCode(trio.run(send)).name


def test_settings_name_the_listeners_for_clients_of_all_nodes(cluster: Cluster) -> None:
    settings, java = cluster.client_config(), cluster.java_config()
    assert settings["bootstrap.servers"] == java["bootstrap.servers"] == cluster.bootstrap
    assert cluster.bootstrap == ",".join(node.bootstrap for node in cluster.nodes.values())
    with pytest.raises(ConfigError, match="carol"):
        cluster.client_config("carol")


def test_client_without_tls_is_not_served(cluster: Cluster) -> None:
    plain = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": "0"})
    with pytest.raises(KafkaException):
        plain.list_topics(timeout=1)


def test_killed_leader_comes_back_to_its_port(cluster: Cluster) -> None:
    leader = cluster.leader_of("orders", 0)
    address = cluster.nodes[leader].bootstrap
    cluster.kill(leader)
    wait_until(lambda: cluster.leader_of("orders", 0) not in (leader, -1))
    assert outcome_of_a_write(cluster.client_config(), "orders") is None
    cluster.restart(leader)
    assert cluster.nodes[leader].bootstrap == address
    cluster.wait_in_sync("orders", 0)


def test_cluster_of_processes_keeps_its_users_over_a_kill_of_all_nodes() -> None:
    with ClusterProcess(3, security=Security(), replicates_topics=True) as cluster:
        settings = cluster.client_config()
        admin = AdminClient(settings)
        admin.create_topics([NewTopic("orders", 1)])["orders"].result(60)
        assert outcome_of_a_write(settings, "orders") is None
        cluster.kill_all()
        cluster.start()
        assert cluster.client_config() == settings
        assert outcome_of_a_write(settings, "orders") is None


def test_cluster_without_security_has_plain_settings() -> None:
    cluster = Cluster(nodes=1)
    assert (
        cluster.client_config() == cluster.java_config() == {"bootstrap.servers": cluster.bootstrap}
    )
    cluster.close()
