"""Properties of Kerberos; with a KDC, logins are in compat_tests/test_kerberos.py."""

import pytest

from barnabas.config import ConfigError, NodeConfig
from barnabas.kerberos.login_options import RenewalTimes
from barnabas.security.sasl.node_credentials import BROKER_MECHANISM, node_credentials
from barnabas.security.sasl.sasl_settings import sasl_listeners
from tests.config.effects.observed import observes

LISTENER = "listener.name.sasl_plaintext"
JAAS = f"{LISTENER}.gssapi.sasl.jaas.config"
RULES = "sasl.kerberos.principal.to.local.rules"
MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
KEYS = f'{MODULE} useKeyTab=true storeKey=true keyTab="/k" principal="kafka/a@R";'
BASE = {
    "listeners": "SASL_PLAINTEXT://a:9094,CONTROLLER://a:9093",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.kerberos.service.name": "kafka",
    JAAS: KEYS,
}


def config(**changes: str) -> NodeConfig:
    return NodeConfig.read(None, {**BASE, **changes})


def refusal(**changes: str) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        sasl_listeners(config(**changes))
    return refused.value


def test_kerberos_is_the_default_mechanism_of_a_listener_with_its_module() -> None:
    (listener,) = sasl_listeners(config()).values()
    assert listener.mechanisms == {"GSSAPI": 0}
    assert listener.kerberos is not None
    assert listener.kerberos.rules == ("DEFAULT",)
    assert listener.kerberos.login.principal == "kafka/a@R"
    found = node_credentials(config(), "SASL_PLAINTEXT", BROKER_MECHANISM)
    assert (found.mechanism, found.kerberos) == ("GSSAPI", listener.kerberos.login)


@observes(RULES)
def test_rules_are_those_of_the_listener_and_are_parsed_at_the_start() -> None:
    own = f"{LISTENER}.{RULES}"
    given = {RULES: "RULE:[1:$1],DEFAULT", own: "RULE:[2:$1]/L"}
    (listener,) = sasl_listeners(config(**given)).values()
    assert listener.kerberos is not None
    assert listener.kerberos.rules == ("RULE:[2:$1]/L",)
    error = refusal(**{RULES: "RULE:[1:$2]"})
    assert error.name == RULES
    assert "RULE:[1:$2] for configuration" in error.message
    assert refusal(**{RULES: "DEFAULT", own: "nonsense"}).name == own


@observes("sasl.kerberos.service.name")
def test_service_name_is_needed_and_agrees_with_the_module() -> None:
    (listener,) = sasl_listeners(config(**{"sasl.kerberos.service.name": "queue"})).values()
    assert listener.kerberos is not None
    assert listener.kerberos.login.service == "queue"
    assert "set sasl.kerberos.service.name" in refusal(**{"sasl.kerberos.service.name": ""}).message
    error = refusal(**{JAAS: KEYS.replace("useKeyTab", 'serviceName="other" useKeyTab')})
    assert error.name == JAAS
    assert "remove one of them" in error.message


@observes(
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.min.time.before.relogin",
)
def test_times_of_renewal_are_those_of_the_listener() -> None:
    def renewal(**changes: str) -> RenewalTimes:
        found = node_credentials(config(**changes), "SASL_PLAINTEXT", BROKER_MECHANISM).kerberos
        assert found is not None
        return found.renewal

    assert renewal() == RenewalTimes(0.8, 0.05, 60)
    changes = {
        "sasl.kerberos.ticket.renew.window.factor": "0.5",
        f"{LISTENER}.sasl.kerberos.ticket.renew.jitter": "0.1",
        "sasl.kerberos.min.time.before.relogin": "1500",
    }
    assert renewal(**changes) == RenewalTimes(0.5, 0.1, 1.5)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("", "no source of keys or tickets"),
        ("useTicketCache=true", "a cache of tickets has none; set useKeyTab=true"),
        ('useKeyTab=true keyTab="/k"', "needs principal"),
    ],
)
def test_module_without_keys_is_refused(options: str, reason: str) -> None:
    error = refusal(**{JAAS: f"{MODULE} {options};"})
    assert error.name == JAAS
    assert reason in error.message
