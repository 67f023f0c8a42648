"""Properties of a job for librdkafka and for Spark."""

import pytest

from barnabas.config import ConfigError
from barnabas.pipeline.delivery.plan.kafka_properties import (
    for_librdkafka,
    for_spark,
    poll_records_max,
    transaction_timeout_ms,
)
from barnabas.pipeline.delivery.plan.worker_plan import POLL_RECORDS_MAX

KILOBYTES = "queue.buffering.max.kbytes"
BASE = {"bootstrap.servers": "h:1"}
JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="u" password="p\\"q";'
)
JAVA = {**BASE, "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256"}


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


def test_pem_files_have_their_names_in_each_client() -> None:
    tls = {**BASE, "security.protocol": "SSL", "ssl.truststore.location": "/ca.pem"}
    assert for_librdkafka(tls)["ssl.ca.location"] == "/ca.pem"
    assert for_spark(tls)["kafka.ssl.truststore.location"] == "/ca.pem"
    assert for_spark(tls)["kafka.ssl.truststore.type"] == "PEM"


def test_java_keystore_is_refused() -> None:
    with pytest.raises(ConfigError, match="only PEM"):
        for_librdkafka({**BASE, "ssl.truststore.location": "/ca.jks"})


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
