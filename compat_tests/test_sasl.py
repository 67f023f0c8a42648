"""SASL: real clients with right and wrong credentials, and requests in odd orders.

The rows hold for Apache Kafka too; where ours differs by choice the test says so.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from kafka import KafkaAdminClient
from kafka.errors import KafkaError as PythonKafkaError

from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.testing.free_ports import free_ports
from compat_tests import jars, wire
from compat_tests.servers import KINDS

MODULES = "org.apache.kafka.common.security"
PLAIN_MODULE = f"{MODULES}.plain.PlainLoginModule"
SCRAM_MODULE = f"{MODULES}.scram.ScramLoginModule"
USERS = 'user_alice="alice-secret" user_bob="bob-secret"'
HANDLER = f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
KEY = RSAKey.generate_key(2048, {"kid": "one"})
INVALID = "Authentication failed: Invalid username or password"
GOOD, BAD = b"\0alice\0alice-secret", b"\0alice\0wrong"
OTHER_USER = b"\0bob\0bob-secret"
LIFETIME_MS = 3000


@dataclass
class Secured:
    """A server with listeners that authenticate their clients.

    Sessions of `reauth` end after three seconds; `tokens` takes OAUTHBEARER. `plain` needs nothing.
    """

    plain: str
    sasl: str
    reauth: str
    tokens: str


def properties_of(ports: list[int], controller_port: int, keys: Path) -> dict[str, str]:
    names = ("PLAINTEXT", "SASL", "REAUTH", "TOKENS")
    clients = [f"{n}://127.0.0.1:{p}" for n, p in zip(names, ports, strict=True)]
    listeners = ",".join([*clients, f"CONTROLLER://127.0.0.1:{controller_port}"])
    protocols = [f"{n}:SASL_PLAINTEXT" for n in names[1:]]
    config = {
        "listeners": listeners,
        "advertised.listeners": ",".join(clients),
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", *protocols]
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.reauth.connections.max.reauth.ms": str(LIFETIME_MS),
        "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
    }
    for listener in ("sasl", "reauth"):
        prefix = f"listener.name.{listener}"
        config[f"{prefix}.plain.sasl.jaas.config"] = f"{PLAIN_MODULE} required {USERS};"
        for mechanism in SCRAM:
            config[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = f"{SCRAM_MODULE} required;"
    prefix = "listener.name.tokens.oauthbearer"
    module = f"{MODULES}.oauthbearer.OAuthBearerLoginModule"
    return {
        **config,
        f"{prefix}.sasl.jaas.config": f"{module} required;",
        f"{prefix}.sasl.server.callback.handler.class": HANDLER,
        f"{prefix}.sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        f"{prefix}.sasl.oauthbearer.expected.audience": "kafka",
        f"{prefix}.sasl.oauthbearer.expected.issuer": "https://issuer",
    }


@pytest.fixture(scope="module")
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    if request.config.getoption("--bootstrap"):
        pytest.skip("needs a server with its own listeners")
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    keys.write_text(json.dumps(KeySet([KEY]).as_dict(private=False)))
    kind = KINDS[request.config.getoption("--server")]

    class SecuredProcess(kind):
        def command(self) -> list[str]:
            program, *rest = super().command()
            if program != "java":
                return [program, *rest]
            allowed = "org.apache.kafka.sasl.oauthbearer.allowed"
            return [
                program,
                f"-D{allowed}.urls={keys.as_uri()}",
                f"-D{allowed}.files={keys}",
                *rest,
            ]

    process = SecuredProcess()
    ports = [process.port, *free_ports(3)]
    process.properties.update(properties_of(ports, process.controller_port, keys))
    try:
        process.start()
        addresses = [f"127.0.0.1:{port}" for port in ports]
        admin = AdminClient({"bootstrap.servers": addresses[0]})
        changes = [
            UserScramCredentialUpsertion("carol", ScramCredentialInfo(each, 4096), b"carol-secret")
            for each in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        for change in changes:  # a user may appear once in a request
            admin.alter_user_scram_credentials([change])["carol"].result(60)
        yield Secured(*addresses)
    finally:
        process.close()


def client(bootstrap: str, mechanism: str, user: str, password: str) -> dict[str, object]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


PASSWORDS = [
    ("PLAIN", "alice", "alice-secret"),
    *[(each, "carol", "carol-secret") for each in SCRAM],
]


@pytest.mark.parametrize(("mechanism", "user", "password"), PASSWORDS)
@pytest.mark.parametrize("listener", ["sasl", "reauth"])
def test_confluent_client_authenticates_and_passes_records(
    secured, unique, listener, mechanism, user, password
) -> None:
    topic = unique("sasl")
    settings = client(getattr(secured, listener), mechanism, user, password)
    producer = Producer(settings)
    failures: list[object] = []
    until = time.monotonic() + (LIFETIME_MS / 1000 + 1 if listener == "reauth" else 0)
    while True:
        producer.produce(topic, b"v", on_delivery=lambda error, _: failures.append(error))
        assert producer.flush(60) == 0
        if time.monotonic() > until:
            break
        time.sleep(0.2)  # records pass before and after the session's end
    assert set(failures) == {None}
    group = {"group.id": unique("group"), "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, **group})
    consumer.subscribe([topic])
    message = consumer.poll(60)
    assert message is not None
    assert message.value() == b"v"
    consumer.close()


@pytest.mark.parametrize(
    ("mechanism", "user", "password", "reason"),
    [
        ("PLAIN", "alice", "wrong", INVALID),
        ("PLAIN", "nobody", "wrong", INVALID),
        *[
            (each, user, "wrong", f"due to invalid credentials with SASL mechanism {each}")
            for each in SCRAM
            for user in ("carol", "nobody", "alice")
        ],
    ],
)
def test_confluent_client_with_wrong_credentials_is_refused(
    secured, mechanism, user, password, reason
) -> None:
    errors: list[str] = []
    settings = client(secured.sasl, mechanism, user, password)
    admin = AdminClient({**settings, "error_cb": lambda error: errors.append(error.str())})
    deadline = time.monotonic() + 60
    while not errors and time.monotonic() < deadline:
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=1)
        admin.poll(0)
    assert reason in errors[0]


@pytest.mark.parametrize(("mechanism", "user", "password"), PASSWORDS)
def test_kafka_python_authenticates(secured, mechanism, user, password) -> None:
    settings = {
        "bootstrap_servers": secured.sasl,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
    }
    admin = KafkaAdminClient(**settings, sasl_plain_password=password)
    assert isinstance(admin.list_topics(), list)
    admin.close()
    with pytest.raises(PythonKafkaError):
        KafkaAdminClient(**settings, sasl_plain_password="wrong", bootstrap_timeout_ms=3000)


@pytest.mark.parametrize(("mechanism", "user", "password"), PASSWORDS)
def test_aiokafka_authenticates(secured, unique, mechanism, user, password) -> None:
    async def send(secret: str) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=secured.sasl,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=user,
            sasl_plain_password=secret,
        )
        try:
            await producer.start()
            await producer.send_and_wait(topic, b"v")
        finally:
            await producer.stop()

    topic = unique("sasl-aio")
    asyncio.run(send(password))
    with pytest.raises(AioKafkaError):
        asyncio.run(send("wrong"))


def token(subject: str = "alice", **claims: object) -> str:
    now_s = int(time.time())
    body = {"sub": subject, "iss": "https://issuer", "aud": "kafka", "iat": now_s}
    return jwt.encode({"alg": "RS256", "kid": "one"}, {**body, "exp": now_s + 600, **claims}, KEY)


def test_confluent_client_authenticates_with_a_token(secured) -> None:
    admin = AdminClient(
        {
            "bootstrap.servers": secured.tokens,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "OAUTHBEARER",
            "oauth_cb": lambda _: (token(), time.time() + 600),
        }
    )
    admin.poll(1)
    assert admin.list_topics(timeout=60).brokers


@pytest.mark.parametrize(
    "claims", [{"aud": "other"}, {"iss": "other"}, {"exp": 1}, {"iat": None}, {"sub": ""}]
)
def test_invalid_token_gets_an_error_document_and_then_the_failure(secured, claims) -> None:
    with wire.Connection(secured.tokens) as connection:
        assert connection.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1).error_code == 0
        message = f"n,,\x01auth=Bearer {token(**claims)}\x01\x01".encode()
        answer = connection.call(SaslAuthenticateRequest(auth_bytes=message), 2)
        assert (answer.error_code, answer.auth_bytes) == (0, b'{"status":"invalid_token"}')
        answer = connection.call(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)
        assert (answer.error_code, answer.error_message) == (58, '{"status":"invalid_token"}')
        assert connection.closes_silently()


@jars.needed
@pytest.mark.parametrize(("mechanism", "user", "password"), PASSWORDS)
def test_java_tool_authenticates(secured, tmp_path, mechanism, user, password) -> None:
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={module} required username="{user}" password="{password}";\n'
    )
    shown = jars.java(
        "org.apache.kafka.tools.ClusterTool",
        *("cluster-id", "--bootstrap-server", secured.sasl, "--command-config", str(file)),
    ).stdout
    assert shown.startswith("Cluster ID: ")


CONFIG_COMMAND = "kafka.admin.ConfigCommand"


@jars.needed
def test_kafka_configs_sets_describes_and_removes_a_user(secured, unique) -> None:
    def configs(*arguments: str) -> list[str]:
        entity = ("--bootstrap-server", secured.plain, "--entity-type", "users")
        out = jars.java(CONFIG_COMMAND, *entity, "--entity-name", user, *arguments).stdout
        return out.splitlines()

    user = unique("user")
    assert configs(
        "--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]"
    ) == [f"Completed updating config for user {user}."]
    assert configs("--describe") == [
        f"SCRAM credential configs for user-principal '{user}' are SCRAM-SHA-256=iterations=8192"
    ]
    settings = client(secured.sasl, "SCRAM-SHA-256", user, "secret")
    assert AdminClient(settings).list_topics(timeout=60).brokers
    assert configs("--alter", "--delete-config", "SCRAM-SHA-256") == [
        f"Completed updating config for user {user}."
    ]
    assert configs("--describe") == []


def test_confluent_admin_describes_and_removes_users(secured, unique) -> None:
    admin, user = AdminClient({"bootstrap.servers": secured.plain}), unique("user")
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 5000)
    change = UserScramCredentialUpsertion(user, info, b"secret", b"salt")
    admin.alter_user_scram_credentials([change])[user].result(60)
    found = admin.describe_user_scram_credentials([user])[user].result(60).scram_credential_infos
    assert [(each.mechanism, each.iterations) for each in found] == [(info.mechanism, 5000)]
    everyone = admin.describe_user_scram_credentials().result(60)
    assert {user, "carol"} <= set(everyone)
    deletion = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([deletion])[user].result(60)
    with pytest.raises(KafkaException, match="does not exist"):
        admin.describe_user_scram_credentials([user])[user].result(60)


Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096) -> Upsertion:
    return Upsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=b"salt",
        salted_password=b"p" * 32,
    )


def test_users_of_one_request_succeed_and_fail_separately(secured, unique) -> None:
    good, twice = unique("good"), unique("twice")
    request = AlterUserScramCredentialsRequest(
        deletions=[Deletion(name=unique("gone"), mechanism=1), Deletion(name="", mechanism=1)],
        upsertions=[
            upsertion(good),
            upsertion(twice, 1),
            upsertion(twice, 2),
            upsertion(unique("few"), iterations=4095),
            upsertion(unique("many"), iterations=16385),
            upsertion(unique("unknown"), mechanism=0),
        ],
    )
    results = wire.call(secured.plain, request, 0).results
    prefix = {each.user.partition("-")[0]: each for each in results}
    assert {name: (each.error_code, each.error_message) for name, each in prefix.items()} == {
        "": (93, "Username must not be empty"),
        "few": (93, "Too few iterations"),
        "gone": (91, "Attempt to delete a user credential that does not exist"),
        "good": (0, None),
        "many": (93, "Too many iterations"),
        "twice": (92, "A user credential cannot be altered twice in the same request"),
        "unknown": (33, "Unknown SCRAM mechanism"),
    }
    names = [DescribeUserScramCredentialsRequest.UserName(name=good)]
    described = wire.call(secured.plain, DescribeUserScramCredentialsRequest(users=names), 0)
    (found,) = described.results
    assert (found.error_code, found.error_message) == (0, "")
    assert [(each.mechanism, each.iterations) for each in found.credential_infos] == [(1, 4096)]


# Requests in odd orders


def shaken(connection: wire.Connection, mechanism: str = "PLAIN", version: int = 1) -> None:
    assert connection.call(SaslHandshakeRequest(mechanism=mechanism), version).error_code == 0


def log_in(connection: wire.Connection, secret: bytes = GOOD, version: int = 2):
    return connection.call(SaslAuthenticateRequest(auth_bytes=secret), version)


def is_served(connection: wire.Connection) -> bool:
    return connection.call(MetadataRequest(topics=[]), 12).cluster_id is not None


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_handshake_and_token_are_answered(secured, version) -> None:
    with wire.Connection(secured.sasl) as connection:
        assert connection.call(ApiVersionsRequest(), 0).error_code == 0
        shaken(connection)
        answer = log_in(connection, version=version)
        assert (answer.error_code, answer.error_message, answer.auth_bytes) == (0, "", b"")
        assert answer.session_lifetime_ms == 0
        assert is_served(connection)


def test_handshake_of_version_0_is_followed_by_raw_tokens(secured) -> None:
    with wire.Connection(secured.sasl) as connection:
        shaken(connection, version=0)
        connection.send_frame(GOOD)
        assert connection.receive_frame() == b""
        assert is_served(connection)
    with wire.Connection(secured.sasl) as connection:
        shaken(connection, version=0)
        connection.send_frame(BAD)
        assert connection.closes_silently()


@pytest.mark.parametrize(
    "message",
    [MetadataRequest(topics=[]), SaslAuthenticateRequest(auth_bytes=GOOD)],
    ids=["Metadata", "SaslAuthenticate"],
)
def test_other_api_before_the_handshake_closes(secured, message) -> None:
    with wire.Connection(secured.sasl) as connection:
        connection.send(message, 1)
        assert connection.closes_silently()
    with wire.Connection(secured.sasl) as connection:
        assert connection.call(ApiVersionsRequest(), 0).error_code == 0
        connection.send(message, 1)
        assert connection.closes_silently()


def test_second_versions_request_closes(secured) -> None:
    with wire.Connection(secured.sasl) as connection:
        assert connection.call(ApiVersionsRequest(), 0).error_code == 0
        connection.send(ApiVersionsRequest(), 0)
        assert connection.closes_silently()


def test_versions_request_that_is_refused_may_be_repeated(secured) -> None:
    with wire.Connection(secured.sasl) as connection:
        name = ApiVersionsRequest(client_software_name=" ", client_software_version="1")
        assert connection.call(name, 3).error_code == 42
        assert connection.call(ApiVersionsRequest(), 0).error_code == 0
        shaken(connection)
        assert log_in(connection).error_code == 0


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("mechanism", ["GSSAPI", "plain", ""])
def test_unknown_mechanism_is_answered_with_the_enabled_ones(secured, version, mechanism) -> None:
    with wire.Connection(secured.sasl) as connection:
        answer = connection.call(SaslHandshakeRequest(mechanism=mechanism), version)
        assert answer.error_code == 33
        assert set(answer.mechanisms) == {"PLAIN", *SCRAM}
        assert connection.closes_silently()


def test_other_api_in_place_of_a_token_gets_its_own_error(secured) -> None:
    for message, version in ((ApiVersionsRequest(), 0), (SaslHandshakeRequest(mechanism="x"), 1)):
        with wire.Connection(secured.sasl) as connection:
            shaken(connection)
            assert connection.call(message, version).error_code == 34
            assert connection.closes_silently()


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        (BAD, INVALID),
        (b"\0nobody\0wrong", INVALID),
        (b"bob" + GOOD, "Authentication failed: Client requested an authorization id that is "
         "different from username"),
        (b"\0\0x", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"x", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0a\0b\0c\0d", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)  # fmt: skip
def test_wrong_plain_token_is_answered_and_closes(secured, secret, message) -> None:
    with wire.Connection(secured.sasl) as connection:
        shaken(connection)
        answer = log_in(connection, secret)
        assert (answer.error_code, answer.error_message) == (58, message)
        assert answer.session_lifetime_ms == 0
        assert connection.closes_silently()


@pytest.mark.parametrize(
    "first",
    [b"", b"y,,n=carol,r=abc", b"n,,n=carol", b"n,,n=ca=rol,r=abc", b"n,a=x,n=nobody,r=abc"],
)
def test_wrong_scram_message_is_answered_without_detail(secured, first) -> None:
    with wire.Connection(secured.sasl) as connection:
        shaken(connection, "SCRAM-SHA-256")
        answer = log_in(connection, first)
        assert answer.error_code == 58
        if b"a=x" not in first:  # we compare the ids before we look for the user
            assert answer.error_message == (
                "Authentication failed during authentication due to invalid credentials with SASL "
                "mechanism SCRAM-SHA-256"
            )
        assert connection.closes_silently()


def scram_final(first: bytes, answer: bytes, password: bytes, *, nonce: str = "") -> bytes:
    """Return a client's final message, with another nonce where one is given."""
    fields = dict(part.split("=", 1) for part in answer.decode().split(","))
    salted = hashlib.pbkdf2_hmac(
        "sha256", password, base64.b64decode(fields["s"]), int(fields["i"])
    )
    final = f"c=biws,r={nonce or fields['r']}"
    signed = first[3:] + b"," + answer + b"," + final.encode()
    key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return f"{final},p={base64.b64encode(proof).decode()}".encode()


