"""The `ssl.*` properties of one listener as a TLS context.

The rules, and their texts, are those of Kafka's `DefaultSslEngineFactory`.
"""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs

from barnabas.config import ConfigError, NodeConfig
from barnabas.config.listener_values import listener_property, listener_value
from barnabas.key_stores.stores import (
    KeyMaterial,
    first_certificate,
    key_of_pem,
    key_of_store,
    trust_of_pem,
    trust_of_store,
)
from barnabas.private_files import memory_file
from barnabas.security.certificates import Certificate, read_certificate
from barnabas.security.principal_mapping import PrincipalMapping

RELOADED: Final = (
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
)
"""The properties of a listener whose change has its stores read again."""

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_TLS_1_3_SUITES: Final = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)


@attrs.frozen
class TlsSettings:
    """The TLS of a listener: its context, its own certificate, its rules for principals."""

    context: ssl.SSLContext
    certificate: Certificate
    mapping: PrincipalMapping


class ListenerProperties:
    """The `ssl.*` properties of one listener; those with the listener's prefix win."""

    def __init__(self, config: NodeConfig, listener: str) -> None:
        self._config = config
        self._listener = listener

    def get(self, name: str) -> Any:
        """Return the value for this listener."""
        return listener_value(self._config, self._listener, name)

    def client_auth(self) -> str:
        """Return whether clients show a certificate.

        A listener with SASL ignores the value without the listener's prefix, as in Kafka's
        `ChannelBuilders`.
        """
        name = "ssl.client.auth"
        own = listener_property(self._listener, name)
        if self._config.security_protocols.get(self._listener, "").startswith("SASL_"):
            return str(self._config.get(own)) if self._config.is_set(own) else "none"
        return str(self.get(name))

    def checks_name(self) -> bool:
        """Return True when a node's certificate must have the name that it is connected to by.

        Raises ConfigError for an algorithm that is not supported.
        """
        name = "ssl.endpoint.identification.algorithm"
        algorithm = str(self.get(name) or "")
        if algorithm.lower() not in ("", "https"):
            raise self.error(name, f"it must be https, or empty, not {algorithm}")
        return bool(algorithm)

    def has_key(self) -> bool:
        """Return True when a key store, or a key in the configuration, is set."""
        names = ("ssl.keystore.location", "ssl.keystore.key", "ssl.keystore.certificate.chain")
        return any(self.get(name) is not None for name in names)

    def error(self, name: str, reason: str) -> ConfigError:
        """Return the error of a property, which names the listener."""
        return ConfigError(
            f"Invalid configuration {name} of listener {self._listener}: {reason}", name=name
        )


