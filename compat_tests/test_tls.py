"""Clients of other projects on a listener with TLS, with stores that keytool made."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaProducer

from barnabas.testing import Node
from compat_tests import jars

STORES = Path(__file__).parent.parent / "tests/key_stores/testdata"
PASSWORD = "store-secret"


@pytest.fixture(scope="module", params=["JKS", "PKCS12"])
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    """A node that trusts, and shows, the certificates of the stores."""
    suffix = {"JKS": "jks", "PKCS12": "p12"}[request.param]
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "ssl.keystore.type": request.param,
        "ssl.keystore.location": str(STORES / f"node.{suffix}"),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.type": request.param,
        "ssl.truststore.location": str(STORES / f"trust.{suffix}"),
        "ssl.truststore.password": PASSWORD,
        "ssl.client.auth": "requested",
    }
    if suffix == "jks":
        config["ssl.key.password"] = "key-secret"
    with Node(config=config) as started:
        yield started


@pytest.fixture
def secure(node: Node) -> str:
    assert node.server is not None
    return f"127.0.0.1:{node.server.bound_port('SSL')}"


@pytest.fixture
def authorities(node: Node) -> Path:
    """The certificate that the node shows, which is its own authority.

    OpenSSL takes the wrong one of two authorities with one name.
    """
    assert node.server is not None
    is_jks = node.server.config.get("ssl.keystore.type") == "JKS"
    return STORES / ("node-jks.pem" if is_jks else "node-p12.pem")


def test_confluent_produces_and_consumes(secure: str, authorities: Path) -> None:
    settings = {
        "bootstrap.servers": secure,
        "security.protocol": "SSL",
        "ssl.ca.location": str(authorities),
    }
    values = [b"%d:" % i + bytes(10_000) for i in range(500)]
    producer = Producer(settings)
    for value in values:
        producer.produce("confluent", value, partition=0)
    assert producer.flush(60) == 0
    consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("confluent", 0, 0)])
    found = [message.value() for message in consumer.consume(len(values), timeout=60)]
    consumer.close()
    assert found == values


def test_kafka_python_produces(secure: str, authorities: Path) -> None:
    producer = KafkaProducer(
        bootstrap_servers=secure, security_protocol="SSL", ssl_cafile=str(authorities)
    )
    try:
        assert producer.send("kafka-python", b"v").get(timeout=60).offset == 0
    finally:
        producer.close()


@jars.needed
def test_javas_tools_produce_and_consume(secure: str, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SSL\n"
        f"ssl.truststore.location={STORES / 'trust.p12'}\nssl.truststore.password={PASSWORD}\n"
        f"ssl.keystore.location={STORES / 'node.p12'}\nssl.keystore.password={PASSWORD}\n"
    )
    tool = "org.apache.kafka.tools"
    at = ("--bootstrap-server", secure, "--command-config", str(properties))
    jars.java(f"{tool}.ConsoleProducer", *at, "--topic", "java", stdin="a\nb\n")
    limits = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "60000")
    out = jars.java(f"{tool}.consumer.ConsoleConsumer", *at, "--topic", "java", *limits).stdout
    assert out.splitlines() == ["a", "b"]


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture
def authenticated() -> Iterator[str]:
    """The SASL_SSL listener of a node with an authorizer, whose administrator is User:admin.

    The node does not ask for certificates: SASL_SSL ignores `ssl.client.auth` without its prefix.
    """
    listeners = "SASL_SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    config = {
        "listeners": listeners,
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(STORES / "node.p12"),
        "ssl.keystore.password": PASSWORD,
        "ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{PLAIN} required user_admin="admin-secret" user_alice="alice-secret";'
        ),
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:admin",
    }
    with Node(config=config) as started:
        assert started.server is not None
        yield f"127.0.0.1:{started.server.bound_port('SASL_SSL')}"


def _login(bootstrap: str, user: str) -> dict[str, object]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(STORES / "node-p12.pem"),
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
    }


def test_user_who_logs_in_over_tls_may_do_what_an_acl_allows(authenticated: str) -> None:
    topic, outcomes = "orders", []

    def write() -> None:
        producer = Producer(_login(authenticated, "alice"))
        producer.produce(topic, b"v", on_delivery=lambda error, _: outcomes.append(error))
        assert producer.flush(60) == 0

    write()
    assert outcomes.pop().code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    admin = AdminClient(_login(authenticated, "admin"))
    rule = AclPermissionType.ALLOW
    for operation in (AclOperation.WRITE, AclOperation.CREATE):
        where = ResourceType.TOPIC, topic, ResourcePatternType.LITERAL
        acl = AclBinding(*where, "User:alice", "*", operation, rule)
        admin.create_acls([acl])[acl].result(60)
    write()
    assert outcomes == [None]
