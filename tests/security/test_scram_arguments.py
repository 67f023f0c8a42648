"""The texts of --add-scram, as Kafka's ScramParser reads them."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.metadata.scram_credentials import SCRAM_BY_NAME
from barnabas.security.scram_arguments import ScramArgumentError, parse_scram_argument

SALT = b"0123456789"
SALT_TEXT = base64.b64encode(SALT).decode()
SECRET = "hunter2"


def test_password_makes_the_keys() -> None:
    record = parse_scram_argument(
        f"SCRAM-SHA-512=[name=alice,password={SECRET},iterations=8192]", lambda: SALT
    )
    mechanism = SCRAM_BY_NAME["SCRAM-SHA-512"]
    expected = mechanism.credential(SALT, mechanism.salted_password(SECRET, SALT, 8192), 8192)
    assert record == expected.record("alice", 2)


def test_salted_password_makes_the_same_keys_as_the_password() -> None:
    mechanism = SCRAM_BY_NAME["SCRAM-SHA-256"]
    salted = base64.b64encode(mechanism.salted_password(SECRET, SALT, 4096)).decode()
    texts = (f"password={SECRET}", f"saltedpassword={salted}")
    records = [
        parse_scram_argument(f" SCRAM-SHA-256=[name=bob,salt={SALT_TEXT},{text}] ", lambda: b"")
        for text in texts
    ]
    assert records[0] == records[1]
    assert (records[0].name, records[0].iterations, records[0].salt) == ("bob", 4096, SALT)


@pytest.mark.parametrize(
    ("text", "user"),
    [
        ('SCRAM-SHA-256=[name="alice",password="p w"]', "alice"),
        ("SCRAM-SHA-256=[name=a=b,password=p]", "a=b"),
        ("SCRAM-SHA-256=[password=p,name=x]", "x"),
        ("SCRAM-SHA-256=[name=,password=p]", ""),
    ],
)
def test_name_may_be_quoted_and_contain_equals_signs(text: str, user: str) -> None:
    assert parse_scram_argument(text, lambda: SALT).name == user


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SCRAM-SHA-256", "Failed to find equals sign"),
        ("SCRAM-SHA-1=[name=a,password=hunter2]", "The add-scram mechanism SCRAM-SHA-1 is not"),
        ("scram-sha-256=[name=a,password=hunter2]", "mechanism scram-sha-256 is not supported"),
        ("SCRAM-SHA-256=name=a,password=hunter2]", r"to start with \["),
        ("SCRAM-SHA-256=[name=a,password=hunter2", r"to end with \]"),
        ("SCRAM-SHA-256=[password=hunter2]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword'"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=AAAA]", "You must supply 'salt' with"),
        ("SCRAM-SHA-256=[name=a,salt=!,password=hunter2]", "Failed to decode given salt"),
        (
            "SCRAM-SHA-256=[name=a,salt=AAAA,saltedpassword=hunter2!]",
            "Failed to decode given saltedPassword",
        ),
        ("SCRAM-SHA-256=[name=a,password=hunter2,iterations=x]", "parse iterations count: x"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,iterations=4095]", "must be >= 4096"),
        ("SCRAM-SHA-512=[name=a,password=hunter2,iterations=16385]", "must be <= 16384 .*512"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,x=y]", "Unknown SCRAM configurations: x"),
        ("SCRAM-SHA-256=[name=a,password=x,hunter2]", "No equals sign found"),
    ],
)
def test_invalid_text_is_refused_without_its_secret(text: str, message: str) -> None:
    with pytest.raises(ScramArgumentError, match=message) as refused:
        parse_scram_argument(text, lambda: SALT)
    assert SECRET not in str(refused.value)


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parse_scram_argument(f"SCRAM-SHA-256=[{text}]", lambda: SALT)
    except ScramArgumentError:
        return
