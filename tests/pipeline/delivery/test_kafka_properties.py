"""Properties of a job for librdkafka and for Spark."""

import pickle
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from barnabas.client.failures import AuthenticationError
from barnabas.config import ConfigError
from barnabas.pipeline.delivery.plan.kafka_properties import (
    for_java,
    for_librdkafka,
    for_spark,
    poll_records_max,
    transaction_timeout_ms,
)
from barnabas.pipeline.delivery.plan.librdkafka_tokens import check_tokens
from barnabas.pipeline.delivery.plan.worker_plan import POLL_RECORDS_MAX

KILOBYTES = "queue.buffering.max.kbytes"
BASE = {"bootstrap.servers": "h:1"}
JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="u" password="p\\"q";'
)
JAVA = {**BASE, "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256"}

STORES = Path("tests/key_stores/testdata").resolve()
TOKENS = {
    **BASE,
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://i.example/token",
    "sasl.oauthbearer.client.credentials.client.id": "me",
    "sasl.oauthbearer.client.credentials.client.secret": 'it"s',
    "sasl.oauthbearer.scope": "kafka",
}


def test_plain_properties_pass_to_both() -> None:
    assert for_librdkafka(BASE) == {
        **BASE,
        "security.protocol": "PLAINTEXT",
        "metadata.recovery.strategy": "none",
        "reconnect.backoff.ms": "20",
    }
    assert for_spark(BASE) == {
        "kafka.bootstrap.servers": "h:1",
        "kafka.security.protocol": "PLAINTEXT",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [("metadata.recovery.strategy", "rebootstrap"), ("reconnect.backoff.ms", "1000")],
)
def test_property_of_the_job_wins_over_our_default(name: str, value: str) -> None:
    assert for_librdkafka({**BASE, name: value})[name] == value


def test_jaas_becomes_username_and_password_for_librdkafka() -> None:
    found = for_librdkafka({**JAVA, "sasl.jaas.config": JAAS})
    assert (found["sasl.username"], found["sasl.password"]) == ("u", 'p"q')
    assert found["security.protocol"] == "SASL_SSL"
    assert "sasl.jaas.config" not in found


def test_username_and_password_become_jaas_for_spark() -> None:
    found = for_spark({**JAVA, "sasl.username": "u", "sasl.password": 'p"q'})
    assert found["kafka.sasl.jaas.config"] == JAAS
    assert "kafka.sasl.password" not in found


def test_delegation_token_is_one_for_java_and_refused_for_librdkafka() -> None:
    given = {**JAVA, "sasl.jaas.config": JAAS.replace(";", " tokenauth=true;")}
    assert for_spark(given)["kafka.sasl.jaas.config"] == JAAS.replace(";", ' tokenauth="true";')
    with pytest.raises(ConfigError, match="librdkafka cannot authenticate with a delegation token"):
        for_librdkafka(given)


KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required"


@pytest.mark.parametrize(
    ("given", "module"),
    [
        (
            {"sasl.kerberos.keytab": "/a.keytab", "sasl.kerberos.principal": "alice@R"},
            'useKeyTab=true storeKey=true keyTab="/a.keytab" principal="alice@R"',
        ),
        (
            {"sasl.jaas.config": f'{KERBEROS} useTicketCache=true ticketCache="/c" debug=true;'},
            'useTicketCache=true ticketCache="/c"',
        ),
    ],
)
def test_kerberos_is_passed_to_java_and_refused_for_librdkafka(
    given: dict[str, str], module: str
) -> None:
    client = {**BASE, "security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", **given}
    found = for_spark({**client, "sasl.kerberos.service.name": "queue"})
    assert found["kafka.sasl.mechanism"] == "GSSAPI"
    assert found["kafka.sasl.jaas.config"] == f"{KERBEROS} {module};"
    assert found["kafka.sasl.kerberos.service.name"] == "queue"
    with pytest.raises(ConfigError, match="GSSAPI: the librdkafka of confluent-kafka has no Kerb"):
        for_librdkafka(client)


def test_pem_files_have_their_names_in_each_client() -> None:
    tls = {**BASE, "security.protocol": "SSL", "ssl.truststore.location": "/ca.pem"}
    assert for_librdkafka(tls)["ssl.ca.location"] == "/ca.pem"
    assert for_spark(tls)["kafka.ssl.truststore.location"] == "/ca.pem"
    assert for_spark(tls)["kafka.ssl.truststore.type"] == "PEM"


def stores(kind: str) -> dict[str, str]:
    """Return properties with a key store and a trust store of the test data."""
    own = {"ssl.key.password": "key-secret"} if kind == "jks" else {}
    return {
        **BASE,
        **own,
        "security.protocol": "SSL",
        "ssl.keystore.location": str(STORES / f"node.{kind}"),
        "ssl.keystore.password": "store-secret",
        "ssl.truststore.location": str(STORES / f"trust.{kind}"),
        "ssl.truststore.password": "store-secret",
    }


