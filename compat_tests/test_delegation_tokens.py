"""Delegation tokens, on either server: requests, refusals, logins, and Kafka's own tool."""

import base64
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.core.sasl_exchange import start_exchange
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from barnabas.protocol.messages.envelope import EnvelopeRequest
from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.protocol.messages.principal import DefaultPrincipalData
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.testing.free_ports import free_ports
from compat_tests import jars, wire
from compat_tests.servers import KINDS

MODULES = "org.apache.kafka.common.security"
PLAIN = f"{MODULES}.plain.PlainLoginModule required"
SCRAM = f"{MODULES}.scram.ScramLoginModule required"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
USERS = ("admin", "alice", "bob", "carol", "dave", "tool")
TOOL = "org.apache.kafka.tools.DelegationTokenCommand"
DAY_MS = 86_400_000
NOT_FOUND, MISMATCH, NOT_ALLOWED, DENIED, EXPIRED, BAD_TYPE = 62, 63, 64, 65, 66, 67
AUTHENTICATION_FAILED, TOPIC_DENIED = 58, 29
Renewer = CreateDelegationTokenRequest.CreatableRenewers
Owner = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner


class Secured:
    """Addresses of the listeners without and with authentication."""

    def __init__(self, plain: str, sasl: str) -> None:
        self.plain = plain
        self.sasl = sasl


def properties_of(port: int, sasl_port: int, controller_port: int) -> dict[str, str]:
    users = " ".join(f'user_{name}="{name}-secret"' for name in USERS)
    node = 'username="broker" password="broker-secret" user_broker="broker-secret"'
    clients = f"PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl_port}"
    return {
        "listeners": f"{clients},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": clients,
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "sasl.enabled.mechanisms": ",".join(("PLAIN", *MECHANISMS)),
        "listener.name.sasl.plain.sasl.jaas.config": f"{PLAIN} {users};",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": f"{PLAIN} {node};",
        **{
            f"listener.name.sasl.{each.lower()}.sasl.jaas.config": f"{SCRAM};"
            for each in MECHANISMS
        },
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:broker;User:admin",
        "delegation.token.secret.key": "secret of the cluster",
    }


def embedded(port: int, user: str) -> CreateDelegationTokenResponse:
    """Create a token as a broker does that forwards a client's request to a controller."""
    principal = DefaultPrincipalData(type="User", name=user, token_authenticated=False)
    envelope = EnvelopeRequest(
        request_data=wire.request_frame(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3, 1),
        request_principal=b"\0\0" + bytes(principal.encode(0)),
        client_host_address=b"\x7f\0\0\1",
    )
    answer = wire.call(f"127.0.0.1:{port}", envelope, 0)
    assert answer.error_code == 0
    return CreateDelegationTokenResponse.decode(memoryview(answer.response_data)[5:], 3)


