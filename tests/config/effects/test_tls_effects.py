"""Properties of TLS, observed by clients that shake hands with a node."""

import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from barnabas.key_stores.stores import first_certificate
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.testing import Node
from tests.config.effects.observed import observes
from tests.config.effects.wire import BROKER, Wire, eventually

LISTENERS = "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
KEYTOOL = Path("tests/key_stores/testdata").resolve()
CA, OTHER_CA = trustme.CA(), trustme.CA()
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def pem(certificate: trustme.LeafCert) -> str:
    return certificate.private_key_and_cert_chain_pem.bytes().decode()


NODE, RENEWED = pem(CA.issue_cert("localhost")), pem(CA.issue_cert("localhost", "node.example"))
CLIENT = CA.issue_cert("client@castle.example", common_name="client")
ANY_NAMES = {"ssl_allow_dn_changes": "true", "ssl_allow_san_changes": "true"}


@contextmanager
def tls_node(**properties: str) -> Iterator[Node]:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    with Node(config={"listeners": LISTENERS, **named}) as node:
        yield node


def tls_port(node: Node) -> int:
    assert node.server is not None
    return node.server.bound_port("SSL")


def shown(node: Node, version: ssl.TLSVersion | None = None) -> tuple[bytes, str]:
    """Return the certificate that a node shows, and the cipher suite."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if version is not None:
        context.maximum_version = version
    with (
        socket.create_connection(("127.0.0.1", tls_port(node)), timeout=30) as sock,
        context.wrap_socket(sock) as secure,
    ):
        der, cipher = secure.getpeercert(binary_form=True), secure.cipher()
        assert der is not None
        assert cipher is not None
        return der, cipher[0]


def is_accepted(node: Node, certificate: trustme.LeafCert | None = CLIENT) -> bool:
    """Return True when a node answers a client that shows this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        certificate.configure_cert(context)
    try:
        with (
            socket.create_connection(("127.0.0.1", tls_port(node)), timeout=30) as sock,
            context.wrap_socket(sock) as secure,
        ):
            secure.sendall(API_VERSIONS)
            return bool(secure.recv(4))
    except OSError:
        return False