@pytest.mark.parametrize("is_right", [True, False])
def test_scram_nonce_is_compared(secured, is_right) -> None:
    first = b"n,,n=carol,r=abc"
    with wire.Connection(secured.sasl) as connection:
        shaken(connection, "SCRAM-SHA-256")
        answer = log_in(connection, first).auth_bytes
        nonce = "" if is_right else "abcdefgh"
        final = log_in(connection, scram_final(first, answer, b"carol-secret", nonce=nonce))
        assert final.error_code == (0 if is_right else 58)


# Re-authentication


def test_session_is_renewed_by_the_same_user(secured) -> None:
    with wire.Connection(secured.reauth) as connection:
        shaken(connection)
        assert log_in(connection).session_lifetime_ms == LIFETIME_MS
        shaken(connection)
        assert log_in(connection).session_lifetime_ms == LIFETIME_MS
        assert is_served(connection)
        # A second renewal within a second is refused.
        assert connection.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 34


def test_other_user_cannot_renew_a_session(secured) -> None:
    with wire.Connection(secured.reauth) as connection:
        shaken(connection)
        assert log_in(connection).error_code == 0
        shaken(connection)
        answer = log_in(connection, OTHER_USER)
        assert (answer.error_code, answer.error_message) == (
            58,
            "Cannot change principals during re-authentication from User.alice: User.bob",
        )
        assert connection.closes_silently()