@pytest.mark.parametrize(("kind", "name"), [("jks", "JKS"), ("p12", "PKCS12")])
def test_stores_stay_files_for_java_and_are_texts_for_librdkafka(kind: str, name: str) -> None:
    given = stores(kind)
    own = {each: text for each, text in given.items() if each.startswith("ssl.")}
    expected = {**own, "ssl.keystore.type": name, "ssl.truststore.type": name}
    java = {each: text for each, text in for_java(given).items() if each.startswith("ssl.")}
    assert java == {**expected, "ssl.endpoint.identification.algorithm": "https"}
    spark = for_spark(given)
    assert {each: spark[f"kafka.{each}"] for each in expected} == expected
    found = for_librdkafka(given)
    assert not [each for each in found if each.endswith((".location", "password", ".type"))]
    assert found["ssl.ca.pem"].count("BEGIN CERTIFICATE") == 2
    exported = (STORES / f"node-{kind}.pem").read_text()
    assert "".join(exported.split()) in "".join(found["ssl.certificate.pem"].split())
    Producer(found)  # raises when the key does not belong to the certificate


@pytest.mark.parametrize("convert", [for_librdkafka, for_java, for_spark])
def test_store_that_cannot_be_read_is_refused_for_each_client(
    convert: Callable[[dict[str, str]], dict[str, str]],
) -> None:
    given = {**stores("jks"), "ssl.truststore.password": "wrong"}
    with pytest.raises(
        ConfigError, match=r"its password is not the one in ssl.truststore.password"
    ):
        convert(given)


def test_tokens_of_an_issuer_have_the_names_of_librdkafka() -> None:
    found = for_librdkafka(TOKENS)
    assert {each: found[each] for each in found if each.startswith("sasl.")} == {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://i.example/token",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": 'it"s',
        "sasl.oauthbearer.scope": "kafka",
    }
    Producer({**found, "log_level": 0})  # raises for an unknown name


def test_tokens_have_javas_login_module_for_java_and_spark() -> None:
    found = for_java(TOKENS)
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    options = 'clientId="me" clientSecret="it\\"s" scope="kafka"'
    expected = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{module} {options};",
        "sasl.login.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
        "sasl.oauthbearer.token.endpoint.url": "https://i.example/token",
    }
    assert {each: found[each] for each in found if each.startswith("sasl.")} == expected
    spark = for_spark(TOKENS)
    assert {each: spark[f"kafka.{each}"] for each in expected} == expected


def test_token_in_a_file_goes_to_each_client(tmp_path: Path) -> None:
    url = (tmp_path / "token").as_uri()
    given = {
        name: text for name, text in TOKENS.items() if not name.startswith("sasl.oauthbearer.")
    } | {"sasl.oauthbearer.token.endpoint.url": url}
    java = for_java(given)
    assert java["sasl.oauthbearer.token.endpoint.url"] == url
    assert java["sasl.jaas.config"].endswith("OAuthBearerLoginModule required;")
    found = for_librdkafka(given)
    with pytest.raises(AuthenticationError, match=r"cannot read the token in .*; set sasl.oauth"):
        check_tokens(found)
    (tmp_path / "token").write_text("opaque\n")
    callback = pickle.loads(pickle.dumps(found["oauth_cb"]))  # as Spark does
    token, ends_at_s = callback("")
    assert token == "opaque"
    assert ends_at_s > time.time()
    check_tokens(found)
    check_tokens(for_librdkafka(BASE))  # needs none


def test_properties_of_java_alone_do_not_reach_librdkafka() -> None:
    found = for_librdkafka({**BASE, "max.poll.records": "1", "max.request.size": "9"})
    assert "max.poll.records" not in found
    assert found["message.max.bytes"] == "9"


def test_size_of_the_producers_buffer_has_javas_name_or_that_of_librdkafka() -> None:
    assert for_librdkafka({**BASE, "buffer.memory": "33554433"})[KILOBYTES] == "32769"
    assert for_librdkafka({**BASE, "buffer.memory": "9", KILOBYTES: "7"})[KILOBYTES] == "7"


def test_records_of_a_poll_are_limited_as_in_java() -> None:
    assert poll_records_max({**BASE, "max.poll.records": "500"}) == 500
    assert poll_records_max(BASE) == POLL_RECORDS_MAX


def test_timeout_of_transactions_is_a_minute_unless_the_properties_have_one() -> None:
    assert transaction_timeout_ms(BASE) == 60_000
    assert transaction_timeout_ms({**BASE, "transaction.timeout.ms": "900000"}) == 900_000


@pytest.mark.parametrize("value", ["0", "-1", "x", "", "1.5"])
def test_text_that_is_not_a_number_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=f"max.poll.records={value} is not a number"):
        poll_records_max({"max.poll.records": value})
    with pytest.raises(ConfigError, match=f"transaction.timeout.ms={value} is not a number"):
        transaction_timeout_ms({"transaction.timeout.ms": value})
    with pytest.raises(ConfigError, match=f"buffer.memory={value} is not a number"):
        for_librdkafka({**BASE, "buffer.memory": value})


@pytest.mark.parametrize("name", ["group.id", "auto.offset.reset", "key.deserializer"])
def test_properties_that_spark_refuses_do_not_reach_it(name: str) -> None:
    assert f"kafka.{name}" not in for_spark({**BASE, name: "x"})
