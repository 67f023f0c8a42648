"""Settings of the HTTP host: where it listens, TLS, authentication, limits."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from barnabas.config import ConfigError
from barnabas.http.first_caller import PEER_SECRET_PROPERTY
from barnabas.http.unauthenticated_connections import LIMIT_PROPERTIES, ConnectionLimits

BODY_BYTES_MAX: Final = 1 << 20
_BODY_BYTES_MOST: Final = 1 << 30
BODY_BYTES_PROPERTY: Final = "barnabas.http.body.max.bytes"
_PORT_MAX: Final = 65535
_ORIGIN: Final = "access.control.allow.origin"
_METHODS: Final = "access.control.allow.methods"
_HEADERS: Final = "access.control.allow.headers"
_EXPOSED: Final = "access.control.expose.headers"
AUTH_PROPERTY: Final = "barnabas.http.auth"
BY_KAFKA: Final = "kafka"
HTTP_PROPERTIES: Final = (
    BODY_BYTES_PROPERTY,
    AUTH_PROPERTY,
    *LIMIT_PROPERTIES,
    PEER_SECRET_PROPERTY,
    _ORIGIN,
    _METHODS,
    _HEADERS,
    _EXPOSED,
)
"""Properties that a file of a command may have for its HTTP listener."""


@attrs.frozen
class ListenAddress:
    """Host and port to bind; port 0 takes a free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, option: str = "--listen") -> "ListenAddress":
        """Read HOST:PORT or [IPV6]:PORT. Raises ConfigError, which names the option."""
        host, colon, port = text.rpartition(":")
        if not (colon and host and port.isdecimal()):
            raise ConfigError(f"Invalid value {text} for {option}: it must be HOST:PORT")
        if int(port) > _PORT_MAX:
            raise ConfigError(f"Invalid value {text} for {option}: ports end at {_PORT_MAX}")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    @property
    def is_local(self) -> bool:
        """True for an address that only this machine reaches."""
        return self.host in ("127.0.0.1", "::1", "localhost")

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@attrs.frozen
class HttpTls:
    """Files in PEM; with `client_ca_file`, every client needs a certificate of that authority."""

    certificate_file: Path
    key_file: Path
    key_password: str | None = attrs.field(default=None, repr=False)
    client_ca_file: Path | None = None


@attrs.frozen
class BearerSettings:
    """Rules for tokens. `keys` is a file or URL of a JWKS or an OIDC configuration."""

    keys: str
    issuer: str
    audience: str
    principal_claim: str = "sub"
    clock_skew_s: float = 30.0

    def __attrs_post_init__(self) -> None:
        """Raise ConfigError when a setting is empty: tokens of any origin would pass."""
        for name in ("keys", "issuer", "audience", "principal_claim"):
            if not getattr(self, name):
                raise ConfigError(f"bearer authentication needs a value for {name}")


@attrs.frozen
class CrossOrigin:
    """The origins whose pages may read answers (CORS), as Confluent's services configure them.

    Methods and headers are by default those of Jetty's filter. Cookies and other credentials that
    a browser adds by itself are never allowed.
    """

    origins: tuple[str, ...] = ()
    methods: tuple[str, ...] = ("GET", "POST", "HEAD")
    headers: tuple[str, ...] = ("X-Requested-With", "Content-Type", "Accept", "Origin")
    exposed: tuple[str, ...] = ()

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> "CrossOrigin":
        """Return the rules that properties describe. Raises ConfigError."""
        lists = {
            name: tuple(
                part.strip() for part in properties.get(name, "").split(",") if part.strip()
            )
            for name in (_ORIGIN, _METHODS, _HEADERS, _EXPOSED)
        }
        given = [name for name in (_METHODS, _HEADERS, _EXPOSED) if lists[name]]
        if given and not lists[_ORIGIN]:
            raise ConfigError(f"{given[0]} needs {_ORIGIN}: the origins that it is for, or *")
        return cls(
            lists[_ORIGIN],
            lists[_METHODS] or cls().methods,
            lists[_HEADERS] or cls().headers,
            lists[_EXPOSED],
        )


@attrs.frozen
class HttpOptions:
    """All settings of the host except its address."""

    tls: HttpTls | None = None
    password_file: Path | None = None
    """An htpasswd file with bcrypt hashes; with it, basic authentication is accepted."""
    auth: str = ""
    """`BY_KAFKA`: basic credentials are those of the cluster's SASL users."""
    bearer: BearerSettings | None = None
    body_bytes_max: int = BODY_BYTES_MAX
    logs_requests: bool = True
    cross_origin: CrossOrigin = attrs.field(factory=CrossOrigin)
    limits: ConnectionLimits = attrs.field(factory=ConnectionLimits)
    """Limits of connections that have not authenticated."""
    peer_secret: str = attrs.field(default="", repr=False)
    """What instances prove the address of a first caller with; by default the password of their
    Kafka user."""

    def __attrs_post_init__(self) -> None:
        """Raise ConfigError for an unknown way to authenticate, and for two."""
        if self.auth not in ("", BY_KAFKA):
            raise ConfigError(f"Invalid value {self.auth} for {AUTH_PROPERTY}: it must be kafka")
        if self.auth and self.password_file is not None:
            raise ConfigError(
                f"users are either those of Kafka ({AUTH_PROPERTY}, --auth kafka) or those of "
                "--password-file: use one"
            )

    def with_properties(self, properties: Mapping[str, str]) -> "HttpOptions":
        """Return the options with those that properties set. Raises ConfigError."""
        text = properties.get(BODY_BYTES_PROPERTY, str(self.body_bytes_max)).strip()
        if not (text.isascii() and text.isdecimal() and 0 < int(text) <= _BODY_BYTES_MOST):
            raise ConfigError(
                f"Invalid value {text} for {BODY_BYTES_PROPERTY}: it must be from 1 to "
                f"{_BODY_BYTES_MOST}"
            )
        rules = CrossOrigin.from_properties(properties)
        return attrs.evolve(
            self,
            auth=properties.get(AUTH_PROPERTY, self.auth).strip(),
            body_bytes_max=int(text),
            cross_origin=rules,
            limits=ConnectionLimits.from_properties(properties),
            peer_secret=properties.get(PEER_SECRET_PROPERTY, self.peer_secret),
        )

    @property
    def scheme(self) -> str:
        """The scheme of URLs."""
        return "http" if self.tls is None else "https"

    @property
    def needs_authentication(self) -> bool:
        """True when requests without credentials are refused."""
        return bool(self.auth) or self.password_file is not None or self.bearer is not None


@attrs.frozen
class HttpSettings:
    """All settings of the host."""

    listen: ListenAddress
    options: HttpOptions = attrs.field(factory=HttpOptions)
