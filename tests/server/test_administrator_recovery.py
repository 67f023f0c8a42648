"""A node whose users cannot log in is opened again on its own machine (docs/sasl.md)."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from barnabas.testing import Node

MODULES = "org.apache.kafka.common.security"
CLIENTS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
    ),
    "listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.clients.scram-sha-256.sasl.jaas.config": (
        f"{MODULES}.scram.ScramLoginModule required;"
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
RESCUE = {
    "listeners": f"{CLIENTS['listeners']},RESCUE://127.0.0.1:0",
    "listener.security.protocol.map": (
        f"{CLIENTS['listener.security.protocol.map']},RESCUE:SASL_PLAINTEXT"
    ),
    "listener.name.rescue.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.rescue.plain.sasl.jaas.config": (
        f'{MODULES}.plain.PlainLoginModule required user_admin="temporary";'
    ),
}


def admin_client(node: Node, listener: str, mechanism: str, password: str) -> AdminClient:
    assert node.server is not None
    return AdminClient(
        {
            "bootstrap.servers": f"127.0.0.1:{node.server.bound_port(listener)}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": "admin",
            "sasl.password": password,
            "log_level": "0",
        }
    )


def test_listener_with_a_temporary_password_gives_the_administrator_a_new_one(
    tmp_path: Path,
) -> None:
    with (
        Node(tmp_path, CLIENTS) as node,
        pytest.raises(KafkaException),
    ):
        admin_client(node, "CLIENTS", "SCRAM-SHA-256", "lost").list_topics(timeout=1)
    with Node(tmp_path, {**CLIENTS, **RESCUE}) as node:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        admin = admin_client(node, "RESCUE", "PLAIN", "temporary")
        change = UserScramCredentialUpsertion("admin", info, b"new")
        admin.alter_user_scram_credentials([change])["admin"].result(60)
    with Node(tmp_path, CLIENTS) as node:
        found = admin_client(node, "CLIENTS", "SCRAM-SHA-256", "new").list_topics(timeout=60)
        assert len(found.brokers) == 1
