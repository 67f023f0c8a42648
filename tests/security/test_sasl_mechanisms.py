"""PLAIN, SCRAM and OAUTHBEARER on the server's side, against the client of this project."""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.core.sasl_exchange import ScramExchange as ScramClient
from barnabas.client.core.sasl_exchange import start_exchange
from barnabas.cluster.metadata.delegation_tokens import (
    DelegationToken,
    password_of,
    token_hmac,
)
from barnabas.cluster.metadata.scram_credentials import (
    SCRAM_BY_NAME,
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramMechanism,
)
from barnabas.security.sasl import scram_mechanism
from barnabas.security.sasl.oauthbearer_mechanism import OauthBearerExchange
from barnabas.security.sasl.plain_mechanism import PlainExchange, plain_users
from barnabas.security.sasl.sasl_mechanism import Identity, SaslFailure, WorkNeeded
from barnabas.security.sasl.scram_mechanism import ScramExchange, mock_credential
from barnabas.security.sasl.token_credentials import TokenCredentials
from barnabas.security.token_validation import TokenError, ValidToken

NOW = 1_800_000_000_000
SHA_256 = SCRAM_BY_NAME["SCRAM-SHA-256"]
NAMES = st.text(alphabet=st.characters(min_codepoint=1, max_codepoint=0x7F), min_size=1)


def plain(token: bytes, **users: str) -> Identity | None:
    exchange = PlainExchange(users)
    assert exchange.evaluate(token, NOW) == b""
    return exchange.identity


def test_plain_users_are_the_user_options() -> None:
    options = {"username": "node", "password": "x", "user_node": "x", "user_a_b": "y", "user_": "z"}
    assert plain_users(options) == {"node": "x", "a_b": "y", "": "z"}


@pytest.mark.parametrize("token", [b"\0a\0secret", b"a\0a\0secret"])
def test_plain_accepts_the_password_of_the_user(token: bytes) -> None:
    assert plain(token, a="secret") == Identity("a")


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"a\0b", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0a\0secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0a\0b\0c\0d\0e", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0a\0", "Authentication failed: password not specified"),
        (b"\0a\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0a\0secre", "Authentication failed: Invalid username or password"),
        (b"\0a\0secrets", "Authentication failed: Invalid username or password"),
        (b"\0b\0secret", "Authentication failed: Invalid username or password"),
        (b"\0A\0secret", "Authentication failed: Invalid username or password"),
        (b"\0a\0\xff", "Authentication failed: Invalid username or password"),
        (
            b"b\0a\0secret",
            "Authentication failed: Client requested an authorization id that is different from "
            "username",
        ),
        (b"b\0a\0wrong", "Authentication failed: Invalid username or password"),
    ],
)
def test_plain_refuses_with_kafkas_text(token: bytes, message: str) -> None:
    exchange = PlainExchange({"a": "secret"})
    with pytest.raises(SaslFailure) as failed:
        exchange.evaluate(token, NOW)
    assert failed.value.public_message == message
    assert exchange.identity is None


@given(NAMES.filter(lambda name: "\0" not in name), st.text(min_size=1))
def test_plain_agrees_with_the_client(user: str, password: str) -> None:
    client = start_exchange("PLAIN", user, password, "")
    if "\0" in password:
        return
    assert plain(client.first(), **{user: password}) == Identity(user)


def credential(mechanism: ScramMechanism, password: str, salt: bytes = b"salt") -> ScramCredential:
    return mechanism.credential(salt, mechanism.salted_password(password, salt, 4096), 4096)


def scram(
    mechanism: ScramMechanism = SHA_256, nonce: str = "server", **passwords: str
) -> ScramExchange:
    users = {name: credential(mechanism, password) for name, password in passwords.items()}
    return ScramExchange(mechanism, users.get, nonce, b"key of the node")


