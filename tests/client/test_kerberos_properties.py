"""Properties of clients with Kerberos, of Java's clients and of librdkafka."""

import pytest

from barnabas.client import ClientConfig
from barnabas.config import ConfigError
from barnabas.kerberos.login_options import KerberosLogin, RenewalTimes

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
BASE = {
    "bootstrap.servers": "a:1",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "GSSAPI",
}


def login(**properties: str) -> KerberosLogin:
    config = ClientConfig.from_properties({**BASE, **properties})
    assert config.sasl is not None
    assert config.sasl.tickets is not None
    assert config.ignored == ()
    return config.sasl.tickets.login


def test_login_is_that_of_javas_module() -> None:
    jaas = f'{MODULE} useKeyTab=true storeKey=true keyTab="/k" principal="alice@R";'
    found = login(**{"sasl.jaas.config": jaas, "sasl.kerberos.service.name": "queue"})
    assert found == KerberosLogin("queue", "alice@R", "/k")
    cache = f'{MODULE} useTicketCache=true ticketCache="/c" serviceName="queue";'
    assert login(**{"sasl.jaas.config": cache}) == KerberosLogin("queue", None, None, "/c")


def test_login_is_that_of_librdkafkas_properties() -> None:
    given = {"sasl.kerberos.keytab": "/k", "sasl.kerberos.principal": "alice"}
    times = {
        "sasl.kerberos.ticket.renew.window.factor": "0.5",
        "sasl.kerberos.ticket.renew.jitter": "0",
        "sasl.kerberos.min.time.before.relogin": "2000",
    }
    expected = KerberosLogin("kafka", "alice", "/k", None, RenewalTimes(0.5, 0, 2))
    assert login(**given, **times) == expected
    assert login() == KerberosLogin("kafka")


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"sasl.jaas.config": f"{MODULE} debug=true;"}, "for sasl.jaas.config: .*no source of"),
        ({"sasl.kerberos.ticket.renew.jitter": "x"}, "x for sasl.kerberos.*: a number"),
        ({"sasl.kerberos.min.time.before.relogin": "nan"}, "nan for .*: a number"),
        (
            {
                "sasl.jaas.config": f'{MODULE} useTicketCache=true serviceName="a";',
                "sasl.kerberos.service.name": "b",
            },
            "remove one of them",
        ),
    ],
)
def test_properties_that_cannot_work_are_refused(properties: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        ClientConfig.from_properties({**BASE, **properties})
