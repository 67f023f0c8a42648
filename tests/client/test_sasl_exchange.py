"""SASL tokens: the RFCs' examples, and servers that lie."""

import base64

import pytest

from barnabas.client import AuthenticationError
from barnabas.client.core.sasl_exchange import BearerExchange, ScramExchange, start_exchange

SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram(username: str = "user", password: str = "pencil") -> ScramExchange:
    return ScramExchange("sha256", username, password, "rOprNGfwEbeRWgbNEkqO")


def test_scram_example_of_rfc_7677() -> None:
    exchange = scram()
    assert exchange.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.respond(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert exchange.respond(SERVER_FINAL) is None


def test_scram_user_name_is_escaped() -> None:
    assert scram("a=b,c").first() == b"n,,n=a=3Db=2Cc,r=rOprNGfwEbeRWgbNEkqO"


@pytest.mark.parametrize(
    "challenge",
    [
        SERVER_FIRST.replace(b"r=rOpr", b"r=xOpr"),
        b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        SERVER_FIRST.replace(b"i=4096", b"i=1"),
        SERVER_FIRST.replace(b"i=4096", b"i=99999999999"),
        SERVER_FIRST.replace(b"i=4096", b"i=many"),
        SERVER_FIRST.replace(b"W22ZaJ0SNY7soEsUEjb6gQ==", b"!"),
        SERVER_FIRST.replace(b"W22ZaJ0SNY7soEsUEjb6gQ==", b""),
        b"\xff\xfe",
        b"",
    ],
)
def test_scram_wrong_challenge_raises(challenge: bytes) -> None:
    with pytest.raises(AuthenticationError):
        scram().respond(challenge)


@pytest.mark.parametrize(
    ("final", "reason"),
    [
        (b"v=" + base64.b64encode(bytes(32)), "did not prove"),
        (b"e=invalid-proof", "invalid-proof"),
        (b"x=1", "did not prove"),
    ],
)
def test_scram_server_without_proof_raises(final: bytes, reason: str) -> None:
    exchange = scram()
    exchange.respond(SERVER_FIRST)
    with pytest.raises(AuthenticationError, match=reason):
        exchange.respond(final)


def test_plain_is_one_token() -> None:
    exchange = start_exchange("PLAIN", "me", "s3cret", "nonce")
    assert exchange.first() == b"\0me\0s3cret"
    assert exchange.respond(b"") is None


def test_refused_token_is_acknowledged() -> None:
    exchange = BearerExchange("a.b.c")
    assert exchange.first() == b"n,,\x01auth=Bearer a.b.c\x01\x01"
    assert exchange.respond(b"") is None
    assert exchange.respond(b'{"status":"invalid_token"}') == b"\x01"
