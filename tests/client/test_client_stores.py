"""Java's key stores and trust stores as a client reads them, and the errors of those it cannot."""

import shutil
import ssl
from pathlib import Path
from typing import Final

import pytest

from barnabas.client import KafkaClient
from barnabas.client.admin_calls import describe_topic
from barnabas.client.client_config import ClientConfig, TlsSettings
from barnabas.client.client_tls import tls_context
from barnabas.config import ConfigError
from barnabas.private_files import memory_file
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages_base import Message
from tests.client.harness import FakeBroker, with_fake_broker

DATA: Final = Path("tests/key_stores/testdata").resolve()
PASSWORD: Final = "store-secret"
STORES: Final = ["jks", "p12"]
KEY_PASSWORDS: Final = {"jks": {"ssl.key.password": "key-secret"}, "p12": {}}


def settings(**properties: str) -> TlsSettings:
    """Return the TLS settings of properties, whose names have _ for a dot."""
    named = {name.replace("_", "."): text for name, text in properties.items()}
    base = {"bootstrap.servers": "a:1", "security.protocol": "SSL"}
    found = ClientConfig.from_properties({**base, **named}).tls
    assert found is not None
    return found


def handler(request: Message, version: int) -> Message | None:
    return MetadataResponse(cluster_id="c") if isinstance(request, MetadataRequest) else None


def broker() -> FakeBroker:
    """Return a broker that asks for a certificate and trusts those of both key stores."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls = settings(
        ssl_keystore_location=str(DATA / "node.p12"), ssl_keystore_password=PASSWORD
    ).opened()
    assert tls.certificate_text is not None
    assert tls.key_text is not None
    for each in STORES:
        context.load_verify_locations(str(DATA / f"node-{each}.pem"))
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_mode = ssl.CERT_REQUIRED
    with memory_file(f"{tls.key_text}{tls.certificate_text}".encode()) as path:
        context.load_cert_chain(path)
    return FakeBroker(handler, context)


@pytest.mark.parametrize("key_store", STORES)
@pytest.mark.parametrize("trust_store", STORES)
def test_client_connects_with_stores_of_java(key_store: str, trust_store: str) -> None:
    async def test(client: KafkaClient, broker: FakeBroker) -> None:
        assert await describe_topic(client, "t") is None

    properties = {
        "security.protocol": "SSL",
        "ssl.keystore.location": str(DATA / f"node.{key_store}"),
        "ssl.keystore.password": PASSWORD,
        **KEY_PASSWORDS[key_store],
        "ssl.truststore.location": str(DATA / f"trust.{trust_store}"),
        "ssl.truststore.password": PASSWORD,
        "ssl.endpoint.identification.algorithm": "",
    }
    named = {name.replace(".", "_"): text for name, text in properties.items()}
    with_fake_broker(broker(), test, **named)


@pytest.mark.parametrize("given", [{}, {"ssl_truststore_type": "jks"}])
def test_format_is_that_of_the_type_or_of_the_first_bytes(
    tmp_path: Path, given: dict[str, str]
) -> None:
    file = tmp_path / "trust.pem"  # the name says something else
    shutil.copy(DATA / "trust.jks", file)
    found = settings(ssl_truststore_location=str(file), **given)
    assert found.trust_store is not None
    assert found.trust_store.kind == "JKS"
    pem = settings(ssl_truststore_location=str(DATA / "node-p12.pem"))
    assert (pem.trust_store, pem.ca_file) == (None, str(DATA / "node-p12.pem"))


def test_passwords_are_not_in_the_text_of_settings() -> None:
    found = settings(
        ssl_keystore_location=str(DATA / "node.jks"),
        ssl_keystore_password=PASSWORD,
        ssl_key_password="key-secret",
    )
    for each in (found, found.opened()):
        assert "secret" not in repr(each)
        assert "PRIVATE KEY" not in repr(each)


def store(side: str, name: str, password: str | None = PASSWORD, **more: str) -> dict[str, str]:
    """Return the properties of a store of the test data."""
    found = {f"ssl_{side}_location": str(DATA / name), **more}
    return found if password is None else {**found, f"ssl_{side}_password": password}


FAULTS: Final = {
    "missing file": (
        store("truststore", "none.jks"),
        r"none.jks for ssl.truststore.location: No such file or directory; set it to a file",
    ),
    "wrong password of a JKS trust store": (
        store("truststore", "trust.jks", "wrong"),
        r"trust.jks for ssl.truststore.location: its password is not the one in "
        r"ssl.truststore.password, or the file is damaged; correct one",
    ),
    "wrong password of a PKCS12 key store": (
        store("keystore", "node.p12", "wrong"),
        r"node.p12 for ssl.keystore.location: its password is not the one in ssl.keystore.password",
    ),
    "no password": (
        store("keystore", "node.p12", None),
        r"node.p12 for ssl.keystore.location: it needs a password; set ssl.keystore.password",
    ),
    "wrong password of a key": (
        store("keystore", "node.jks"),
        r"node.jks for ssl.keystore.location: the password of the key is wrong; set "
        r"ssl.key.password, where it differs",
    ),
    "key store without a key": (
        store("keystore", "trust.p12"),
        r"trust.p12 for ssl.keystore.location: it has no private key; set it to a key store",
    ),
    "trust store without a certificate": (
        store("truststore", "node.jks"),
        r"node.jks for ssl.truststore.location: it has no certificate; set it to a trust store",
    ),
    "another format": (
        store("truststore", "secret.jceks", ssl_truststore_type="JKS"),
        r"secret.jceks for ssl.truststore.location: it is a JCEKS store; convert it",
    ),
    "PEM in place of a store": (
        store("truststore", "node-p12.pem", ssl_truststore_type="PKCS12"),
        r"it is neither a PKCS12 nor a JKS store; .*or set ssl.truststore.type=PEM",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_store_that_cannot_be_used_is_refused_with_property_file_and_remedy(case: str) -> None:
    properties, message = FAULTS[case]
    with pytest.raises(ConfigError, match=message) as refused:
        tls_context(settings(**properties))
    assert PASSWORD not in str(refused.value)
    assert "wrong" not in str(refused.value) or "password of the key" in str(refused.value)