def authenticate(client: ScramClient, server: ScramExchange) -> None:
    """Run an exchange to its end. Raises SaslFailure or AuthenticationError."""
    token: bytes | None = client.first()
    while token is not None:
        token = client.respond(server.evaluate(token, NOW))


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(SCRAM_MECHANISMS),
    NAMES,
    st.text(),
    st.binary(min_size=1, max_size=40),
    st.text(alphabet="abcXYZ09+/~!", min_size=1, max_size=30),
)
def test_scram_agrees_with_the_client(
    mechanism: ScramMechanism, user: str, password: str, salt: bytes, nonce: str
) -> None:
    users = {user: credential(mechanism, password, salt)}
    server = ScramExchange(mechanism, users.get, nonce, b"key")
    authenticate(ScramClient(mechanism.hash_name, user, password, "client"), server)
    assert server.identity == Identity(user)
    other = ScramExchange(mechanism, users.get, nonce, b"key")
    with pytest.raises(SaslFailure):
        authenticate(ScramClient(mechanism.hash_name, user, password + "x", "client"), other)
    assert other.identity is None


def test_scram_server_answers_the_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    server = ScramExchange(
        SHA_256,
        {"user": credential(SHA_256, "pencil", salt)}.get,
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        b"key",
    )
    assert server.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", NOW) == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert server.evaluate(final, NOW) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.identity == Identity("user")


def final_of(server: ScramExchange, user: str = "a", password: str = "secret") -> bytes:
    """Return the final message of a client, after the server's first answer."""
    client = ScramClient("sha256", user, password, "client")
    final = client.respond(server.evaluate(client.first(), NOW))
    assert final is not None
    return final


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"r=clientserver", b"r=clientserves"),
        (b"r=clientserver", b"r=client"),
        (b"r=clientserver", b"r=clientserverx"),
        (b"c=biws", b"c=eSws"),  # y,,
        (b"c=biws", b"c=bixhPWEs"),  # n,a=a,
        (b"c=biws", b"c="),
        (b",p=", b",p=AAAA"),
        (b",r=", b",x=1,r="),
    ],
)
def test_scram_final_message_that_was_changed_fails(old: bytes, new: bytes) -> None:
    server = scram(a="secret")
    final = final_of(server)
    assert old in final
    with pytest.raises(SaslFailure) as failed:
        server.evaluate(final.replace(old, new, 1), NOW)
    assert failed.value.public_message is None
    assert server.identity is None


def test_scram_proof_is_bound_to_the_nonces() -> None:
    """A final message that was recorded from an earlier exchange does not pass."""
    final = final_of(scram(nonce="first", a="secret"))
    server = scram(nonce="other", a="secret")
    final_of(server)
    with pytest.raises(SaslFailure):
        server.evaluate(final.replace(b"r=clientfirst", b"r=clientother"), NOW)


def test_scram_with_a_signed_channel_binding_of_another_header_fails() -> None:
    """The client signs what it sends, so only the comparison with the header notices it."""

    class OtherHeader(ScramClient):
        def first(self) -> bytes:
            return super().first().replace(b"n,,", b"n,a=a,")

    with pytest.raises(SaslFailure, match="channel binding"):
        authenticate(OtherHeader("sha256", "a", "secret", "client"), scram(a="secret"))


def test_scram_token_after_the_end_fails() -> None:
    server = scram(a="secret")
    final = final_of(server)
    server.evaluate(final, NOW)
    with pytest.raises(SaslFailure, match="complete"):
        server.evaluate(final, NOW)


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS, ids=lambda each: each.name)
def test_scram_steps_of_an_unknown_user_are_those_of_a_wrong_password(
    mechanism: ScramMechanism,
) -> None:
    outcomes: list[tuple[int, str, str | None]] = []
    for user in ("a", "b"):
        salt = mock_credential(mechanism, b"any", "a").salt
        known = {"a": credential(mechanism, "secret", salt)}
        server = ScramExchange(mechanism, known.get, "server", b"key")
        client = ScramClient(mechanism.hash_name, user, "wrong", "client")
        answer = server.evaluate(client.first(), NOW)
        final = client.respond(answer)
        assert final is not None
        with pytest.raises(SaslFailure) as failed:
            server.evaluate(final, NOW)
        outcomes.append((len(answer), failed.value.reason, failed.value.public_message))
    assert outcomes[0] == outcomes[1]


