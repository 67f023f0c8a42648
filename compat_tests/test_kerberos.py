"""SASL GSSAPI against a real KDC: Java's tools, kcat and the own client, at barnabas and at Kafka.

Both servers have the same keytab, so each row holds for Apache Kafka 4.3.0 too.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest
import trio

from barnabas.client import open_client
from barnabas.kerberos.login_options import KerberosLogin
from barnabas.kerberos.tickets import Tickets
from barnabas.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.testing.free_ports import free_ports
from compat_tests import jars, kdc, wire
from compat_tests.kdc import HOST, REALM, SERVICE, Kdc, module_line, service_properties
from compat_tests.servers import KINDS, ServerProcess

pytestmark = [kdc.needed, pytest.mark.barnabas_only]

LIFETIME_MS = 60_000
HIDDEN = "due to invalid credentials with SASL mechanism GSSAPI"
RULES = "RULE:[2:$1.$2@$0](.*@CASTLE[.]TEST)s/(.*)[.](.*)@.*/$2-$1/U,DEFAULT"
NO_LAYER = b"\x01\0\0\0"


@attrs.frozen
class Realm:
    """A running KDC, and the keytabs of its principals."""

    kdc: Kdc
    service: Path
    alice: Path
    bob: Path

    def login(self, user: str = "alice", **changes: str) -> KerberosLogin:
        """Return the login of a user."""
        login = KerberosLogin("kafka", user, str(getattr(self, user)))
        return attrs.evolve(login, **changes)

    def client(self, bootstrap: str, **changes: str) -> dict[str, str]:
        """Return the properties of the own client, of Java's and of librdkafka."""
        return {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": module_line(f"alice@{REALM}", self.alice),
            **changes,
        }


@attrs.frozen
class Server:
    """A server with GSSAPI. Sessions of `reauth` end after a minute; `rules` has rules."""

    plain: str
    sasl: str
    reauth: str
    rules: str
    process: ServerProcess


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with kdc.realm(tmp_path_factory.mktemp("realm")) as found:
        users = [found.keytab(each) for each in (SERVICE, "alice", "bob")]
        found.admin(
            f"addprinc -randkey carol/admin@{REALM}",
            f"ktadd -k {found.directory}/carol.keytab carol/admin@{REALM}",
        )
        yield Realm(found, *users)


def properties_of(process: ServerProcess, ports: list[int], realm: Realm) -> dict[str, str]:
    names = ("SASL", "REAUTH", "RULES")
    clients = f"PLAINTEXT://{process.bootstrap}," + ",".join(
        f"{name}://{HOST}:{port}" for name, port in zip(names, ports, strict=True)
    )
    listeners = {}
    for name in names:
        listeners |= service_properties(realm.kdc, name, realm.service)
    return {
        "listeners": f"{clients},CONTROLLER://127.0.0.1:{process.controller_port}",
        "advertised.listeners": clients,
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT", *(f"{n}:SASL_PLAINTEXT" for n in names)]
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "delegation.token.secret.key": "secret",
        "listener.name.reauth.connections.max.reauth.ms": str(LIFETIME_MS),
        "listener.name.rules.sasl.kerberos.principal.to.local.rules": RULES,
        **listeners,
    }


def process_in(realm: Realm, kind: str) -> ServerProcess:
    """Return a server of a kind whose JVM, if it has one, is in the realm."""

    class Process(KINDS[kind]):
        def command(self) -> list[str]:
            program, *rest = super().command()
            if program == "java":
                rest.insert(0, f"-Djava.security.krb5.conf={realm.kdc.config}")
            return [program, *rest]

    return Process()


@pytest.fixture(scope="module", params=["barnabas", pytest.param("kafka", marks=jars.needed)])
def server(request: pytest.FixtureRequest, realm: Realm) -> Iterator[Server]:
    process = process_in(realm, request.param)
    ports = free_ports(3)
    process.properties.update(properties_of(process, ports, realm))
    try:
        process.start()
        yield Server(process.bootstrap, *(f"{HOST}:{port}" for port in ports), process)
    finally:
        process.close()


