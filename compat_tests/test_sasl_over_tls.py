"""librdkafka's clients with each mechanism over TLS: records, groups, transactions, admin calls.

The users are not super users: ACLs give each the names that begin as its own.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from barnabas.testing.free_ports import free_ports
from compat_tests.cluster.secured import AUTHORIZER, PLAIN, SCRAM, Security
from compat_tests.servers import KINDS
from compat_tests.token_issuer import AUDIENCE, ISSUER, TokenIssuer

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_OAUTH = "org.apache.kafka.common.security.oauthbearer"
_HASHES = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
           "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}  # fmt: skip
TOPICS, GROUPS, TRANSACTIONS = "own-", "readers-", "writers-"
"""The beginnings of the names that the users may use."""


def user_of(mechanism: str) -> str:
    """Return the user that logs in with a mechanism; each has its own."""
    return f"user-{mechanism.lower()}"


@attrs.frozen
class Server:
    """A server whose listener takes each mechanism over TLS."""

    plain: str
    address: str
    authority: Path
    issuer: TokenIssuer

    def client(self, mechanism: str) -> dict[str, str]:
        """Return the settings of the user of a mechanism."""
        user = user_of(mechanism)
        settings = {
            "bootstrap.servers": self.address,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority),
            "sasl.mechanism": mechanism,
        }
        if mechanism != "OAUTHBEARER":
            return {**settings, "sasl.username": user, "sasl.password": f"{user}-secret"}
        return {
            **settings,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": user,
            "sasl.oauthbearer.client.secret": f"{user}-secret",
            "sasl.oauthbearer.token.endpoint.url": self.issuer.url,
        }


def properties_of(
    process_port: int, port: int, controller_port: int, security: Security, keys: Path
) -> dict[str, str]:
    """Return the properties of a server with the listeners PLAINTEXT and SASL_SSL."""
    clients = f"PLAINTEXT://127.0.0.1:{process_port},SASL_SSL://127.0.0.1:{port}"
    user = user_of("PLAIN")
    prefix = "listener.name.sasl_ssl"
    tokens = f"{prefix}.oauthbearer.sasl"
    return {
        **security.stores(),
        "listeners": f"{clients},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": clients,
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{prefix}.plain.sasl.jaas.config": f'{PLAIN} user_{user}="{user}-secret";',
        **{f"{prefix}.{each.lower()}.sasl.jaas.config": f"{SCRAM};" for each in _HASHES},
        f"{tokens}.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
        f"{tokens}.server.callback.handler.class": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
        f"{tokens}.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        f"{tokens}.oauthbearer.expected.audience": AUDIENCE,
        f"{tokens}.oauthbearer.expected.issuer": ISSUER,
    }


def allowed(user: str, kind: ResourceType, prefix: str) -> AclBinding:
    """Return the ACL that lets a user do all with the resources whose names begin so."""
    return AclBinding(
        kind,
        prefix,
        ResourcePatternType.PREFIXED,
        f"User:{user}",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )


def add_users(bootstrap: str) -> None:
    """Add the users of SCRAM, and the ACLs of all."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for mechanism, kind in _HASHES.items():
        user = user_of(mechanism)
        change = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(kind, 4096), f"{user}-secret".encode()
        )
        admin.alter_user_scram_credentials([change])[user].result(60)
    kinds = {
        ResourceType.TOPIC: TOPICS,
        ResourceType.GROUP: GROUPS,
        ResourceType.TRANSACTIONAL_ID: TRANSACTIONS,
    }
    bindings = [
        allowed(user_of(mechanism), kind, prefix)
        for mechanism in MECHANISMS
        for kind, prefix in kinds.items()
    ]
    for created in admin.create_acls(bindings).values():
        created.result(60)


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    if request.config.getoption("--bootstrap"):
        pytest.skip("needs a server with its own listeners")
    directory = tmp_path_factory.mktemp("sasl-over-tls")
    user = user_of("OAUTHBEARER")
    with TokenIssuer({user: f"{user}-secret"}) as issuer:
        keys = issuer.write_keys(directory / "keys.json")

        class Process(KINDS[request.config.getoption("--server")]):
            def command(self) -> list[str]:
                program, *rest = super().command()
                allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
                java = [f"{allowed}.urls={keys.as_uri()}", f"{allowed}.files={keys}"]
                return [program, *(java if program == "java" else []), *rest]

        process = Process()
        (port,) = free_ports(1)
        security = Security(directory)
        process.properties |= properties_of(
            process.port, port, process.controller_port, security, keys
        )
        try:
            process.start()
            add_users(process.bootstrap)
            yield Server(process.bootstrap, f"127.0.0.1:{port}", security.ca, issuer)
        finally:
            process.close()


