"""The options of Java's login module."""

import pytest

from barnabas.kerberos.login_options import (
    KerberosLogin,
    LoginOptionsError,
    parse_login,
    service_name,
)

KEYS = {"useKeyTab": "true", "keyTab": "/etc/k.keytab", "principal": "kafka/a@R"}


def test_keys_of_a_keytab() -> None:
    expected = KerberosLogin("kafka", "kafka/a@R", "/etc/k.keytab")
    assert parse_login({**KEYS, "storeKey": "true"}, "kafka") == expected
    assert parse_login({**KEYS, "keyTab": "FILE:/etc/k.keytab"}, "kafka") == expected


def test_tickets_of_a_cache() -> None:
    assert parse_login({"useTicketCache": "TRUE"}, "kafka") == KerberosLogin("kafka")
    given = {"useTicketCache": "true", "ticketCache": "/tmp/c", "principal": "a"}
    assert parse_login(given, "kafka") == KerberosLogin("kafka", "a", None, "/tmp/c")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "no source of keys or tickets.*useTicketCache=true"),
        ({"useKeyTab": "false"}, "no source of keys"),
        ({"keyTab": "/k"}, "only with useKeyTab=true"),
        ({"useKeyTab": "true"}, "needs keyTab"),
        ({"useKeyTab": "true", "keyTab": "/k"}, "needs principal"),
    ],
)
def test_options_that_give_no_login_are_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(LoginOptionsError, match=reason):
        parse_login(options, "kafka")


def test_service_name_is_that_of_either_place() -> None:
    assert service_name({}, "kafka") == "kafka"
    assert service_name({"serviceName": "kafka"}, None) == "kafka"
    assert service_name({"serviceName": "kafka"}, "kafka") == "kafka"
    with pytest.raises(LoginOptionsError, match=r"serviceName=a, and sasl.kerberos.* is b; remove"):
        service_name({"serviceName": "a"}, "b")
    with pytest.raises(LoginOptionsError, match=r"set sasl\.kerberos\.service\.name"):
        service_name({}, None)
