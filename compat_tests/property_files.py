"""A node that asks its clients for tokens or for certificates, and properties of its clients.

The stores of the clients are those of Java's tools: a trust store that keytool makes (JKS), and a
key store in PKCS12.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate

from barnabas.testing import Node
from compat_tests.cluster.secured import Security
from compat_tests.token_issuer import AUDIENCE, ISSUER, TokenIssuer

USER: Final = "alice"
SECRET: Final = "alice-canary"
STORE_PASSWORD: Final = "store-canary"
CANARIES: Final = (SECRET, STORE_PASSWORD)
"""The secrets of clients, which appear in no plan and no checkpoint."""
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"
_TOKENS: Final = "listener.name.sasl_ssl.oauthbearer.sasl"


@attrs.frozen
class PropertyFiles:
    """A running node, and what its clients need."""

    node: Node
    issuer: TokenIssuer
    directory: Path
    authority: Path

    @property
    def plain(self) -> str:
        """The address of the listener without security."""
        return self._address("PLAINTEXT")

    def tokens(self) -> dict[str, str]:
        """Properties of Java's clients: tokens of the issuer, and a trust store in JKS."""
        return {
            "bootstrap.servers": self._address("SASL_SSL"),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
            "sasl.login.callback.handler.class": f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": self.issuer.url,
            "sasl.oauthbearer.client.credentials.client.id": USER,
            "sasl.oauthbearer.client.credentials.client.secret": SECRET,
            **self._trust_store(),
        }

    def token_file(self) -> dict[str, str]:
        """Properties of a client whose token is in a file, with an authority in PEM."""
        file = self.directory / "token"
        file.write_text(self.issuer.token(USER))
        return {
            "bootstrap.servers": self._address("SASL_SSL"),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
            "ssl.ca.location": str(self.authority),
        }

    def certificate(self) -> dict[str, str]:
        """Properties of a client with a key store in PKCS12, and a trust store in JKS."""
        return {
            "bootstrap.servers": self._address("SSL"),
            "security.protocol": "SSL",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.directory / "client.p12"),
            "ssl.keystore.password": STORE_PASSWORD,
            **self._trust_store(),
        }

    def _trust_store(self) -> dict[str, str]:
        return {
            "ssl.truststore.location": str(self.directory / "trust.jks"),
            "ssl.truststore.password": STORE_PASSWORD,
        }

    def _address(self, listener: str) -> str:
        assert self.node.server is not None
        return f"127.0.0.1:{self.node.server.bound_port(listener)}"


@contextmanager
def property_files(directory: Path) -> Iterator[PropertyFiles]:
    """Yield a running node."""
    security = Security(directory)
    _write_stores(directory, security)
    with TokenIssuer({USER: SECRET}) as issuer:
        keys = issuer.write_keys(directory / "keys.json")
        listeners = ("PLAINTEXT", "SASL_SSL", "SSL", "CONTROLLER")
        config = {
            **security.stores(),
            "listeners": ",".join(f"{each}://127.0.0.1:0" for each in listeners),
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{_TOKENS}.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
            f"{_TOKENS}.server.callback.handler.class": (
                f"{_OAUTH}.OAuthBearerValidatorCallbackHandler"
            ),
            f"{_TOKENS}.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            f"{_TOKENS}.oauthbearer.expected.audience": AUDIENCE,
            f"{_TOKENS}.oauthbearer.expected.issuer": ISSUER,
        }
        with Node(config=config) as node:
            yield PropertyFiles(node, issuer, directory, security.ca)


def _write_stores(directory: Path, security: Security) -> None:
    pem = security.client_file.read_bytes()
    store = pkcs12.serialize_key_and_certificates(
        b"client",
        load_pem_private_key(pem, None),  # pyright: ignore[reportArgumentType]
        load_pem_x509_certificate(pem),
        None,
        BestAvailableEncryption(STORE_PASSWORD.encode()),
    )
    (directory / "client.p12").write_bytes(store)
    command = ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-storetype", "JKS"]
    command += ["-keystore", str(directory / "trust.jks"), "-storepass", STORE_PASSWORD]
    subprocess.run([*command, "-file", str(security.ca)], check=True, capture_output=True)
