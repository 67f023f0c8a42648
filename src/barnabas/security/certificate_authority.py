"""A certificate authority for nodes and clients: ECDSA P-256, as PEM. It needs `cryptography`."""

import ipaddress
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Self

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from barnabas.key_stores.stores import pem_blocks

_CURVE: Final = ec.SECP256R1
# A clock that is some minutes behind accepts a new certificate too.
_EARLIER: Final = timedelta(hours=1)
_COMMON_NAME_MAX: Final = 64
_DNS_LABEL: Final = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
_DNS_NAME_MAX: Final = 253


@attrs.frozen
class IssuedCertificate:
    """A private key (PKCS#8) and its certificate, both as PEM."""

    key: str = attrs.field(repr=False)
    certificate: str

    @property
    def store(self) -> str:
        """The key and the certificate in one text, as a key store of the type PEM."""
        return self.key + self.certificate


class CertificateAuthority:
    """Signs certificates. Times are given by the caller."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls, name: str, now: datetime, lifetime: timedelta) -> Self:
        """Return a new authority, whose certificate is signed by itself."""
        key = ec.generate_private_key(_CURVE())
        subject = _common_name(name)
        builder = _builder(key.public_key(), subject, subject, now, lifetime)
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        builder = builder.add_extension(usage, critical=True)
        return cls(key, builder.sign(key, hashes.SHA256()))

    @classmethod
    def load(cls, key: str, certificate: str) -> Self:
        """Return the authority of a key and a certificate in PEM.

        Raises ValueError when they are not those of an authority with an ECDSA key.
        """
        blocks = [block for label, block in pem_blocks(certificate) if label == "CERTIFICATE"]
        if not blocks:
            raise ValueError("it has no certificate")
        loaded = serialization.load_pem_private_key(key.encode(), None)
        found = x509.load_pem_x509_certificate(blocks[0].encode())
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise ValueError("its key is not an ECDSA key")
        if loaded.public_key() != found.public_key():
            raise ValueError("the key and the certificate do not belong together")
        return cls(loaded, found)

    @property
    def key(self) -> str:
        """The private key of the authority as PEM."""
        return _key_text(self._key)

    @property
    def certificate(self) -> str:
        """The certificate that nodes and clients trust, as PEM."""
        return _certificate_text(self._certificate)

    def issue_server(
        self,
        names: Sequence[str],
        now: datetime,
        lifetime: timedelta,
        *,
        subject: str | None = None,
    ) -> IssuedCertificate:
        """Return a node's certificate for DNS names and IP addresses.

        Its subject is the first of them, unless `subject` is given. A node also shows it to other
        nodes. Raises ValueError for an invalid name.
        """
        alternatives = [_alternative_name(name) for name in dict.fromkeys(names)]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        name = names[0] if subject is None else subject
        return self._issue(name[:_COMMON_NAME_MAX], usages, now, lifetime, alternatives)

    def issue_client(self, name: str, now: datetime, lifetime: timedelta) -> IssuedCertificate:
        """Return the certificate of a client. Raises ValueError for an invalid name."""
        if not 0 < len(name) <= _COMMON_NAME_MAX or not name.isprintable():
            raise ValueError(f"{name!r} must have from 1 to {_COMMON_NAME_MAX} characters")
        return self._issue(name, [ExtendedKeyUsageOID.CLIENT_AUTH], now, lifetime, ())

    def _issue(
        self,
        name: str,
        usages: list[x509.ObjectIdentifier],
        now: datetime,
        lifetime: timedelta,
        alternatives: Sequence[x509.GeneralName],
    ) -> IssuedCertificate:
        key = ec.generate_private_key(_CURVE())
        lifetime = min(lifetime, self._certificate.not_valid_after_utc - now)
        builder = _builder(
            key.public_key(), _common_name(name), self._certificate.subject, now, lifetime
        )
        builder = builder.add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(signer, critical=False)
        if alternatives:
            names = x509.SubjectAlternativeName(alternatives)
            builder = builder.add_extension(names, critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return IssuedCertificate(_key_text(key), _certificate_text(signed))


def has_names(certificate: str, names: Sequence[str]) -> bool:
    """Return True when a certificate in PEM has all these DNS names and IP addresses.

    Raises ValueError when the text is not a certificate, or for an invalid name.
    """
    blocks = [block for label, block in pem_blocks(certificate) if label == "CERTIFICATE"]
    if not blocks:
        raise ValueError("it has no certificate")
    found = x509.load_pem_x509_certificate(blocks[0].encode())
    extension = found.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return {_alternative_name(name) for name in names} <= set(extension.value)


def _builder(
    key: ec.EllipticCurvePublicKey,
    subject: x509.Name,
    issuer: x509.Name,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + lifetime)
    )
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _alternative_name(name: str) -> x509.GeneralName:
    """Return a DNS name or IP address. Raises ValueError when it is neither."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        labels = name.removeprefix("*.").split(".")
        if len(name) > _DNS_NAME_MAX or not all(map(_DNS_LABEL.fullmatch, labels)):
            raise ValueError(f"{name!r} is neither a DNS name nor an IP address") from None
        return x509.DNSName(name)


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_text(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def _certificate_text(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
