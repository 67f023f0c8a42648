"""The warning of controllers that would refuse each other's votes."""

import pytest

from barnabas.config import NodeConfig
from barnabas.server.node.authorizer_setup import warn_of_controllers
from barnabas.server.node.peer_access import node_access

THREE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093,127.0.0.1:9095,127.0.0.1:9097",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
ALONE = {"controller.quorum.bootstrap.servers": "127.0.0.1:9093"}
BROKER = {
    "process.roles": "broker",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9095",
}
PLAIN_LOGIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="node" password="p";'
)
SASL = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": f'{PLAIN_LOGIN[:-1]} user_node="p";',
}


def warning(caplog: pytest.LogCaptureFixture, *changes: dict[str, str]) -> str:
    """Return the warning at the start of a node, empty without one."""
    config = NodeConfig.load(
        None, {name: text for each in (THREE, *changes) for name, text in each.items()}
    )
    warn_of_controllers(config, node_access(config, {}))
    return "".join(record.getMessage() for record in caplog.records)


def test_controllers_in_plain_text_are_anonymous(caplog: pytest.LogCaptureFixture) -> None:
    assert warning(caplog).startswith(
        "super.users lacks User:ANONYMOUS, as whom this node connects to controllers "
        "(listener CONTROLLER)"
    )


def test_controllers_are_the_users_of_their_logins(caplog: pytest.LogCaptureFixture) -> None:
    assert warning(caplog, SASL).startswith("super.users lacks User:node,")


@pytest.mark.parametrize(
    "changes",
    [
        [{"super.users": "User:other;User:ANONYMOUS"}],
        [SASL, {"super.users": "User:node"}],
        [ALONE],
        [BROKER],
    ],
    ids=["anonymous super user", "super user by SASL", "one controller", "broker"],
)
def test_nodes_whose_votes_are_accepted_warn_of_nothing(
    caplog: pytest.LogCaptureFixture, changes: list[dict[str, str]]
) -> None:
    assert warning(caplog, *changes) == ""