@pytest.fixture
def java(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run one of Java's tools in the realm; return what it prints."""
    option = f"-Djava.security.krb5.conf={realm.kdc.config}"
    monkeypatch.setattr(jars, "TOOL_OPTIONS", [*jars.TOOL_OPTIONS, option])
    return lambda *arguments, **more: jars.java(*arguments, **more).stdout


def written(directory: Path, properties: dict[str, str]) -> str:
    """Write a properties file; return its path."""
    file = directory / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return str(file)


@jars.needed
def test_javas_console_tools_produce_and_consume(realm, server, java, tmp_path, unique) -> None:
    topic, config = unique("kerberos"), written(tmp_path, realm.client(server.sasl))
    start = ("--bootstrap-server", server.sasl, "--topic", topic)
    java(
        "org.apache.kafka.tools.ConsoleProducer",
        *(*start, "--command-config", config),
        stdin="one\ntwo\n",
    )
    read = java(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *(*start, "--from-beginning", "--max-messages", "2", "--command-config", config),
    )
    assert sorted(read.split()) == ["one", "two"]


@kdc.kcat_needed
def test_kcat_produces_and_consumes(realm, server, tmp_path, unique) -> None:
    def kcat(*arguments: str, stdin: str = "") -> str:
        settings = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.keytab": realm.alice,
            "sasl.kerberos.principal": f"alice@{REALM}",
        }
        options = [f"-X{name}={value}" for name, value in settings.items()]
        done = subprocess.run(
            ["kcat", "-b", server.sasl, *options, *arguments],
            env={**os.environ, "KRB5CCNAME": str(tmp_path / "cache")},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    topic = unique("kcat-kerberos")
    kcat("-P", "-t", topic, stdin="one\ntwo\n")
    assert kcat("-C", "-t", topic, "-e", "-q") == "one\ntwo\n"


@pytest.mark.parametrize("source", ["keytab", "cache", "default cache", "librdkafka"])
def test_own_client_asks_with_tickets_of_each_source(realm, server, monkeypatch, source) -> None:
    cache = realm.kdc.cache("alice", realm.alice)
    module = f"{kdc.MODULE} required useTicketCache=true"
    changes = {
        "keytab": {},
        "cache": {"sasl.jaas.config": f'{module} ticketCache="{cache}";'},
        "default cache": {"sasl.jaas.config": f"{module};"},
        "librdkafka": {
            "sasl.jaas.config": "",
            "sasl.kerberos.keytab": str(realm.alice),
            "sasl.kerberos.principal": "alice",
        },
    }[source]
    if source == "default cache":
        monkeypatch.setenv("KRB5CCNAME", str(cache))

    async def ask() -> MetadataResponse:
        async with open_client(realm.client(server.sasl, **changes)) as client:
            return await client.ask_any(MetadataRequest(topics=[]), MetadataResponse)

    assert [each.host for each in trio.run(ask).brokers] == [HOST]


def test_command_line_shows_and_expires_tokens_of_a_kerberos_user(realm, server, tmp_path) -> None:
    """The commands of the own client take the file of Java's tools; librdkafka's refuse it."""
    config = written(tmp_path, realm.client(server.sasl))
    made = barnabas("token", "create", "--client-config", config)
    assert "owner:           User:alice" in made.stdout
    refused = barnabas("topic", "list", "--client-config", config)
    assert refused.returncode != 0
    assert "GSSAPI: the librdkafka of confluent-kafka has no Kerberos" in refused.stderr
    assert refused.stderr.count("\n") == 1


def barnabas(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "barnabas", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# Tokens, one by one


@contextmanager
def shaken(bootstrap: str) -> Iterator[wire.Connection]:
    with wire.Connection(bootstrap) as connection:
        assert shake(connection) == 0
        yield connection


def shake(connection: wire.Connection, mechanism: str = "GSSAPI") -> int:
    return connection.call(SaslHandshakeRequest(mechanism=mechanism), 1).error_code


def pass_token(connection: wire.Connection, token: bytes) -> SaslAuthenticateResponse:
    return connection.call(SaslAuthenticateRequest(auth_bytes=token), 2)


def log_in(
    connection: wire.Connection, login: KerberosLogin, choice: bytes = NO_LAYER
) -> SaslAuthenticateResponse:
    """Send the tokens of a login, and a choice of layers; return the last answer."""
    context = Tickets(login).start(HOST)
    answer = pass_token(connection, context.step())
    assert (answer.error_code, answer.error_message) == (0, ""), answer
    assert context.step(answer.auth_bytes) == b""
    assert context.is_established
    offer = context.unwrap(pass_token(connection, b"").auth_bytes)
    assert offer[0] == 1
    assert len(offer) == 4
    return pass_token(connection, context.wrap(choice))


def owner(connection: wire.Connection) -> str:
    """Return the principal of a connection: tokens that it creates are its own."""
    made = connection.call(CreateDelegationTokenRequest(), 2)
    return f"{made.principal_type}:{made.principal_name}"


@pytest.mark.parametrize("authorization_id", ["", "alice", "somebody"])
def test_authorization_id_has_no_effect(realm, server, authorization_id) -> None:
    with shaken(server.sasl) as connection:
        choice = NO_LAYER + authorization_id.encode()
        answer = log_in(connection, realm.login(), choice)
        assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
        assert owner(connection) == "User:alice"


@pytest.mark.parametrize(
    "choice", [b"\x02\0\0\0", b"\x04\x00\x10\x00", b"\x00\0\0\0"], ids=["integrity", "privacy", "0"]
)
def test_security_layer_is_refused(realm, server, choice) -> None:
    with shaken(server.sasl) as connection:
        answer = log_in(connection, realm.login(), choice)
        assert (answer.error_code, answer.error_message) == (58, HIDDEN_FIRST)
        assert connection.closes_silently()


HIDDEN_FIRST = f"Authentication failed during authentication {HIDDEN}"


def wrong_tokens(realm: Realm) -> dict[str, bytes]:
    ticket = Tickets(realm.login()).start(HOST).step()
    other = Tickets(realm.login(service="other")).start(HOST).step()
    return {
        "no ticket": b"\0\x01garbage",
        "plain": b"\0alice\0alice-secret",
        "truncated": ticket[:200],
        "changed": ticket[:-40] + bytes(40),
        "another service": other,
    }


def test_wrong_tokens_get_the_hidden_failure(realm, server) -> None:
    realm.kdc.keytab(f"other/{HOST}", realm.kdc.directory / "other.keytab")
    answers = {}
    for name, token in wrong_tokens(realm).items():
        with shaken(server.sasl) as connection:
            answer = pass_token(connection, token)
            answers[name] = (answer.error_code, answer.error_message)
            assert connection.closes_silently()
    assert answers == dict.fromkeys(answers, (58, HIDDEN_FIRST))


def test_replayed_ticket_is_refused(realm, server) -> None:
    token = Tickets(realm.login()).start(HOST).step()
    with shaken(server.sasl) as connection:
        assert pass_token(connection, token).error_code == 0
    with shaken(server.sasl) as connection:
        answer = pass_token(connection, token)
        assert (answer.error_code, answer.error_message) == (58, HIDDEN_FIRST)


def test_session_is_renewed_by_the_same_user_only(realm, server) -> None:
    with shaken(server.reauth) as connection:
        answer = log_in(connection, realm.login())
        assert answer.session_lifetime_ms == LIFETIME_MS
        trio.run(trio.sleep, 1.1)  # earlier, a handshake is not a re-authentication
        assert shake(connection) == 0
        assert log_in(connection, realm.login()).error_code == 0
        assert owner(connection) == "User:alice"
        trio.run(trio.sleep, 1.1)
        assert shake(connection) == 0
        answer = log_in(connection, realm.login("bob"))
        assert answer.error_code == 58
        assert answer.error_message == (
            "Cannot change principals during re-authentication from User.alice: User.bob"
        )
        assert connection.closes_silently()


def test_rules_shorten_principals(realm, server) -> None:
    login = KerberosLogin("kafka", "carol/admin", f"{realm.kdc.directory}/carol.keytab")
    with shaken(server.rules) as connection:
        assert log_in(connection, login).error_code == 0
        assert owner(connection) == "User:ADMIN-CAROL"
    with shaken(server.rules) as connection:
        assert log_in(connection, realm.login()).error_code == 0
        assert owner(connection) == "User:alice"
