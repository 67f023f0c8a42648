"""The files of nodes with `--secure`: their authority, their keys, and the files of their users.

They are in the data directory, and those with secrets are readable by their owner only. A file that
exists is used again; one that was removed is made again, with a new key or a new password.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import attrs

from barnabas.config import ConfigError, properties_file
from barnabas.key_stores.stores import first_certificate
from barnabas.private_files import PUBLIC_MODE, replace_file
from barnabas.security.certificate_authority import CertificateAuthority, has_names
from barnabas.security.certificates import read_certificate
from barnabas.security.jaas import JaasError, parse_jaas
from barnabas.server.node.initial_users import MECHANISM

_AUTHORITY_LIFETIME: Final = timedelta(days=3650)
_LIFETIME: Final = timedelta(days=825)
_RENEWED_BEFORE_END: Final = timedelta(days=60)


NODES_SUBJECT: Final = "barnabas nodes"
"""The name in the certificate that the nodes of a group show to each other: no host has it."""

_NODES_NAMES: Final = ("127.0.0.1", "localhost")


@attrs.frozen
class _Certificate:
    """A certificate to have: its file, its names, and its subject (None: the first name)."""

    file: Path
    names: Sequence[str]
    subject: str | None = None


class SecuredFiles:
    """The files of one data directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.authority = self.directory / "ca.pem"
        self.node_key = self.directory / "node.pem"
        self.nodes_key = self.directory / "nodes.pem"
        self._http_users = self.directory / "http-users"
        self._authority_key = self.directory / "ca-key.pem"

    def client_file(self, user: str) -> Path:
        """Return the file of a user with the names of Java's clients."""
        return self.directory / f"{user}.properties"

    def librdkafka_file(self, user: str) -> Path:
        """Return the file of a user with the names of librdkafka."""
        return self.directory / f"{user}.conf"

    def prepare_certificate(self, names: Sequence[str]) -> None:
        """Make the authority unless it exists, and the node's certificate unless it is usable.

        Raises ConfigError when a file is damaged, and OSError.
        """
        self._prepare(_Certificate(self.node_key, names))

    def prepare_group_certificates(self, names: Sequence[str]) -> None:
        """Make also the certificate that nodes of a group show to each other.

        Companions have the key of the other one only. Raises as `prepare_certificate`.
        """
        between = _Certificate(self.nodes_key, _NODES_NAMES, NODES_SUBJECT)
        self._prepare(_Certificate(self.node_key, names), between)

    def _prepare(self, *wanted: _Certificate) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        now = datetime.now(UTC)
        if not self.authority.exists():
            made = CertificateAuthority.create(
                f"barnabas {wanted[0].names[0]}"[:64], now, _AUTHORITY_LIFETIME
            )
            # In this order: no start after a kill finds a certificate of another authority.
            for each in wanted:
                each.file.unlink(missing_ok=True)
            replace_file(self._authority_key, made.key)
            replace_file(self.authority, made.certificate, PUBLIC_MODE)
        for each in wanted:
            try:
                self._issue(each, now)
            except ValueError as error:
                names = (self.authority.name, self._authority_key.name, each.file.name)
                raise ConfigError(
                    f"the certificates in {self.directory} cannot be used: {error}; remove "
                    f"{names[0]}, {names[1]} and {names[2]} to make new ones, and give the new "
                    "authority to all clients"
                ) from None

    def _issue(self, wanted: _Certificate, now: datetime) -> None:
        """Make a certificate unless it is usable. Raises ValueError for a damaged file."""
        if wanted.file.exists() and _is_usable(wanted.file.read_text(), wanted.names, now):
            return
        authority = CertificateAuthority.load(
            self._authority_key.read_text(), self.authority.read_text()
        )
        issued = authority.issue_server(wanted.names, now, _LIFETIME, subject=wanted.subject)
        replace_file(wanted.file, issued.store)

    def password(self, user: str) -> str | None:
        """Return a user's password, None when it has no file. Raises ConfigError."""
        path = self.client_file(user)
        if not path.exists():
            return None
        text = properties_file.read(path).get("sasl.jaas.config")
        try:
            password = None if text is None else parse_jaas(text).options.get("password")
        except JaasError as error:
            raise ConfigError(f"{path}: sasl.jaas.config: {error}") from None
        if password is None:
            raise ConfigError(
                f"{path} has no password in sasl.jaas.config: remove the file to give the user "
                f"{user} a new password"
            )
        return password

    def remove_http_users(self) -> bool:
        """Remove the file of the companions' users that older versions made.

        Return True when there was one. Raises OSError.
        """
        if not self._http_users.exists():
            return False
        self._http_users.unlink()
        return True

    def write_client_files(
        self, user: str, password: str, bootstrap: str, extra: Mapping[str, str] | None = None
    ) -> None:
        """Write the files of a user, unless they are the same. `extra` has further properties."""
        shared = {"bootstrap.servers": bootstrap, "security.protocol": "SASL_SSL"}
        jaas = (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{user}" password="{password}";'
        )
        java = {
            **(extra or {}),
            **shared,
            "sasl.mechanism": MECHANISM.name,
            "sasl.jaas.config": jaas,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
        }
        librdkafka = {
            **shared,
            "sasl.mechanism": MECHANISM.name,
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.authority),
        }
        _update(self.client_file(user), java)
        _update(self.librdkafka_file(user), librdkafka)


def _update(path: Path, properties: Mapping[str, str]) -> None:
    """Write the properties, unless the file has them."""
    text = "".join(
        f"{name}={value.replace(chr(92), 2 * chr(92))}\n" for name, value in properties.items()
    )
    if not path.exists() or path.read_text() != text:
        replace_file(path, text)


def _is_usable(store: str, names: Sequence[str], now: datetime) -> bool:
    """Return True when a certificate has all names and is valid for long enough."""
    certificate = read_certificate(first_certificate(store))
    return certificate.not_after - now > _RENEWED_BEFORE_END and has_names(store, names)