def alter_listener(node: Node, **properties: str) -> None:
    """Set properties of the TLS listener in one request."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=BROKER,
        resource_name="1",
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(
                name="listener.name.ssl." + name.replace("_", "."), config_operation=0, value=value
            )
            for name, value in properties.items()
        ],
    )
    wire = Wire(node.port)
    response = wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    (answer,) = response.responses
    assert (answer.error_code, answer.error_message) == (0, None)


@observes("ssl.client.auth")
@pytest.mark.parametrize(
    ("value", "accepted"), [("none", True), ("requested", True), ("required", False)]
)
def test_client_auth_decides_whether_a_certificate_is_needed(value: str, accepted: bool) -> None:
    chain = CA.cert_pem.bytes().decode()
    store = {"ssl_truststore_type": "PEM", "ssl_truststore_certificates": chain}
    key = {"ssl_keystore_type": "PEM", "ssl_keystore_key": NODE}
    key |= {"ssl_keystore_certificate_chain": NODE}
    with tls_node(**key, **store, ssl_client_auth=value) as node:
        assert is_accepted(node, None) is accepted
        assert is_accepted(node, CLIENT)


@observes("ssl.principal.mapping.rules")
@pytest.mark.parametrize(("rules", "accepted"), [("DEFAULT", True), ("RULE:^O=x$/x/", False)])
def test_certificate_without_a_rule_is_refused(rules: str, accepted: bool) -> None:
    chain = CA.cert_pem.bytes().decode()
    with tls_node(
        ssl_keystore_type="PEM",
        ssl_keystore_key=NODE,
        ssl_keystore_certificate_chain=NODE,
        ssl_truststore_type="PEM",
        ssl_truststore_certificates=chain,
        ssl_client_auth="required",
        ssl_principal_mapping_rules=rules,
    ) as node:
        assert is_accepted(node) is accepted


@observes("ssl.enabled.protocols", "ssl.cipher.suites")
def test_versions_and_suites_are_those_of_the_configuration() -> None:
    key = {"ssl_keystore_type": "PEM", "ssl_keystore_key": NODE}
    key |= {"ssl_keystore_certificate_chain": NODE}
    suite = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
    with tls_node(**key, ssl_enabled_protocols="TLSv1.2", ssl_cipher_suites=suite) as node:
        assert shown(node)[1] == "ECDHE-ECDSA-CHACHA20-POLY1305"
    with (
        tls_node(**key, ssl_enabled_protocols="TLSv1.3") as node,
        pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"),
    ):
        shown(node, ssl.TLSVersion.TLSv1_2)


@observes("barnabas.authentication.timeout.ms")
def test_client_that_does_not_shake_hands_is_closed() -> None:
    key = {"ssl_keystore_type": "PEM", "ssl_keystore_key": NODE}
    key |= {"ssl_keystore_certificate_chain": NODE}
    with (
        tls_node(**key, barnabas_authentication_timeout_ms="100") as node,
        socket.create_connection(("127.0.0.1", tls_port(node)), timeout=60) as sock,
    ):
        assert sock.recv(1) == b""


@observes(
    "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password",
    "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password",
    "ssl.allow.dn.changes", "ssl.allow.san.changes", dynamic=True,
)  # fmt: skip
def test_stores_in_files_are_replaced_on_a_running_node(tmp_path: Path) -> None:
    (tmp_path / "node.pem").write_text(NODE)
    CA.cert_pem.write_to_path(tmp_path / "ca.pem")
    start = {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": str(tmp_path / "node.pem"),
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": str(tmp_path / "ca.pem"),
        "ssl_client_auth": "required",
    }
    store = {
        "ssl_keystore_type": "PKCS12",
        "ssl_keystore_location": str(KEYTOOL / "node.p12"),
        "ssl_keystore_password": "store-secret",
        "ssl_truststore_type": "JKS",
        "ssl_truststore_location": str(KEYTOOL / "trust.jks"),
        "ssl_truststore_password": "store-secret",
    }
    expected = first_certificate((KEYTOOL / "node-p12.pem").read_text())
    with tls_node(**start) as node:
        alter_listener(node, **store)  # another name: refused, as changes are not allowed
        assert node.server is not None
        tls = node.server.listeners[1].tls
        assert tls is not None
        assert eventually(lambda: tls.failed_reloads == 1)
        assert shown(node)[0] == first_certificate(NODE)
        assert is_accepted(node)
    with tls_node(
        **start, **{name.replace(".", "_"): text for name, text in ANY_NAMES.items()}
    ) as node:
        alter_listener(node, **store)
        assert eventually(lambda: shown(node)[0] == expected)
        assert not is_accepted(node)  # its authority is not in the new trust store


def test_store_that_was_replaced_is_read_when_its_path_is_set_again(tmp_path: Path) -> None:
    store = tmp_path / "node.pem"
    store.write_text(NODE)
    start = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(store)}
    with tls_node(**start, ssl_allow_dn_changes="true") as node:
        alter_listener(node, ssl_keystore_location=str(store))
        assert shown(node)[0] == first_certificate(NODE)
        store.write_text(RENEWED)
        alter_listener(node, ssl_keystore_location=str(store))
        assert eventually(lambda: shown(node)[0] == first_certificate(RENEWED))


@observes(
    "ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.key.password",
    "ssl.truststore.certificates", dynamic=True,
)  # fmt: skip
def test_stores_in_properties_are_replaced_on_a_running_node() -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(RENEWED.encode(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"key-secret"),
    ).decode()
    with tls_node(
        ssl_keystore_type="PEM",
        ssl_keystore_key=NODE,
        ssl_keystore_certificate_chain=NODE,
        ssl_truststore_type="PEM",
        ssl_truststore_certificates=OTHER_CA.cert_pem.bytes().decode(),
        ssl_client_auth="required",
        ssl_allow_dn_changes="true",
    ) as node:
        assert not is_accepted(node)
        alter_listener(
            node,
            ssl_keystore_key=encrypted,
            ssl_keystore_certificate_chain=RENEWED,
            ssl_key_password="key-secret",
            ssl_truststore_certificates=CA.cert_pem.bytes().decode(),
        )
        assert eventually(lambda: shown(node)[0] == first_certificate(RENEWED))
        assert is_accepted(node)
