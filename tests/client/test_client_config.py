"""Properties of librdkafka and of Java's clients."""

from pathlib import Path

import pytest

from barnabas.client import Address, ClientConfig
from barnabas.config import ConfigError

BOOTSTRAP = {"bootstrap.servers": "a:1"}
SASL = {**BOOTSTRAP, "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256"}


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("a:1", [("a", 1)]),
        ("a:1, b:2,", [("a", 1), ("b", 2)]),
        ("a", [("a", 9092)]),
        ("PLAINTEXT://a:1", [("a", 1)]),
        ("[::1]:5", [("::1", 5)]),
        ("::1", [("::1", 9092)]),
    ],
)
def test_config_bootstrap_forms_are_read(text: str, addresses: list[tuple[str, int]]) -> None:
    config = ClientConfig.from_properties({"bootstrap.servers": text})
    assert config.bootstrap == tuple(Address(*each) for each in addresses)


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({}, "bootstrap.servers is needed"),
        ({"bootstrap.servers": "a:0"}, "a:0"),
        ({"bootstrap.servers": "a:x"}, "a:x"),
        ({**BOOTSTRAP, "security.protocol": "TLS"}, "one of PLAINTEXT"),
        ({**BOOTSTRAP, "request.timeout.ms": "soon"}, "request.timeout.ms"),
        ({**BOOTSTRAP, "compression.type": "brotli"}, "one of none"),
        ({**SASL, "sasl.mechanism": "DIGEST-MD5"}, "one of PLAIN"),
        (SASL, "sasl.username"),
        ({**BOOTSTRAP, "ssl.truststore.type": "BKS"}, "one of JKS, PKCS12, PEM"),
        ({**BOOTSTRAP, "ssl.keystore.type": "JCEKS"}, "one of JKS, PKCS12, PEM"),
    ],
)
def test_config_bad_properties_raise_with_the_reason(
    properties: dict[str, str], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        ClientConfig.from_properties(properties)


@pytest.mark.parametrize(
    "credentials",
    [
        {"sasl.username": "me", "sasl.password": "it's"},
        {
            "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="me" password="it\'s";'
        },
    ],
)
def test_config_sasl_credentials_of_both_worlds(credentials: dict[str, str]) -> None:
    config = ClientConfig.from_properties({**SASL, **credentials})
    assert config.sasl is not None
    assert config.tls is not None
    assert (config.sasl.username, config.sasl.password) == ("me", "it's")
    assert "it's" not in repr(config)


def test_config_file_under_overrides_keeps_unknown_names_apart(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=a:1\nrequest.timeout.ms=1500\nlinger.ms=5\nbatch.size=7\n")
    config = ClientConfig.load(file, {"bootstrap.servers": "b:2"})
    assert config.bootstrap == (Address("b", 2),)
    assert (config.request_timeout_s, config.batch_size) == (1.5, 7)
    assert config.ignored == ("linger.ms",)


def test_config_tls_settings_of_java_and_librdkafka_agree() -> None:
    java = {"ssl.truststore.location": "ca.pem", "ssl.truststore.type": "PEM"}
    rdkafka = {"ssl.ca.location": "ca.pem"}
    found = [
        ClientConfig.from_properties({**BOOTSTRAP, "security.protocol": "SSL", **each}).tls
        for each in (java, rdkafka)
    ]
    assert found[0] == found[1]
    none = {"ssl.endpoint.identification.algorithm": ""}
    tls = ClientConfig.from_properties({**BOOTSTRAP, "security.protocol": "SSL", **none}).tls
    assert tls is not None
    assert (tls.check_hostname, tls.verify) == (False, True)
