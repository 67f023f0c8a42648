"""The security of clusters under test: certificates, users, properties of nodes and clients.

All nodes and clients of a `Security` share one authority.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from compat_tests.token_issuer import AUDIENCE, ISSUER, TokenIssuer

_MODULES: Final = "org.apache.kafka.common.security"
PLAIN: Final = f"{_MODULES}.plain.PlainLoginModule required"
SCRAM: Final = f"{_MODULES}.scram.ScramLoginModule required"
_OAUTH: Final = f"{_MODULES}.oauthbearer"
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
USERS: Final = {"broker": "broker-secret", "alice": "alice-secret"}
"""The SCRAM users."""
NODES: Final = "nodes.example"
CLIENT: Final = "client.example"


class Security:
    """Files of certificates below a directory, and properties that name them."""

    def __init__(self, directory: Path) -> None:
        self.authority = trustme.CA()
        self.ca = directory / "ca.pem"
        self.authority.cert_pem.write_to_path(self.ca)
        self.node_file = self.issue(directory / "node.pem", NODES)
        self.client_file = self.issue(directory / "client.pem", CLIENT)

    def issue(self, file: Path, organization: str) -> Path:
        """Write a key and its certificate for this machine; mapping rules read the organization."""
        own = self.authority.issue_cert("127.0.0.1", "localhost", organization_name=organization)
        key = load_pem_private_key(own.private_key_pem.bytes(), None).private_bytes(
            Encoding.PEM,
            PrivateFormat.PKCS8,  # Java reads no other
            NoEncryption(),
        )
        file.write_bytes(key + b"".join(each.bytes() for each in own.cert_chain_pems))
        return file

    def stores(self, prefix: str = "") -> dict[str, str]:
        """The key store and the trust store of a node, for all listeners or for one."""
        return {
            f"{prefix}ssl.keystore.type": "PEM",
            f"{prefix}ssl.keystore.location": str(self.node_file),
            f"{prefix}ssl.truststore.type": "PEM",
            f"{prefix}ssl.truststore.location": str(self.ca),
        }

    def sasl_nodes(
        self, brokers: str = "SASL_SSL", controllers: str = "CONTROLLER"
    ) -> dict[str, str]:
        """SCRAM between brokers, PLAIN between controllers, both over TLS; with an authorizer."""
        scram, plain = f"listener.name.{brokers.lower()}", f"listener.name.{controllers.lower()}"
        broker = 'username="broker" password="broker-secret"'
        return {
            **self.stores(),
            "inter.broker.listener.name": brokers,
            "listener.security.protocol.map": f"{brokers}:SASL_SSL,{controllers}:SASL_SSL",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "sasl.mechanism.controller.protocol": "PLAIN",
            f"{scram}.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            f"{scram}.scram-sha-512.sasl.jaas.config": f"{SCRAM} {broker};",
            f"{plain}.sasl.enabled.mechanisms": "PLAIN",
            f"{plain}.plain.sasl.jaas.config": f'{PLAIN} {broker} user_broker="broker-secret";',
            "authorizer.class.name": AUTHORIZER,
            "super.users": "User:broker;User:alice",
        }

    def token_nodes(self, issuer: TokenIssuer, keys: Path) -> dict[str, str]:
        """OAUTHBEARER between brokers and between controllers over TLS; clients have SCRAM."""
        properties = self.sasl_nodes()
        user = f'clientId="broker" clientSecret="{issuer.clients["broker"]}"'
        for listener in ("sasl_ssl", "controller"):
            prefix = f"listener.name.{listener}.oauthbearer.sasl"
            properties |= {
                f"{prefix}.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required {user};",
                f"{prefix}.login.callback.handler.class": (
                    f"{_OAUTH}.OAuthBearerLoginCallbackHandler"
                ),
                f"{prefix}.server.callback.handler.class": (
                    f"{_OAUTH}.OAuthBearerValidatorCallbackHandler"
                ),
                f"{prefix}.oauthbearer.token.endpoint.url": issuer.url,
                f"{prefix}.oauthbearer.jwks.endpoint.url": keys.as_uri(),
                f"{prefix}.oauthbearer.expected.audience": AUDIENCE,
                f"{prefix}.oauthbearer.expected.issuer": ISSUER,
            }
        return properties | {
            "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
            "sasl.mechanism.controller.protocol": "OAUTHBEARER",
            "listener.name.sasl_ssl.sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.controller.sasl.enabled.mechanisms": "OAUTHBEARER",
        }

    def kerberos_nodes(self, line: str) -> dict[str, str]:
        """GSSAPI between brokers and between controllers over TLS; clients have SCRAM, too."""
        properties = self.sasl_nodes()
        for listener in ("sasl_ssl", "controller"):
            properties[f"listener.name.{listener}.gssapi.sasl.jaas.config"] = line
        return properties | {
            "sasl.mechanism.inter.broker.protocol": "GSSAPI",
            "sasl.mechanism.controller.protocol": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "listener.name.sasl_ssl.sasl.enabled.mechanisms": "SCRAM-SHA-512,GSSAPI",
            "listener.name.controller.sasl.enabled.mechanisms": "GSSAPI",
            "super.users": "User:kafka;User:alice",
        }

    def mutual_nodes(self) -> dict[str, str]:
        """Nodes and clients show certificates; with an authorizer."""
        return {
            **self.stores(),
            "inter.broker.listener.name": "SSL",
            "listener.security.protocol.map": "SSL:SSL,CONTROLLER:SSL",
            "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^.*O=([^,]*).*$/$1/,DEFAULT",
            "authorizer.class.name": AUTHORIZER,
            "super.users": f"User:{NODES};User:{CLIENT}",
        }

    def sasl_client(self, user: str = "alice") -> dict[str, str]:
        """The properties of a client with SCRAM over TLS, for librdkafka."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": USERS[user],
            "ssl.ca.location": str(self.ca),
        }

    def mutual_client(self) -> dict[str, str]:
        """The properties of a client with a certificate, for librdkafka."""
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.ca),
            "ssl.certificate.location": str(self.client_file),
            "ssl.key.location": str(self.client_file),
        }

    def of(self, kind: str) -> tuple[Mapping[str, str], dict[str, str]]:
        """The properties of nodes and of clients, for `sasl` or `mutual`."""
        if kind == "sasl":
            return self.sasl_nodes(), self.sasl_client()
        return self.mutual_nodes(), self.mutual_client()