def load_tls(config: NodeConfig, listener: str) -> TlsSettings:
    """Return the TLS settings of a listener. Raises ConfigError when they cannot be used."""
    properties = ListenerProperties(config, listener)
    context = _context(properties, ssl.PROTOCOL_TLS_SERVER, ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = _CLIENT_AUTH[properties.client_auth()]
    certificate = _use_key(context, properties, _key(properties))
    try:
        mapping = PrincipalMapping(properties.get("ssl.principal.mapping.rules"))
    except ValueError as error:
        raise properties.error("ssl.principal.mapping.rules", str(error)) from None
    return TlsSettings(context, certificate, mapping)


def load_client_tls(
    config: NodeConfig, listener: str, *, checks_name: bool = True
) -> ssl.SSLContext:
    """Return the context of this node's connections to the listeners of that name.

    They show the certificate of the key store, where there is one, to a node that asks for it.
    Without `checks_name` any trusted certificate is accepted. Raises ConfigError.
    """
    properties = ListenerProperties(config, listener)
    context = _context(properties, ssl.PROTOCOL_TLS_CLIENT, ssl.Purpose.SERVER_AUTH)
    context.check_hostname = checks_name and properties.checks_name()
    if properties.has_key():
        _use_key(context, properties, _key(properties))
    return context


def _context(properties: ListenerProperties, protocol: int, purpose: ssl.Purpose) -> ssl.SSLContext:
    """Return a context with the versions and the trusted certificates of the properties."""
    context = ssl.SSLContext(protocol)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    # As in Java, each certificate of the trust store is trusted by itself, not only those of roots.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _choose_versions(context, properties)
    trust = _trust(properties)
    try:
        if trust is None:
            context.load_default_certs(purpose)
        else:
            context.load_verify_locations(cadata=trust)
    except ssl.SSLError as error:
        raise properties.error("ssl.truststore.location", _reason(error)) from None
    return context


def _use_key(
    context: ssl.SSLContext, properties: ListenerProperties, material: KeyMaterial
) -> Certificate:
    """Load a key and its chain into a context; return the certificate."""
    try:
        _load_key(context, material)
        return read_certificate(first_certificate(material.chain))
    except (ssl.SSLError, ValueError) as error:
        raise properties.error(_key_property(properties), _reason(error)) from None


def _choose_versions(context: ssl.SSLContext, properties: ListenerProperties) -> None:
    versions: tuple[str, ...] = properties.get("ssl.enabled.protocols")
    unknown = [version for version in versions if version not in _VERSIONS]
    if unknown or not versions:
        raise properties.error(
            "ssl.enabled.protocols", f"it must be out of TLSv1.2 and TLSv1.3, not {unknown}"
        )
    suites: tuple[str, ...] = properties.get("ssl.cipher.suites") or ()
    older = [_openssl_name(name) for name in suites if name not in _TLS_1_3_SUITES]
    allowed = sorted(_VERSIONS[version] for version in versions)
    if suites:
        if not older:
            allowed = [version for version in allowed if version is ssl.TLSVersion.TLSv1_3]
        elif len(older) == len(suites):
            allowed = [version for version in allowed if version is ssl.TLSVersion.TLSv1_2]
        if not allowed:
            raise properties.error(
                "ssl.cipher.suites", "no suite in it is one of a version in ssl.enabled.protocols"
            )
    context.minimum_version, context.maximum_version = allowed[0], allowed[-1]
    if older:
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError:
            raise properties.error(
                "ssl.cipher.suites", f"OpenSSL has none of {', '.join(suites)}"
            ) from None


def _openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a suite of TLS 1.2, from the name that IANA gives it."""
    exchange, found, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not found:
        return suite
    cipher = cipher.replace("AES_", "AES").replace("_CBC", "").replace("1305_SHA256", "1305")
    prefix = "" if exchange == "RSA" else exchange + "-"
    return (prefix + cipher).replace("_", "-")


def _trust(properties: ListenerProperties) -> str | None:
    """Return the trusted certificates as PEM, None for the system's own."""
    text, path = (properties.get(f"ssl.truststore.{key}") for key in ("certificates", "location"))
    password = properties.get("ssl.truststore.password")
    kind: str = properties.get("ssl.truststore.type")
    name = "ssl.truststore.certificates" if text is not None else "ssl.truststore.location"
    if text is not None and kind != "PEM":
        raise properties.error(
            name,
            f"SSL trust store certs can be specified only for PEM, but trust store type is {kind}.",
        )
    if text is not None and path is not None:
        raise properties.error(
            name, "Both SSL trust store location and separate trust certificates are specified."
        )
    if kind == "PEM" and password is not None:
        raise properties.error(
            "ssl.truststore.password",
            "SSL trust store password cannot be specified for PEM format.",
        )
    if text is None and path is None:
        if password is not None:
            raise properties.error(
                "ssl.truststore.password",
                "SSL trust store is not specified, but trust store password is specified.",
            )
        return None
    if kind == "PEM":
        return _read(properties, name, path, lambda data: trust_of_pem(data.decode()), text)
    return _read(properties, name, path, lambda data: trust_of_store(data, password))


def _key_property(properties: ListenerProperties) -> str:
    separate = properties.get("ssl.keystore.key") is not None
    return "ssl.keystore.key" if separate else "ssl.keystore.location"


def _key(properties: ListenerProperties) -> KeyMaterial:
    """Return the listener's private key and certificate chain."""
    key, chain, path, password, kind = (
        properties.get(f"ssl.keystore.{name}")
        for name in ("key", "certificate.chain", "location", "password", "type")
    )
    key_password: str | None = properties.get("ssl.key.password")
    name = "ssl.keystore.key"
    problem = ""
    if key is not None and kind != "PEM":
        problem = f"SSL private key can be specified only for PEM, but key store type is {kind}."
    elif key is not None and chain is None:
        problem = "SSL private key is specified, but certificate chain is not specified."
    elif key is not None and path is not None:
        problem = "Both SSL key store location and separate private key are specified."
    elif key is None and chain is not None:
        problem = "SSL certificate chain is specified, but private key is not specified"
    elif kind == "PEM" and password is not None:
        name = "ssl.keystore.password"
        problem = (
            "SSL key store password cannot be specified with PEM format, "
            "only key password may be specified."
        )
    elif key is None and path is None and password is not None:
        name = "ssl.keystore.location"
        problem = "SSL key store is not specified, but key store password is specified."
    elif key is None and path is None:
        name = "ssl.keystore.location"
        problem = "a listener with TLS needs a key and a certificate: set ssl.keystore.location"
    elif kind != "PEM" and password is None:
        name = "ssl.keystore.password"
        problem = "SSL key store is specified, but key store password is not specified."
    if problem:
        raise properties.error(name, problem)
    if kind == "PEM":
        text = None if key is None else f"{key}\n{chain}"
        return _read(
            properties,
            _key_property(properties),
            path,
            lambda data: key_of_pem(data.decode(), key_password),
            text,
        )
    return _read(
        properties, _key_property(properties), path,
        lambda data: key_of_store(data, password, key_password),
    )  # fmt: skip


def _read(
    properties: ListenerProperties,
    name: str,
    path: str | None,
    parse: Callable[[bytes], Any],
    text: str | None = None,
) -> Any:
    """Return what `parse` makes of a text, or of a file. Raises ConfigError."""
    place = "" if path is None else f"{path}: "
    try:
        data = Path(path).read_bytes() if path is not None else (text or "").encode()
        return parse(data)
    except OSError as error:
        raise properties.error(name, f"{place}{error.strerror}") from None
    except ValueError as error:
        raise properties.error(name, f"{place}{error}") from None


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error)


def _load_key(context: ssl.SSLContext, material: KeyMaterial) -> None:
    """Load a key and its chain, without a decrypted key on a disk."""
    with memory_file(f"{material.key}\n{material.chain}".encode()) as path:
        # With a password, even an empty one, OpenSSL does not ask for it at the terminal.
        context.load_cert_chain(path, password=material.password or "")
