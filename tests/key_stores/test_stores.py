"""Key stores and trust stores; the files of testdata were made by Java's keytool.

`node-jks.pem` and `node-p12.pem` are the certificates that keytool exported of the two key stores.
"""

import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest

from barnabas.key_stores.java_keystore import WrongPasswordError
from barnabas.key_stores.stores import (
    first_certificate,
    key_of_pem,
    key_of_store,
    trust_of_pem,
    trust_of_store,
)
from barnabas.security.certificates import read_certificate
from barnabas.security.distinguished_names import distinguished_name

DATA = Path(__file__).parent / "testdata"
PASSWORD = "store-secret"
STORES = ["jks", "p12"]
KEY_PASSWORDS = {"jks": "key-secret", "p12": None}


def exported(kind: str) -> bytes:
    return first_certificate((DATA / f"node-{kind}.pem").read_text())


@pytest.mark.parametrize("kind", STORES)
def test_key_store_of_java_gives_its_key_and_certificate(kind: str, tmp_path: Path) -> None:
    data = (DATA / f"node.{kind}").read_bytes()
    material = key_of_store(data, PASSWORD, KEY_PASSWORDS[kind])
    assert first_certificate(material.chain) == exported(kind)
    pem = tmp_path / "node.pem"
    pem.write_text(material.key + material.chain)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(pem)  # raises if they do not fit
    assert key_of_pem(pem.read_text(), None).chain.split() == material.chain.split()


@pytest.mark.parametrize("kind", STORES)
def test_trust_store_of_java_gives_its_certificates(kind: str) -> None:
    pem = trust_of_store((DATA / f"trust.{kind}").read_bytes(), PASSWORD)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=pem)
    assert pem.count("BEGIN CERTIFICATE") == 2
    for each in STORES:
        text = (DATA / f"node-{each}.pem").read_text()
        assert "".join(trust_of_pem(text).split()) in "".join(pem.split())


@pytest.mark.parametrize("kind", STORES)
def test_wrong_password_of_a_store_raises(kind: str) -> None:
    with pytest.raises(WrongPasswordError):
        key_of_store((DATA / f"node.{kind}").read_bytes(), "wrong", "wrong")
    with pytest.raises(WrongPasswordError):
        trust_of_store((DATA / f"trust.{kind}").read_bytes(), "wrong")


def test_wrong_password_of_a_key_raises() -> None:
    with pytest.raises(WrongPasswordError, match="password of the key"):
        key_of_store((DATA / "node.jks").read_bytes(), PASSWORD, "wrong")


@pytest.mark.parametrize("kind", STORES)
def test_trust_store_is_refused_as_a_key_store(kind: str) -> None:
    with pytest.raises(ValueError, match="it has no private key"):
        key_of_store((DATA / f"trust.{kind}").read_bytes(), PASSWORD, None)


def test_jceks_store_is_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match="JCEKS store; convert it with keytool"):
        key_of_store((DATA / "secret.jceks").read_bytes(), PASSWORD, None)


@pytest.mark.parametrize("data", [b"", b"hello", b"-----BEGIN CERTIFICATE-----"])
def test_other_file_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="neither a PKCS12 nor a JKS store"):
        trust_of_store(data, PASSWORD)


def test_cut_jks_store_raises() -> None:
    data = (DATA / "node.jks").read_bytes()
    for size in range(4, len(data)):
        with pytest.raises(ValueError):  # noqa: PT011 - several texts
            key_of_store(data[:size], None, "key-secret")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no private key"),
        ("-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n", "no certificate"),
        ("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n", "no private key"),
    ],
)
def test_incomplete_pem_raises(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        key_of_pem(text, None)


@pytest.mark.parametrize("kind", STORES)
def test_certificate_of_keytool_is_read(kind: str) -> None:
    certificate = read_certificate(exported(kind))
    subject = distinguished_name(certificate.subject)
    assert subject == "CN=node,OU=Castle,O=Westwest,L=Prague,C=CZ"
    assert certificate.not_after > datetime(2100, 1, 1, tzinfo=UTC)
    assert certificate.alternative_names == {b"\x82\x09localhost", b"\x87\x04\x7f\0\0\x01"}
