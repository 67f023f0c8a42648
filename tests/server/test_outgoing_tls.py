"""TLS of connections to other nodes: stores that do not fit stop the start, or stay unused."""

import logging
import ssl
from pathlib import Path

import pytest
import trustme

from barnabas.config import ConfigError, NodeConfig
from barnabas.server.transport.outgoing_tls import OutgoingTls, check_trust
from barnabas.server.transport.tls_listener import TlsListener
from barnabas.server.transport.tls_settings import load_client_tls, load_tls

OLD, NEW = trustme.CA(), trustme.CA()


class Stores:
    """The store files of a node, and its configuration."""

    def __init__(self, directory: Path) -> None:
        self.key, self.trust = directory / "node.pem", directory / "trust.pem"

    def write(self, authority: trustme.CA, *trusted: trustme.CA) -> None:
        """Replace the key by one of an authority, and the trusted authorities."""
        own = authority.issue_cert("node.example", organization_name="castle")
        own.private_key_and_cert_chain_pem.write_to_path(self.key)
        self.trust.write_bytes(b"".join(each.cert_pem.bytes() for each in trusted))

    def config(self, **changes: str) -> NodeConfig:
        """Return the configuration; `changes` have `_` in place of `.`."""
        return NodeConfig.read(
            None,
            {
                "listeners": "SSL://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
                "inter.broker.listener.name": "SSL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.key),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.trust),
                "ssl.client.auth": "required",
                "ssl.allow.dn.changes": "true",
                **{name.replace("_", "."): value for name, value in changes.items()},
            },
        )


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    found = Stores(tmp_path)
    found.write(OLD, OLD)
    return found


def outgoing(stores: Stores) -> tuple[TlsListener, OutgoingTls]:
    listener = TlsListener(stores.config(), "SSL")
    return listener, OutgoingTls(stores.config(), "SSL", listener)


def test_stores_that_fit_are_accepted(stores: Stores) -> None:
    _, found = outgoing(stores)
    context = found.context()
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_trust_store_without_the_own_authority_stops_the_start(stores: Stores) -> None:
    stores.write(OLD, NEW)
    with pytest.raises(ConfigError, match="do not fit \\(CERTIFICATE_VERIFY_FAILED") as refused:
        outgoing(stores)
    assert refused.value.name == "ssl.truststore.location"


def test_server_that_needs_a_certificate_and_gets_none_is_noticed(stores: Stores) -> None:
    config = stores.config()
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    OLD.configure_trust(client)
    with pytest.raises(ConfigError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        check_trust(client, load_tls(config, "SSL").context, "SSL")


@pytest.mark.parametrize("algorithm", ["https", "HTTPS", ""])
def test_names_are_checked_unless_the_algorithm_is_empty(stores: Stores, algorithm: str) -> None:
    config = stores.config(ssl_endpoint_identification_algorithm=algorithm)
    assert load_client_tls(config, "SSL").check_hostname is bool(algorithm)


def test_unknown_algorithm_is_refused(stores: Stores) -> None:
    config = stores.config(ssl_endpoint_identification_algorithm="LDAPS")
    with pytest.raises(ConfigError, match="it must be https, or empty, not LDAPS"):
        load_client_tls(config, "SSL")


def test_authority_is_replaced_in_three_renewals(stores: Stores) -> None:
    """Trust both authorities, then show a certificate of the new one, then trust it alone."""
    listener, found = outgoing(stores)
    for authority, trusted in ((OLD, (OLD, NEW)), (NEW, (OLD, NEW)), (NEW, (NEW,))):
        before = found.context()
        stores.write(authority, *trusted)
        listener.reload(stores.config())
        assert found.context() is not before
        assert listener.failed_reloads == 0


def test_renewal_that_other_nodes_would_refuse_keeps_the_old_stores(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    listener, found = outgoing(stores)
    before = found.context(), listener.context
    stores.write(NEW, NEW)
    listener.reload(stores.config())
    assert (found.context(), listener.context) == before
    assert listener.failed_reloads == 1
    assert "the old ones stay listener=SSL" in caplog.text


def test_node_without_the_listener_renews_its_own_stores(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    found = OutgoingTls(stores.config(), "SSL", None)
    before = found.context()
    stores.write(NEW, NEW)
    found.reload(stores.config())
    assert (found.context() is not before, "renewed" in caplog.text) == (True, True)
    stores.trust.unlink()
    before = found.context()
    found.reload(stores.config())
    assert found.context() is before
