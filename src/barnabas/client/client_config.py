"""The client's settings, read from properties with the names of librdkafka and of Java's clients.

A file for `--client-config` may come from either world: `sasl.username` and `sasl.password` or
`sasl.jaas.config`; `ssl.ca.location` or an `ssl.truststore.location` in PEM, PKCS12 or JKS. Unknown
properties are kept in `ignored`, for a warning.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from barnabas.client.core.sasl_exchange import MECHANISMS
from barnabas.client.failures import Address
from barnabas.config import ConfigError, properties_file
from barnabas.kerberos.login_options import GSSAPI

if TYPE_CHECKING:
    import ssl

    from barnabas.client.client_stores import JavaStore
    from barnabas.client.core.token_login import TokenLogin
    from barnabas.kerberos.tickets import Tickets

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_OAUTHBEARER: Final = "OAUTHBEARER"
_MECHANISMS: Final = (*MECHANISMS, _OAUTHBEARER, GSSAPI)
_COMPRESSION: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_CLIENT_ID: Final = "barnabas-client"
_DEFAULT_PORT: Final = 9092
_JAAS_OPTION: Final = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;]+))""")


@attrs.frozen
class TlsSettings:
    """Trusted authorities and the client's certificate. Paths and texts are PEM, except stores."""

    ca_file: str | None = None
    ca_text: str | None = None
    certificate_file: str | None = None
    certificate_text: str | None = None
    key_file: str | None = None
    key_text: str | None = attrs.field(default=None, repr=False)
    key_password: str | None = attrs.field(default=None, repr=False)
    check_hostname: bool = True
    verify: bool = True
    source: "Callable[[], ssl.SSLContext] | None" = attrs.field(default=None, repr=False)
    """Returns the context of a new connection, in place of one that the other fields describe."""
    key_store: "JavaStore | None" = None
    trust_store: "JavaStore | None" = None

    def opened(self) -> "TlsSettings":
        """Return the settings with the contents of the stores as PEM. Raises ConfigError."""
        found = self
        if self.trust_store is not None:
            found = attrs.evolve(found, trust_store=None, ca_text=self.trust_store.trusted())
        if self.key_store is not None:
            key = self.key_store.key()
            found = attrs.evolve(
                found,
                key_store=None,
                key_file=None,
                key_text=key.key,
                certificate_file=None,
                certificate_text=key.chain,
                key_password=None,
            )
        return found


@attrs.frozen
class SaslSettings:
    """Mechanism and credentials; with `is_token`, those of a delegation token.

    `bearer` returns the token of OAUTHBEARER, and raises AuthenticationError. It may take seconds.
    `login` is where a client's token comes from. `tickets` are those of GSSAPI.
    """

    mechanism: str
    username: str
    password: str = attrs.field(repr=False)
    is_token: bool = False
    bearer: Callable[[], str] | None = attrs.field(default=None, repr=False)
    login: "TokenLogin | None" = None
    tickets: "Tickets | None" = attrs.field(default=None, repr=False)


@attrs.frozen
class ClientConfig:
    """Everything that a client needs to know. Durations are in seconds, sizes in bytes."""

    bootstrap: tuple[Address, ...]
    client_id: str = _CLIENT_ID
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None
    request_timeout_s: float = 30.0
    api_timeout_s: float = 60.0
    delivery_timeout_s: float = 120.0
    connect_timeout_s: float = 10.0
    reconnect_backoff_s: float = 0.05
    reconnect_backoff_max_s: float = 1.0
    retry_backoff_s: float = 0.1
    retry_backoff_max_s: float = 1.0
    max_response_bytes: int = 100_000_000
    batch_size: int = 16_384
    compression: str = "none"
    fetch_max_bytes: int = 1 << 20
    fetch_max_wait_s: float = 0.5
    receive_buffer_bytes: int = -1
    """The size of a socket's receive buffer; -1 leaves it to the system."""
    ignored: tuple[str, ...] = ()
    """The names of properties that this client does not know."""

    @classmethod
    def load(cls, file: Path | None, overrides: Mapping[str, str]) -> "ClientConfig":
        """Read a properties file, if one is given, under the overrides. Raises ConfigError."""
        properties = properties_file.read(file) if file is not None else {}
        return cls.from_properties({**properties, **overrides})

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> "ClientConfig":
        """Return the settings that properties describe. Raises ConfigError."""
        return _Properties(properties).config()


