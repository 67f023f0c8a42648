"""Settings of the HTTP host: where it listens, TLS, authentication, limits."""

from pathlib import Path
from typing import Final

import attrs

from barnabas.config import ConfigError

BODY_BYTES_MAX: Final = 1 << 20
_PORT_MAX: Final = 65535


@attrs.frozen
class ListenAddress:
    """Host and port to bind; port 0 takes a free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "ListenAddress":
        """Read HOST:PORT or [IPV6]:PORT. Raises ConfigError."""
        host, colon, port = text.rpartition(":")
        if not (colon and host and port.isdecimal()):
            raise ConfigError(f"Invalid value {text} for --listen: it must be HOST:PORT")
        if int(port) > _PORT_MAX:
            raise ConfigError(f"Invalid value {text} for --listen: ports end at {_PORT_MAX}")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

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
class HttpOptions:
    """All settings of the host except its address."""

    tls: HttpTls | None = None
    password_file: Path | None = None
    """An htpasswd file with bcrypt hashes; with it, basic authentication is accepted."""
    bearer: BearerSettings | None = None
    body_bytes_max: int = BODY_BYTES_MAX
    logs_requests: bool = True

    @property
    def scheme(self) -> str:
        """The scheme of URLs."""
        return "http" if self.tls is None else "https"

    @property
    def needs_authentication(self) -> bool:
        """True when requests without credentials are refused."""
        return self.password_file is not None or self.bearer is not None


@attrs.frozen
class HttpSettings:
    """All settings of the host."""

    listen: ListenAddress
    options: HttpOptions = attrs.field(factory=HttpOptions)
