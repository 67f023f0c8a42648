"""SCRAM messages: the cases of Kafka's ScramMessagesTest, as far as they are the server's."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.scram_messages import ClientFinal, ClientFirst, ScramFormatError

NONCE = "5zr7yd0zqovfz2pjz0p9phk2xg"
PROOF = base64.b64encode(b"p" * 32).decode()
CHANNEL = base64.b64encode(b"n,,").decode()
VALID_EXTENSIONS = [
    "ext=val1",
    "anotherext=name1=value1 name2=another test value \"'!$[]()",
    "first=val1,second=name1 = value ,third=123",
]
INVALID_EXTENSIONS = ["ext1=value", "ext", "ext=value1,value2", "ext=,", "ext =value"]
VALID_RESERVED = ["m=reserved-value", "m=name1=value1 name2=another test value \"'!$[]()"]
INVALID_RESERVED = ["m", "m=name,value", "m=,"]


@pytest.mark.parametrize(
    ("text", "user", "authorization_id", "is_token"),
    [
        (f"n,,n=testuser,r={NONCE}", "testuser", "", False),
        (f"n,,n=test=2Cuser,r={NONCE}", "test,user", "", False),
        (f"n,,n=test=3Duser,r={NONCE}", "test=user", "", False),
        (f"n,,n=test=3D2Cuser,r={NONCE}", "test=2Cuser", "", False),
        (f"n,a=testauthzid,n=testuser,r={NONCE}", "testuser", "testauthzid", False),
        *[(f"n,,{each},n=testuser,r={NONCE}", "testuser", "", False) for each in VALID_RESERVED],
        *[(f"n,,n=testuser,r={NONCE},{each}", "testuser", "", False) for each in VALID_EXTENSIONS],
        (f"n,,n=testuser,r={NONCE},tokenauth=true", "testuser", "", True),
        (f"n,,n=testuser,r={NONCE},tokenauth=TRUE", "testuser", "", True),
        (f"n,,n=testuser,r={NONCE},tokenauth=false", "testuser", "", False),
    ],
)
def test_client_first_message_is_read(
    text: str, user: str, authorization_id: str, is_token: bool
) -> None:
    first = ClientFirst.parse(text.encode())
    assert (first.user, first.nonce) == (user, NONCE)
    assert (first.authorization_id, first.is_token) == (authorization_id, is_token)
    assert first.gs2_header + first.bare == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"n,x=something,n=testuser,r={NONCE}",
        f"y,,n=testuser,r={NONCE}",
        f"p=tls-unique,,n=testuser,r={NONCE}",
        f"n,,n=,r={NONCE}",
        f"n,,n=a=b,r={NONCE}",
        f"n,,n=größe,r={NONCE}",
        "n,,n=testuser,r=",
        "n,,n=testuser,r=with space",
        f"n,,n=testuser,r={NONCE}\n",
        *[f"n,,{each},n=testuser,r={NONCE}" for each in INVALID_RESERVED],
        *[f"n,,n=testuser,r={NONCE},{each}" for each in INVALID_EXTENSIONS],
    ],
)
def test_invalid_client_first_message_is_refused(text: str) -> None:
    with pytest.raises(ScramFormatError):
        ClientFirst.parse(text.encode())


@pytest.mark.parametrize("extension", ["", *VALID_EXTENSIONS])
def test_client_final_message_is_read(extension: str) -> None:
    signed = ",".join(filter(None, [f"c={CHANNEL},r={NONCE}", extension]))
    final = ClientFinal.parse(f"{signed},p={PROOF}".encode())
    assert (final.channel_binding, final.nonce, final.proof) == (b"n,,", NONCE, b"p" * 32)
    assert final.signed == signed


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"c=ab,r={NONCE},p={PROOF}",
        f"c={CHANNEL},r={NONCE},p=123",
        f"c={CHANNEL},r={NONCE}",
        f"c={CHANNEL},r={NONCE},p={PROOF},x=y",
        f"c={CHANNEL},r=,p={PROOF}",
        *[f"c={CHANNEL},r={NONCE},{each},p={PROOF}" for each in INVALID_EXTENSIONS],
    ],
)
def test_invalid_client_final_message_is_refused(text: str) -> None:
    with pytest.raises(ScramFormatError):
        ClientFinal.parse(text.encode())


@given(st.binary(max_size=60) | st.text(alphabet="n,=arcp 2CD3m\x01\n", max_size=40))
def test_any_bytes_are_read_or_refused(given_bytes: bytes | str) -> None:
    token = given_bytes.encode() if isinstance(given_bytes, str) else given_bytes
    for kind in (ClientFirst, ClientFinal):
        try:
            kind.parse(token)
        except ScramFormatError:
            continue