def test_controller_looks_at_its_listener_only_where_no_broker_forwards(request) -> None:
    if request.config.getoption("--bootstrap"):
        pytest.skip("needs a server with its own listeners")
    process = KINDS[request.config.getoption("--server")]()
    (sasl_port,) = free_ports(1)
    properties = properties_of(process.port, sasl_port, process.controller_port)
    protocols = properties["listener.security.protocol.map"]
    in_plain_text = protocols.replace("CONTROLLER:SASL_PLAINTEXT", "CONTROLLER:PLAINTEXT")
    process.properties |= properties | {"listener.security.protocol.map": in_plain_text}
    controller = f"127.0.0.1:{process.controller_port}"
    try:
        process.start()
        assert create(Secured(process.bootstrap, f"127.0.0.1:{sasl_port}"), "alice").error_code == 0
        assert embedded(process.controller_port, "alice").error_code == 0
        direct = wire.call(controller, CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
        assert direct.error_code == NOT_ALLOWED
    finally:
        process.close()


@pytest.fixture(scope="module")
def secured(request: pytest.FixtureRequest) -> Iterator[Secured]:
    if request.config.getoption("--bootstrap"):
        pytest.skip("needs a server with its own listeners")
    process = KINDS[request.config.getoption("--server")]()
    (sasl_port,) = free_ports(1)
    process.properties.update(properties_of(process.port, sasl_port, process.controller_port))
    try:
        process.start()
        yield Secured(process.bootstrap, f"127.0.0.1:{sasl_port}")
    finally:
        process.close()


def logged_in(secured: Secured, user: str) -> wire.Connection:
    """Return a connection of a user that has authenticated with a password."""
    connection = wire.Connection(secured.sasl)
    assert connection.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    message = f"\0{user}\0{user}-secret".encode()
    assert connection.call(SaslAuthenticateRequest(auth_bytes=message), 2).error_code == 0
    return connection


def login(
    connection: wire.Connection, token_id: str, proof: bytes, mechanism: str = MECHANISMS[0]
) -> tuple[int, str | None, int]:
    """Authenticate with a token; return the last answer's error, message and session lifetime."""
    assert connection.call(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
    password = base64.b64encode(proof).decode()
    exchange = start_exchange(mechanism, token_id, password, "nonce", is_token=True)
    message: bytes | None = exchange.first()
    answer = None
    while message is not None:
        answer = connection.call(SaslAuthenticateRequest(auth_bytes=message), 2)
        if answer.error_code:
            break
        message = exchange.respond(answer.auth_bytes)
    assert answer is not None
    return answer.error_code, answer.error_message, answer.session_lifetime_ms


def create(
    secured: Secured,
    user: str,
    *renewers: str,
    owner: str | None = None,
    lifetime_ms: int = -1,
    version: int = 3,
) -> CreateDelegationTokenResponse:
    request = CreateDelegationTokenRequest(
        owner_principal_type="User" if owner else "",
        owner_principal_name=owner or "",
        renewers=[Renewer(principal_type="User", principal_name=each) for each in renewers],
        max_lifetime_ms=lifetime_ms,
    )
    with logged_in(secured, user) as connection:
        return connection.call(request, version)


def renew(secured: Secured, user: str, proof: bytes, period_ms: int = -1) -> tuple[int, int]:
    with logged_in(secured, user) as connection:
        request = RenewDelegationTokenRequest(hmac=proof, renew_period_ms=period_ms)
        answer = connection.call(request, 2)
        return answer.error_code, answer.expiry_timestamp_ms


def expire(secured: Secured, user: str, proof: bytes, period_ms: int = -1) -> tuple[int, int]:
    with logged_in(secured, user) as connection:
        request = ExpireDelegationTokenRequest(hmac=proof, expiry_time_period_ms=period_ms)
        answer = connection.call(request, 2)
        return answer.error_code, answer.expiry_timestamp_ms


def described(secured: Secured, user: str, owners: list[str] | None = None, version: int = 3):
    """Return the tokens that a user sees, by id."""
    request = DescribeDelegationTokenRequest(
        owners=owners and [Owner(principal_type="User", principal_name=each) for each in owners]
    )
    with logged_in(secured, user) as connection:
        answer = connection.call(request, version)
        assert answer.error_code == 0
        return {each.token_id: each for each in answer.tokens}


def eventually_described(secured: Secured, user: str, token_id: str):
    """Return a token when the broker has applied it; Apache Kafka answers before that."""
    deadline = time.monotonic() + 60
    while token_id not in (found := described(secured, user)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found[token_id]


def eventually(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def allow(secured: Secured, user: str, resource: int, name: str, operation: int) -> None:
    acl = CreateAclsRequest.AclCreation(
        resource_type=resource,
        resource_name=name,
        resource_pattern_type=3,
        principal=f"User:{user}",
        host="*",
        operation=operation,
        permission_type=3,
    )
    (result,) = wire.call(secured.plain, CreateAclsRequest(creations=[acl]), 3).results
    assert result.error_code == 0


@pytest.mark.parametrize("version", [1, 2, 3])
def test_token_has_its_owner_and_times_and_is_described(secured, version) -> None:
    before = int(time.time() * 1000) - 1
    answer = create(secured, "alice", "bob", version=version)
    assert answer.error_code == 0
    assert (answer.principal_type, answer.principal_name) == ("User", "alice")
    requester = ("User", "alice") if version >= 3 else ("", "")
    assert (
        answer.token_requester_principal_type,
        answer.token_requester_principal_name,
    ) == requester
    assert before <= answer.issue_timestamp_ms <= int(time.time() * 1000) + 1
    assert answer.expiry_timestamp_ms == answer.issue_timestamp_ms + DAY_MS
    assert answer.max_timestamp_ms == answer.issue_timestamp_ms + 7 * DAY_MS
    assert len(answer.hmac) == 64
    assert re.fullmatch(r"[\w-]{22}", answer.token_id)
    eventually_described(secured, "bob", answer.token_id)
    found = described(secured, "bob", version=version)[answer.token_id]
    assert (found.hmac, found.principal_name) == (answer.hmac, "alice")
    assert found.token_requester_principal_name == requester[1]
    assert [each.principal_name for each in found.renewers] == ["bob"]
    assert (found.issue_timestamp, found.expiry_timestamp, found.max_timestamp) == (
        answer.issue_timestamp_ms,
        answer.expiry_timestamp_ms,
        answer.max_timestamp_ms,
    )


def test_tokens_are_seen_by_owners_renewers_and_permitted_users(secured) -> None:
    own = create(secured, "alice", "bob").token_id
    other = create(secured, "admin", owner="dave").token_id
    eventually_described(secured, "admin", other)
    assert own in described(secured, "alice")
    assert own in described(secured, "bob")
    assert own in described(secured, "bob", ["alice", "carol"])
    assert own not in described(secured, "bob", ["carol"])
    assert own not in described(secured, "carol")
    assert other in described(secured, "dave")
    assert other not in described(secured, "alice", ["dave"])
    assert {own, other} <= set(described(secured, "admin"))
    empty = DescribeDelegationTokenRequest(owners=[])
    with logged_in(secured, "admin") as connection:
        answer = connection.call(empty, 3)
        assert (answer.error_code, answer.tokens) == (0, [])
    allow(secured, "carol", 6, own, 8)  # DESCRIBE on the token
    allow(secured, "carol", 7, "User:dave", 14)  # DESCRIBE_TOKENS on the owner
    eventually(lambda: {own, other} <= set(described(secured, "carol")))


def test_token_of_another_owner_needs_a_permission(secured) -> None:
    refused = create(secured, "carol", owner="bob")
    assert (refused.error_code, refused.principal_name) == (DENIED, "bob")
    assert refused.token_requester_principal_name == "carol"
    assert (refused.issue_timestamp_ms, refused.token_id, refused.hmac) == (-1, "", b"")
    assert create(secured, "carol", owner="carol").error_code == 0
    allow(secured, "carol", 7, "User:bob", 13)  # CREATE_TOKENS
    eventually(lambda: create(secured, "carol", owner="bob").error_code == 0)


def test_renewer_that_is_not_a_user_is_refused(secured) -> None:
    request = CreateDelegationTokenRequest(
        renewers=[Renewer(principal_type="Group", principal_name="x")], max_lifetime_ms=-1
    )
    with logged_in(secured, "alice") as connection:
        answer = connection.call(request, 3)
    assert (answer.error_code, answer.principal_name) == (BAD_TYPE, "alice")
    assert answer.expiry_timestamp_ms == -1


def test_owner_and_renewer_renew_and_expire(secured) -> None:
    token = create(secured, "alice", "bob", lifetime_ms=2 * DAY_MS)
    eventually_described(secured, "alice", token.token_id)
    assert token.max_timestamp_ms == token.issue_timestamp_ms + 2 * DAY_MS
    assert renew(secured, "carol", token.hmac) == (MISMATCH, 0)
    assert expire(secured, "carol", token.hmac) == (MISMATCH, 0)
    for user in ("alice", "bob"):
        code, expiry_ms = renew(secured, user, token.hmac, 60_000)
        assert (code, 0 < expiry_ms - int(time.time() * 1000) <= 60_000) == (0, True)
    code, expiry_ms = renew(secured, "bob", token.hmac)
    assert (code, expiry_ms > token.expiry_timestamp_ms) == (0, True)
    assert expire(secured, "bob", token.hmac, 9 * DAY_MS) == (0, token.max_timestamp_ms)
    code, expiry_ms = expire(secured, "bob", token.hmac)
    assert (code, abs(expiry_ms - time.time() * 1000) < 60_000) == (0, True)
    # On Apache Kafka a renewal writes the token again until its removal has reached the cache.
    eventually(lambda: token.token_id not in described(secured, "alice"))
    assert renew(secured, "alice", token.hmac) == (NOT_FOUND, 0)
    assert expire(secured, "alice", token.hmac) == (NOT_FOUND, 0)


def test_expired_token_is_only_removed(secured) -> None:
    token = create(secured, "alice", lifetime_ms=1)
    eventually_described(secured, "alice", token.token_id)
    eventually(lambda: renew(secured, "alice", token.hmac) == (EXPIRED, 0))
    assert renew(secured, "carol", token.hmac) == (EXPIRED, 0)
    assert expire(secured, "alice", token.hmac, 0) == (EXPIRED, 0)
    assert expire(secured, "carol", token.hmac, 0) == (MISMATCH, 0)
    with wire.Connection(secured.sasl) as connection:
        assert login(connection, token.token_id, token.hmac) == (0, "", 0)
        connection.send(CreateTopicsRequest(topics=[]), 7)
        assert connection.closes_silently()
    assert expire(secured, "alice", token.hmac)[0] == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_client_with_a_token_is_its_owner_and_may_not_use_tokens(
    secured, unique, mechanism
) -> None:
    tokens = {user: create(secured, "admin", owner=user) for user in ("admin", "carol")}
    for user, token in tokens.items():
        eventually_described(secured, "admin", token.token_id)
        with wire.Connection(secured.sasl) as connection:
            code, _, lifetime_ms = login(connection, token.token_id, token.hmac, mechanism)
            assert code == 0
            assert 0 < lifetime_ms <= token.expiry_timestamp_ms - token.issue_timestamp_ms
            topic = CreateTopicsRequest.CreatableTopic(
                name=unique("token"), num_partitions=1, replication_factor=1
            )
            answer = connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7)
            assert answer.topics[0].error_code == (0 if user == "admin" else TOPIC_DENIED)
            created = connection.call(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
            assert (created.error_code, created.principal_name) == (NOT_ALLOWED, user)
            for request in (
                RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1),
                ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1),
            ):
                answer = connection.call(request, 2)
                assert (answer.error_code, answer.expiry_timestamp_ms) == (NOT_ALLOWED, -1)
            answer = connection.call(DescribeDelegationTokenRequest(owners=None), 3)
            assert (answer.error_code, answer.tokens) == (NOT_ALLOWED, [])


@pytest.mark.parametrize("fault", ["another hmac", "unknown token", "a user", "removed"])
def test_wrong_token_is_refused_as_a_wrong_password(secured, fault) -> None:
    token = create(secured, "alice")
    eventually_described(secured, "alice", token.token_id)
    token_id, proof = token.token_id, token.hmac
    if fault == "another hmac":
        proof = create(secured, "alice").hmac
    elif fault == "unknown token":
        token_id = "AAAAAAAAAAAAAAAAAAAAAA"
    elif fault == "a user":
        token_id, proof = "alice", base64.b64decode("alicesecret=")
    else:
        assert expire(secured, "alice", proof)[0] == 0
        eventually(lambda: token_id not in described(secured, "alice"))
    with wire.Connection(secured.sasl) as connection:
        assert login(connection, token_id, proof)[:2] == (
            AUTHENTICATION_FAILED,
            "Authentication failed during authentication due to invalid credentials with SASL "
            "mechanism SCRAM-SHA-256",
        )
        assert connection.closes_silently()


def test_token_is_not_a_password_of_its_owner(secured) -> None:
    """Without the extension, the id of a token is the name of a user that does not exist."""
    token = create(secured, "alice")
    eventually_described(secured, "alice", token.token_id)
    with wire.Connection(secured.sasl) as connection:
        connection.call(ApiVersionsRequest(), 0)
        assert connection.call(SaslHandshakeRequest(mechanism=MECHANISMS[0]), 1).error_code == 0
        password = base64.b64encode(token.hmac).decode()
        exchange = start_exchange(MECHANISMS[0], token.token_id, password, "nonce")
        message: bytes | None = exchange.first()
        while message is not None:
            answer = connection.call(SaslAuthenticateRequest(auth_bytes=message), 2)
            if answer.error_code:
                break
            message = exchange.respond(answer.auth_bytes)
        assert answer.error_code == AUTHENTICATION_FAILED


def tool(secured: Secured, file: Path, *arguments: str, check: bool = True):
    """Run kafka-delegation-tokens; return its result."""
    connect = ("--bootstrap-server", secured.sasl, "--command-config", str(file))
    return jars.java(TOOL, *connect, *arguments, check=check)


def rows(output: str) -> list[list[str]]:
    """Return the cells of the tokens that the tool prints."""
    _, _, table = output.partition("MAXDATE")
    return [line.split() for line in table.splitlines() if line.strip()]


@jars.needed
def test_kafka_delegation_tokens_creates_renews_describes_and_expires(secured, tmp_path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN} username="tool" password="tool-secret";\n'
    )
    created = tool(
        secured,
        file,
        *("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"),
    ).stdout
    assert created.startswith(
        "Calling create token operation with renewers :[User:bob] , max-life-time-period :-1"
    )
    (cells,) = rows(created)
    token_id, proof, owner, requester, renewers, *dates = cells
    assert (owner, requester, renewers) == ("User:tool", "User:tool", "[User:bob]")
    assert [re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d", each) is not None for each in dates] == [
        True
    ] * 3
    token = eventually_described(secured, "tool", token_id)
    assert base64.b64decode(proof) == token.hmac
    shown = tool(secured, file, "--describe", "--owner-principal", "User:tool").stdout
    assert shown.startswith("Calling describe token operation for owners: [User:tool]\n")
    assert "Total number of tokens : 1" in shown
    assert rows(shown) == [cells]
    none = tool(secured, file, "--describe").stdout  # the tool asks for the tokens of no owner
    assert none.startswith("Calling describe token operation for current user.\n")
    assert "Total number of tokens : 0" in none
    renewed = tool(secured, file, "--renew", "--renew-time-period", "-1", "--hmac", proof).stdout
    assert re.search(r"Completed renew operation. New expiry date : \d{4}-\d\d-\d\dT", renewed)
    client = tmp_path / "token.properties"
    client.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={SCRAM} username="{token_id}" password="{proof}" tokenauth="true";\n'
    )
    connect = ("cluster-id", "--bootstrap-server", secured.sasl, "--command-config", str(client))
    assert jars.java("org.apache.kafka.tools.ClusterTool", *connect).stdout.startswith("Cluster ID")
    refused = tool(secured, client, "--create", "--max-life-time-period", "-1", check=False)
    assert refused.returncode == 1
    assert "UnsupportedByAuthenticationException: Delegation Token requests are not allowed" in (
        refused.stderr
    )
    expired = tool(secured, file, "--expire", "--expiry-time-period", "-1", "--hmac", proof).stdout
    assert re.search(r"Completed expire operation. New expiry date : \d{4}-\d\d-\d\dT", expired)
    gone = tool(
        secured, file, *("--renew", "--renew-time-period", "-1", "--hmac", proof), check=False
    )
    assert gone.returncode == 1
    assert "DelegationTokenNotFoundException: Delegation Token is not found on server." in (
        gone.stderr
    )
