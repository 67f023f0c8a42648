"""TLS connections: who is trusted, who is not, and what the client says of it."""

import ssl
from pathlib import Path

import pytest
import trustme

from barnabas.client import CallTimeoutError, KafkaClient, TlsError
from barnabas.client.admin_calls import describe_topic
from barnabas.config import ConfigError
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages_base import Message
from tests.client.harness import FakeBroker, with_fake_broker

AUTHORITY = trustme.CA()


def handler(request: Message, version: int) -> Message | None:
    return MetadataResponse(cluster_id="c") if isinstance(request, MetadataRequest) else None


def server_context(*names: str, client_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert(*names).configure_cert(context)
    if client_certificate:
        AUTHORITY.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def describe(context: ssl.SSLContext, properties: dict[str, str]) -> None:
    """Describe a topic that a TLS broker does not have."""

    async def test(client: KafkaClient, broker: FakeBroker) -> None:
        assert await describe_topic(client, "t") is None

    named = {name.replace(".", "_"): value for name, value in properties.items()}
    with_fake_broker(FakeBroker(handler, context), test, security_protocol="SSL", **named)


@pytest.fixture
def trust(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "ca.pem"
    AUTHORITY.cert_pem.write_to_path(file)
    return {"ssl.ca.location": str(file)}


def test_tls_trusted_broker_answers(trust: dict[str, str]) -> None:
    describe(server_context("127.0.0.1"), trust)
    text = AUTHORITY.cert_pem.bytes().decode()
    describe(server_context("127.0.0.1"), {"ssl.truststore.certificates": text})


def test_tls_unknown_authority_fails_at_once() -> None:
    with pytest.raises(TlsError, match="CERTIFICATE_VERIFY_FAILED"):
        describe(server_context("127.0.0.1"), {})
    describe(server_context("127.0.0.1"), {"enable.ssl.certificate.verification": "false"})


def test_tls_other_host_name_fails_unless_it_is_not_checked(trust: dict[str, str]) -> None:
    with pytest.raises(TlsError):
        describe(server_context("other.example"), trust)
    unchecked = {"ssl.endpoint.identification.algorithm": "none"}
    describe(server_context("other.example"), {**trust, **unchecked})


def test_tls_broker_that_asks_for_a_certificate_gets_it(
    trust: dict[str, str], tmp_path: Path
) -> None:
    context = server_context("127.0.0.1", client_certificate=True)
    own = AUTHORITY.issue_cert("client.example")
    file = tmp_path / "client.pem"
    own.private_key_and_cert_chain_pem.write_to_path(file)
    describe(context, {**trust, "ssl.keystore.location": str(file), "ssl.keystore.type": "PEM"})
    key = own.private_key_pem.bytes().decode()
    chain = own.cert_chain_pems[0].bytes().decode()
    describe(context, {**trust, "ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain})
    with pytest.raises((TlsError, CallTimeoutError)):
        describe(context, {**trust, "default.api.timeout.ms": "200"})


def test_tls_file_that_is_missing_raises_config_error() -> None:
    with pytest.raises(ConfigError, match="TLS settings"):
        describe(server_context("127.0.0.1"), {"ssl.ca.location": "/nonexistent/ca.pem"})
