"""A node with SCRAM users and ACLs, for tests of what connects to it."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from barnabas.testing import Node
from barnabas.testing.free_ports import free_ports

ANY_ACL = AclBindingFilter(
    ResourceType.ANY,
    None,
    ResourcePatternType.ANY,
    None,
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def secured_properties(port: int) -> dict[str, str]:
    """Return the properties: administrators are on PLAINTEXT, users of SCRAM on `port`."""
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0,"
        f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "group.initial.rebalance.delay.ms": "0",
    }


class SecuredNode:
    """Addresses of the node: `bootstrap` is for administrators, `sasl` for users."""

    def __init__(self, bootstrap: str, sasl: str) -> None:
        self.bootstrap = bootstrap
        self.sasl = sasl

    def properties(self, user: str, password: str) -> dict[str, str]:
        """Return the properties of a client that is the user."""
        return {
            "bootstrap.servers": self.sasl,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": user,
            "sasl.password": password,
        }


@contextmanager
def secured_node(more: Mapping[str, str] | None = None) -> Iterator[SecuredNode]:
    """Run a node without users and ACLs."""
    (port,) = free_ports(1)
    with Node(config={**secured_properties(port), **(more or {})}) as node:
        yield SecuredNode(node.bootstrap, f"127.0.0.1:{port}")


def add_users(node: SecuredNode, *names: str) -> None:
    """Add users whose passwords are NAME-secret."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    for name in names:
        change = UserScramCredentialUpsertion(name, scram, f"{name}-secret".encode())
        admin.alter_user_scram_credentials([change])[name].result(60)


def allow(
    node: SecuredNode,
    user: str,
    resource: str,
    *operations: str,
    deny: bool = False,
    host: str = "*",
) -> None:
    """Allow a user operations on a resource; a name that ends with `*` is a prefix."""
    kind, _, name = resource.partition(":")
    is_prefix = len(name) > 1 and name.endswith("*")
    acls = [
        AclBinding(
            ResourceType[kind.upper()],
            name.removesuffix("*") if is_prefix else name,
            ResourcePatternType.PREFIXED if is_prefix else ResourcePatternType.LITERAL,
            f"User:{user}",
            host,
            AclOperation[each],
            AclPermissionType.DENY if deny else AclPermissionType.ALLOW,
        )
        for each in operations
    ]
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for future in admin.create_acls(acls).values():
        future.result(60)
    deadline = time.monotonic() + 120
    while not set(acls) <= set(admin.describe_acls(ANY_ACL).result(60)):  # Kafka applies them later
        assert time.monotonic() < deadline, "the rights are not in effect"
        time.sleep(0.05)


def outcome_of_a_write(settings: Mapping[str, str], topic: str) -> str | None:
    """Write a record with a client's settings; return the name of its error, None without one."""
    outcomes: list[str | None] = []
    producer = Producer({**settings, "log_level": "0"})
    producer.produce(topic, b"x", callback=lambda e, _: outcomes.append(e and e.name()))
    assert producer.flush(60) == 0
    return outcomes[0]