def test_scram_salt_of_an_unknown_user_is_the_same_each_time() -> None:
    salts = {mock_credential(SHA_256, b"key", "x").salt for _ in range(3)}
    assert len(salts) == 1
    others = {
        mock_credential(SHA_256, b"other", "x").salt,
        mock_credential(SHA_256, b"key", "y").salt,
        mock_credential(SCRAM_BY_NAME["SCRAM-SHA-512"], b"key", "x").salt,
    }
    assert len(others | salts) == 4
    assert next(iter(salts)).isalnum()


def test_scram_unknown_user_fails_even_with_the_proof_of_its_mock_credential(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        scram_mechanism, "mock_credential", lambda *_: credential(SHA_256, "secret")
    )
    server = scram()
    with pytest.raises(SaslFailure, match="Invalid client credentials"):
        server.evaluate(final_of(server, user="nobody"), NOW)


def test_scram_credential_with_too_few_iterations_is_not_used() -> None:
    weak = SHA_256.credential(b"salt", SHA_256.salted_password("secret", b"salt", 4095), 4095)
    server = ScramExchange(SHA_256, lambda _: weak, "server", b"key")
    assert server.evaluate(b"n,,n=a,r=client", NOW).endswith(b",i=4096")


@pytest.mark.parametrize("nonce", ["client", "clientserve", "clientserverx", "other"])
def test_scram_with_a_signed_nonce_that_is_not_the_servers_fails(nonce: str) -> None:
    """The client signs what it sends, so only the comparison of the nonces notices it."""
    server, first = scram(a="secret"), b"n,,n=a,r=client"
    answer = server.evaluate(first, NOW)
    final = f"c=biws,r={nonce}".encode()
    salted = SHA_256.salted_password("secret", b"salt", 4096)
    client_key = SHA_256.hmac(salted, b"Client Key")
    signature = SHA_256.hmac(SHA_256.hash(client_key), b",".join([first[3:], answer, final]))
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    with pytest.raises(SaslFailure, match="Invalid client nonce"):
        server.evaluate(final + b",p=" + base64.b64encode(proof), NOW)


def test_scram_authorization_id_must_be_the_user() -> None:
    with pytest.raises(SaslFailure) as failed:
        scram(a="secret").evaluate(b"n,a=b,n=a,r=client", NOW)
    assert "different from username" in (failed.value.public_message or "")


TOKENS = {
    "id-of-token": DelegationToken("User:alice", "User:bob", ("User:c",), 0, NOW * 2, NOW + 5000),
}


def token_exchange(
    credentials: TokenCredentials | None, mechanism: ScramMechanism = SHA_256
) -> ScramExchange:
    find_token = None if credentials is None else credentials.find
    return ScramExchange(mechanism, {}.get, "server", b"key of the node", find_token)


def authenticate_with_token(
    server: ScramExchange, token_id: str, password: str, mechanism: ScramMechanism = SHA_256
) -> int:
    """Run an exchange to its end; return how many credentials were derived for it."""
    client = ScramClient(mechanism.hash_name, token_id, password, "client", is_token=True)
    derived, message = 0, client.first()
    while message is not None:
        try:
            answer = server.evaluate(message, NOW)
        except WorkNeeded as needed:
            needed.work()()
            derived += 1
        else:
            message = client.respond(answer)
    return derived


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS, ids=lambda each: each.name)
def test_scram_token_makes_its_owner_known(mechanism: ScramMechanism) -> None:
    credentials = TokenCredentials(lambda: TOKENS, "secret")
    password = password_of(token_hmac("secret", "id-of-token"))
    for derived in (1, 0):
        server = token_exchange(credentials, mechanism)
        assert authenticate_with_token(server, "id-of-token", password, mechanism) == derived
        assert server.identity == Identity("alice", NOW + 5000, token_authenticated=True)


def test_scram_token_of_another_secret_fails() -> None:
    server = token_exchange(TokenCredentials(lambda: TOKENS, "secret"))
    with pytest.raises(SaslFailure, match="Invalid client credentials"):
        authenticate_with_token(
            server, "id-of-token", password_of(token_hmac("other", "id-of-token"))
        )
    assert server.identity is None


