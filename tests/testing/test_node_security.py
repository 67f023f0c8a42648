"""A node with `security`: settings of its users, also after a restart; the fixtures of pytest."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
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

from barnabas.config import ConfigError
from barnabas.testing import Node, Security
from tests.secured_node import outcome_of_a_write


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(security=Security(users=["alice", "bob"])) as started:
        admin = AdminClient(started.client_config())
        admin.create_topics([NewTopic("orders", 1)])["orders"].result(60)
        yield started


def test_user_may_do_what_acls_allow(node: Node) -> None:
    assert outcome_of_a_write(node.client_config("alice"), "orders") == "TOPIC_AUTHORIZATION_FAILED"
    acl = AclBinding(
        ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:alice", "*",
        AclOperation.WRITE, AclPermissionType.ALLOW,
    )  # fmt: skip
    admin = AdminClient(node.client_config())
    admin.create_acls([acl])[acl].result(60)
    assert outcome_of_a_write(node.client_config("alice"), "orders") is None
    assert outcome_of_a_write(node.client_config("bob"), "orders") == "TOPIC_AUTHORIZATION_FAILED"
    assert outcome_of_a_write(node.client_config("admin"), "orders") is None


def test_node_that_stopped_comes_back_with_its_users_and_port(node: Node) -> None:
    before = node.client_config("bob")
    node.stop()
    node.start()
    assert node.client_config("bob") == before
    assert "orders" in AdminClient(node.client_config()).list_topics(timeout=60).topics


def test_settings_of_java_have_the_same_user(node: Node) -> None:
    settings, java = node.client_config("bob"), node.java_config("bob")
    assert java["bootstrap.servers"] == settings["bootstrap.servers"] == node.bootstrap
    assert f'username="bob" password="{settings["sasl.password"]}";' in java["sasl.jaas.config"]
    assert java["ssl.truststore.location"] == settings["ssl.ca.location"]


def test_settings_of_an_unknown_user_are_refused(node: Node) -> None:
    with pytest.raises(ConfigError, match=r"no settings of the user carol: name it in Security"):
        node.client_config("carol")


def test_users_as_a_string_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"give a list of names, as \['alice'\]"):
        Security(users="alice")


def test_client_without_tls_is_not_served(node: Node) -> None:
    plain = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": "0"})
    with pytest.raises(KafkaException):
        plain.list_topics(timeout=1)


def test_fixtures_of_the_plugin_are_nodes(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["barnabas.testing.pytest_plugin"]\n')
    (tmp_path / "test_it.py").write_text(
        "def test_it(barnabas_node, barnabas_secured_node):\n"
        "    plain, secured = barnabas_node, barnabas_secured_node\n"
        "    assert plain.client_config() == {'bootstrap.servers': plain.bootstrap}\n"
        "    assert secured.client_config()['security.protocol'] == 'SASL_SSL'\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
