"""Servers with the listeners PLAINTEXT, SSL and SASL_SSL, which show the same certificate."""

import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from barnabas.security.certificate_authority import CertificateAuthority
from barnabas.testing.free_ports import free_ports
from bench.servers import Measured

HOST = "127.0.0.1"
USER, PASSWORD, ITERATIONS = "bench", "bench-secret", 4096
_LIFETIME = timedelta(days=1)
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@attrs.frozen
class Keys:
    """The files of an authority and of the certificate that it has issued to the servers."""

    authority: Path
    node: Path

    @classmethod
    def make(cls, directory: Path) -> "Keys":
        """Write new keys (ECDSA P-256) to a directory."""
        now = datetime.now(UTC)
        authority = CertificateAuthority.create("bench", now, _LIFETIME)
        found = cls(directory / "authority.pem", directory / "node.pem")
        found.authority.write_text(authority.certificate)
        found.node.write_text(authority.issue_server([HOST], now, _LIFETIME).store)
        return found


class SecuredServer:
    """A server of either kind with three listeners; `plain` and `tls` are settings of clients."""

    def __init__(self, server: Measured, keys: Keys) -> None:
        self.server = server
        self.keys = keys
        self.tls_port, self.login_port = free_ports(2)
        listeners = (
            f"PLAINTEXT://{server.bootstrap},SSL://{HOST}:{self.tls_port},"
            f"SASL_SSL://{HOST}:{self.login_port}"
        )
        server.properties |= {
            "listeners": f"{listeners},CONTROLLER://{HOST}:{server.controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": ",".join(
                f"{name}:{name}" for name in ("PLAINTEXT", "SSL", "SASL_SSL")
            )
            + ",CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keys.node),
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{_SCRAM} required;",
        }

    @property
    def plain(self) -> Mapping[str, str]:
        return {"bootstrap.servers": self.server.bootstrap}

    @property
    def tls(self) -> Mapping[str, str]:
        return {
            "bootstrap.servers": f"{HOST}:{self.tls_port}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.keys.authority),
        }

    @property
    def context(self) -> ssl.SSLContext:
        """Return a context that trusts the server's certificate."""
        return ssl.create_default_context(cafile=str(self.keys.authority))

    def add_user(self) -> None:
        """Add the user that the logins have."""
        admin = AdminClient(dict(self.plain))
        mechanism = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, ITERATIONS)
        change = UserScramCredentialUpsertion(USER, mechanism, PASSWORD.encode())
        admin.alter_user_scram_credentials([change])[USER].result(60)