def created(client: dict[str, str], name: str) -> str:
    """Create a topic with two partitions."""
    admin = AdminClient(client)
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(60)
    return name


def read(client: dict[str, str], topic: str, count: int, **more: str) -> list[bytes]:
    """Return the values that a member of a group reads, and commit them."""
    settings = {**client, "auto.offset.reset": "earliest", "enable.auto.commit": "false", **more}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    found: list[bytes] = []
    try:
        while len(found) < count:
            message = consumer.poll(60)
            assert message is not None
            if message.error() is None:
                found.append(message.value())
            else:
                assert message.error().retriable(), message.error()
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return sorted(found)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_groups_read_what_a_producer_writes(
    server: Server, unique: Callable[[str], str], mechanism: str, protocol: str
) -> None:
    client = server.client(mechanism)
    topic, group = created(client, unique(TOPICS)), unique(GROUPS)
    producer = Producer({**client, "enable.idempotence": "true"})
    values = [b"%d" % number for number in range(20)]
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % 2)
    assert producer.flush(60) == 0
    own = {"group.id": group, "group.protocol": protocol}
    assert read(client, topic, len(values), **own) == sorted(values)
    committed = Consumer({**client, **own}).committed([TopicPartition(topic, 0)], 60)
    assert committed[0].offset == 10


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_transaction_moves_records_and_offsets(
    server: Server, unique: Callable[[str], str], mechanism: str
) -> None:
    client = server.client(mechanism)
    source, target = created(client, unique(TOPICS)), created(client, unique(TOPICS))
    producer = Producer({**client, "transactional.id": unique(TRANSACTIONS)})
    producer.init_transactions(60)
    consumer = Consumer({**client, "group.id": unique(GROUPS)})
    for is_kept in (False, True):
        producer.begin_transaction()
        producer.produce(target, b"kept" if is_kept else b"dropped", partition=0)
        offsets = [TopicPartition(source, 0, 7)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 60)
        if is_kept:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
    assert consumer.committed([TopicPartition(source, 0)], 60)[0].offset == 7
    consumer.close()
    assert read(client, target, 1, **{"group.id": unique(GROUPS)}) == [b"kept"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_admin_is_confined_to_its_names(
    server: Server, unique: Callable[[str], str], mechanism: str
) -> None:
    client = server.client(mechanism)
    own, other = created(client, unique(TOPICS)), unique("other-")
    administrator = AdminClient({"bootstrap.servers": server.plain})
    administrator.create_topics([NewTopic(other, 1, 1)])[other].result(60)
    admin = AdminClient(client)
    shown = admin.list_topics(timeout=60).topics
    assert own in shown
    assert other not in shown
    with pytest.raises(KafkaException) as refused:
        admin.delete_topics([other])[other].result(60)
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    admin.delete_topics([own])[own].result(60)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_secret_is_refused(server: Server, mechanism: str) -> None:
    errors: list[KafkaError] = []
    name = "sasl.oauthbearer.client.secret" if mechanism == "OAUTHBEARER" else "sasl.password"
    admin = AdminClient({**server.client(mechanism), name: "wrong", "error_cb": errors.append})
    deadline = time.monotonic() + 60
    while KafkaError._AUTHENTICATION not in {each.code() for each in errors}:
        assert time.monotonic() < deadline, errors
        admin.poll(0.1)