def test_other_mechanism_cannot_renew_a_session(secured) -> None:
    with wire.Connection(secured.reauth) as connection:
        shaken(connection)
        assert log_in(connection).error_code == 0
        shaken(connection, "SCRAM-SHA-256")
        connection.send(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abc"), 2)
        assert connection.closes_silently()


def test_request_after_the_end_of_a_session_closes(secured) -> None:
    with wire.Connection(secured.reauth) as connection:
        shaken(connection)
        assert log_in(connection).session_lifetime_ms == LIFETIME_MS
        ends_at = time.monotonic() + LIFETIME_MS / 1000
        assert is_served(connection)
        while time.monotonic() <= ends_at:
            time.sleep(0.1)
        connection.send(MetadataRequest(topics=[]), 12)
        assert connection.closes_silently()


def test_session_without_an_end_cannot_be_renewed(secured) -> None:
    with wire.Connection(secured.sasl) as connection:
        shaken(connection)
        assert log_in(connection).error_code == 0
        assert connection.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 34
        answer = log_in(connection)
        assert (answer.error_code, answer.error_message) == (
            34,
            "SaslAuthenticate request received after successful authentication",
        )
        assert is_served(connection)


# Directories that either program formatted


@jars.needed
@pytest.mark.parametrize("formatter", ["kafka-storage", "barnabas"])
def test_users_of_a_formatted_directory_authenticate(request, tmp_path, formatter) -> None:
    if request.config.getoption("--bootstrap"):
        pytest.skip("needs a server with its own directory")
    process = KINDS[request.config.getoption("--server")]()
    (sasl_port,) = free_ports(1)
    ports = [process.port, sasl_port]
    process.properties.update(
        {
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]},SASL_PLAINTEXT://127.0.0.1:{ports[1]},"
            f"CONTROLLER://127.0.0.1:{process.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{ports[0]},"
            f"SASL_PLAINTEXT://127.0.0.1:{ports[1]},"
            f"CONTROLLER://127.0.0.1:{process.controller_port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": ",".join(SCRAM),
            **{
                f"listener.name.sasl_plaintext.{each.lower()}.sasl.jaas.config": (
                    f"{SCRAM_MODULE} required;"
                )
                for each in SCRAM
            },
        }
    )
    file = tmp_path / "server.properties"
    values = {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{process.controller_port}",
        "log.dirs": str(process.data),
        **process.properties,
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    users = [f"{each}=[name=dave,password=dave-secret,iterations=5000]" for each in SCRAM]
    options = [
        *("-t", "MkU3OEVBNTcwNTJENDM2Qg", "--standalone", "-c", str(file)),
        *(option for user in users for option in ("--add-scram", user)),
    ]
    if formatter == "barnabas":
        command = [sys.executable, "-m", "barnabas", "format", *options]
        subprocess.run(command, check=True, timeout=60)
    else:
        jars.java("kafka.tools.StorageTool", "format", *options)
    try:
        process.start()
        for mechanism in SCRAM:
            settings = client(f"127.0.0.1:{sasl_port}", mechanism, "dave", "dave-secret")
            assert AdminClient(settings).list_topics(timeout=60).brokers
    finally:
        process.close()