class _Properties:
    """Takes known properties out of a mapping; the rest is the ignored ones."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._left = dict(properties)

    def config(self) -> ClientConfig:
        bootstrap = self._bootstrap()
        protocol = self._choice("security.protocol", _PROTOCOLS, "PLAINTEXT")
        tls, sasl = self._tls(), self._sasl(needed=protocol.startswith("SASL"))
        sizes = self._settings(_SIZES)
        durations_ms = self._settings(_DURATIONS_MS)
        client_id = self._take("client.id")
        compression = self._choice("compression.type", _COMPRESSION, "none", "compression.codec")
        config = ClientConfig(
            bootstrap,
            tls=tls if protocol.endswith("SSL") else None,
            sasl=sasl if protocol.startswith("SASL") else None,
            client_id=_CLIENT_ID if client_id is None else client_id,
            compression=compression,
            ignored=tuple(sorted(self._left)),
        )
        durations_s = {field: value / 1000 for field, value in durations_ms.items()}
        return attrs.evolve(config, **sizes, **durations_s)

    def _take(self, *names: str) -> str | None:
        """Return the value of the first name that is set; all of them count as known."""
        values = [self._left.pop(name, None) for name in names]
        return next((value for value in values if value is not None), None)

    def _choice(self, name: str, choices: tuple[str, ...], default: str, *aliases: str) -> str:
        value = self._take(name, *aliases)
        if value is None:
            return default
        for choice in choices:
            if choice.lower() == value.strip().lower():
                return choice
        raise ConfigError(f"Invalid value {value} for {name}: one of {', '.join(choices)}")

    def _bootstrap(self) -> tuple[Address, ...]:
        text = self._take("bootstrap.servers", "metadata.broker.list") or ""
        parts = [part.strip() for part in text.split(",")]
        addresses = tuple(_address(part) for part in parts if part)
        if not addresses:
            raise ConfigError("bootstrap.servers is needed: HOST:PORT, or several with commas")
        return addresses

    def _settings(self, table: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
        """Return the numbers of a table that are set, by field name."""
        found = {field: self._int(*names) for field, names in table.items()}
        return {field: number for field, number in found.items() if number is not None}

    def _int(self, *names: str) -> int | None:
        text = self._take(*names)
        if text is None:
            return None
        if not text.strip().isdecimal():
            raise ConfigError(f"Invalid value {text} for {names[0]}: a whole number, 0 or more")
        return int(text)

    def _sasl(self, *, needed: bool) -> SaslSettings | None:
        mechanism = self._take("sasl.mechanism", "sasl.mechanisms")
        jaas = self._jaas()
        username = self._take("sasl.username") or jaas.get("username")
        password = self._take("sasl.password") or jaas.get("password")
        if mechanism == _OAUTHBEARER:
            return self._bearer(jaas, needed=needed)
        if mechanism == GSSAPI:
            return self._kerberos(jaas, needed=needed)
        if not needed:
            return None
        if mechanism not in MECHANISMS:
            raise ConfigError(
                f"Invalid value {mechanism} for sasl.mechanism: one of {', '.join(_MECHANISMS)}"
            )
        if username is None or password is None:
            raise ConfigError(f"{mechanism} needs sasl.username and sasl.password")
        is_token = jaas.get("tokenauth", "").lower() == "true"
        if is_token and mechanism == "PLAIN":
            raise ConfigError(
                "tokenauth in sasl.jaas.config needs sasl.mechanism=SCRAM-SHA-256 or SCRAM-SHA-512"
            )
        return SaslSettings(mechanism, username, password, is_token)

    def _bearer(self, jaas: Mapping[str, str], *, needed: bool) -> SaslSettings | None:
        from barnabas.client.issued_tokens import issued_tokens
        from barnabas.client.token_properties import token_properties

        login = token_properties(self._take, jaas, needed=needed)
        if login is None:
            return None
        bearer = issued_tokens(login).token
        return SaslSettings(_OAUTHBEARER, "", "", bearer=bearer, login=login)

    def _kerberos(self, jaas: Mapping[str, str], *, needed: bool) -> SaslSettings | None:
        from barnabas.client.kerberos_properties import kerberos_login
        from barnabas.kerberos.tickets import tickets_of

        login = kerberos_login(self._take, jaas, needed=needed)
        if login is None:
            return None
        return SaslSettings(GSSAPI, "", "", tickets=tickets_of(login))

    def _jaas(self) -> dict[str, str]:
        text = self._take("sasl.jaas.config") or ""
        options: dict[str, str] = {}
        for name, quoted, single, bare in _JAAS_OPTION.findall(text):
            options[name] = re.sub(r"\\(.)", r"\1", quoted) or single or bare
        return options

    def _store(self, side: str) -> "JavaStore | None":
        """Return a key store or trust store, which may be a file in PEM. Raises ConfigError."""
        from barnabas.client.client_stores import KINDS, JavaStore, kind_of

        kind, location, password = (
            self._take(f"ssl.{side}.{name}") for name in ("type", "location", "password")
        )
        if kind is not None and kind.upper() not in KINDS:
            raise ConfigError(
                f"Invalid value {kind} for ssl.{side}.type: one of {', '.join(KINDS)}"
            )
        if location is None:
            return None
        kind = kind_of(location, None if kind is None else kind.upper())
        return JavaStore(side, location, kind, password)

    def _tls(self) -> TlsSettings:
        key_store, trust_store = self._store("keystore"), self._store("truststore")
        key_password = self._take("ssl.key.password")
        key_file = trust_file = None
        if key_store is not None and key_store.kind == "PEM":
            key_store, key_file = None, key_store.location
        if trust_store is not None and trust_store.kind == "PEM":
            trust_store, trust_file = None, trust_store.location
        if key_store is not None:
            key_store = attrs.evolve(key_store, key_password=key_password)
        algorithm = self._take("ssl.endpoint.identification.algorithm")
        verify = self._choice("enable.ssl.certificate.verification", ("true", "false"), "true")
        return TlsSettings(
            ca_file=self._take("ssl.ca.location") or trust_file,
            ca_text=self._take("ssl.truststore.certificates", "ssl.ca.pem"),
            certificate_file=self._take("ssl.certificate.location") or key_file,
            certificate_text=self._take("ssl.keystore.certificate.chain", "ssl.certificate.pem"),
            key_file=self._take("ssl.key.location") or key_file,
            key_text=self._take("ssl.keystore.key", "ssl.key.pem"),
            key_password=key_password,
            check_hostname=algorithm not in ("", "none"),
            verify=verify == "true",
            key_store=key_store,
            trust_store=trust_store,
        )


_DURATIONS_MS: Final = {
    "request_timeout_s": ("request.timeout.ms", "socket.timeout.ms"),
    "api_timeout_s": ("default.api.timeout.ms",),
    "delivery_timeout_s": ("delivery.timeout.ms", "message.timeout.ms"),
    "connect_timeout_s": (
        "socket.connection.setup.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
    ),
    "reconnect_backoff_s": ("reconnect.backoff.ms",),
    "reconnect_backoff_max_s": ("reconnect.backoff.max.ms",),
    "retry_backoff_s": ("retry.backoff.ms",),
    "retry_backoff_max_s": ("retry.backoff.max.ms",),
    "fetch_max_wait_s": ("fetch.max.wait.ms", "fetch.wait.max.ms"),
}
_SIZES: Final = {
    "max_response_bytes": ("receive.message.max.bytes",),
    "batch_size": ("batch.size",),
    "fetch_max_bytes": ("max.partition.fetch.bytes", "fetch.message.max.bytes"),
}


def _address(text: str) -> Address:
    """Read HOST:PORT, [IPV6]:PORT, or either without the port. Raises ConfigError."""
    text = text.rpartition("://")[2]
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):
        host, port = text, str(_DEFAULT_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"Invalid value {text} for bootstrap.servers: it must be HOST:PORT")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))