def test_scram_unknown_token_fails_at_the_end_and_shows_the_salt_of_a_known_one() -> None:
    """The salt and the steps do not show which tokens exist."""
    first = b"n,,n=id-of-token,r=client,tokenauth=true"
    password = password_of(token_hmac("secret", "id-of-token"))
    credentials = TokenCredentials(lambda: TOKENS, "secret")
    authenticate_with_token(token_exchange(credentials), "id-of-token", password)
    answers = {token_exchange(credentials).evaluate(first, NOW)}
    for unknown in (None, TokenCredentials(dict[str, DelegationToken], "secret")):
        answers.add(token_exchange(unknown).evaluate(first, NOW))
        with pytest.raises(SaslFailure, match="Invalid client credentials"):
            authenticate_with_token(token_exchange(unknown), "id-of-token", password)
    assert len(answers) == 1


def test_scram_without_the_extension_accepts_only_users() -> None:
    server = token_exchange(TokenCredentials(lambda: TOKENS, "secret"))
    password = password_of(token_hmac("secret", "id-of-token"))
    with pytest.raises(SaslFailure, match="Invalid client credentials"):
        authenticate(ScramClient("sha256", "id-of-token", password, "client"), server)


def test_scram_credentials_of_tokens_are_bounded() -> None:
    tokens = dict.fromkeys("abc", TOKENS["id-of-token"])
    credentials = TokenCredentials(lambda: tokens, "secret", capacity=2)
    password = {name: password_of(token_hmac("secret", name)) for name in tokens}
    derived = [
        authenticate_with_token(token_exchange(credentials), name, password[name])
        for name in "abcbca"
    ]
    assert derived == [1, 1, 1, 0, 0, 1]


def validate(token: str, now_ms: int) -> ValidToken:
    if token != "good":
        raise TokenError("bad")
    return ValidToken("alice", frozenset(), now_ms + 60_000)


@pytest.mark.parametrize(
    "token",
    [
        b"n,,\x01auth=Bearer good\x01\x01",
        b"n,a=alice,\x01auth=bearer   good\x01\x01",
        b"n,,\x01host=h\x01auth=Bearer good\x01traceId=1 2\x01\x01",
    ],
)
def test_oauthbearer_accepts_a_valid_token(token: bytes) -> None:
    exchange = OauthBearerExchange(validate)
    assert exchange.evaluate(token, NOW) == b""
    assert exchange.identity == Identity("alice", NOW + 60_000)


def test_oauthbearer_answers_an_invalid_token_with_an_error_document() -> None:
    exchange = OauthBearerExchange(validate)
    error = exchange.evaluate(b"n,,\x01auth=Bearer bad\x01\x01", NOW)
    assert error == b'{"status":"invalid_token"}'
    assert exchange.identity is None
    with pytest.raises(SaslFailure) as failed:
        exchange.evaluate(b"\x01", NOW)
    assert failed.value.public_message == '{"status":"invalid_token"}'


def test_oauthbearer_client_may_send_another_token_after_an_error() -> None:
    exchange = OauthBearerExchange(validate)
    exchange.evaluate(b"n,,\x01auth=Bearer bad\x01\x01", NOW)
    exchange.evaluate(b"n,,\x01auth=Bearer good\x01\x01", NOW)
    assert exchange.identity == Identity("alice", NOW + 60_000)


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Basic good\x01\x01",
        b"n,,\x01auth=good\x01\x01",
        b"y,,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer good\x01",
        b"n,,\x01auth=Bearer go od\x01\x01",
        b"n,,\x01other=Bearer good\x01\x01",
        b"n,,\x01a1=x\x01auth=Bearer good\x01\x01",
    ],
)
def test_oauthbearer_malformed_message_fails_without_detail(token: bytes) -> None:
    with pytest.raises(SaslFailure) as failed:
        OauthBearerExchange(validate).evaluate(token, NOW)
    assert failed.value.public_message is None


def test_oauthbearer_authorization_id_must_be_the_subject() -> None:
    with pytest.raises(SaslFailure) as failed:
        OauthBearerExchange(validate).evaluate(b"n,a=bob,\x01auth=Bearer good\x01\x01", NOW)
    assert "authorization id (bob)" in (failed.value.public_message or "")
