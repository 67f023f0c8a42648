"""Principals as values, and as Kafka's text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.principals import ANONYMOUS, Principal


@given(st.text().filter(lambda kind: ":" not in kind), st.text())
def test_principal_survives_its_text(kind: str, name: str) -> None:
    assert Principal.parse(str(Principal(kind, name))) == Principal(kind, name)


def test_principals_name_may_have_colons() -> None:
    assert Principal.parse("User:CN=a:b") == Principal("User", "CN=a:b")


def test_text_without_a_colon_raises() -> None:
    with pytest.raises(ValueError, match="principalType:principalName but got alice"):
        Principal.parse("alice")


def test_token_authentication_does_not_change_who_it_is() -> None:
    assert Principal("User", "a", token_authenticated=True) == Principal("User", "a")
    assert len({Principal("User", "a", token_authenticated=True), Principal("User", "a")}) == 1


def test_anonymous_has_kafkas_name() -> None:
    assert str(ANONYMOUS) == "User:ANONYMOUS"
