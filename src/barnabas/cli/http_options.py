"""Options of commands that serve HTTP: TLS, authentication, log lines."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from barnabas.cli.command_errors import CliError
from barnabas.config import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.http import HttpOptions

_FILE = click.Path(dir_okay=False, path_type=Path)
_USAGE = 2

_OPTIONS = (
    click.option("--tls-certificate", type=_FILE, help="Serve https with this PEM certificate."),
    click.option("--tls-key", type=_FILE, help="The PEM key of the certificate."),
    click.option(
        "--tls-client-ca",
        type=_FILE,
        help="Accept only clients with a certificate of this PEM authority.",
    ),
    click.option(
        "--auth",
        type=click.Choice(["kafka"]),
        help="Require a user and password of the Kafka cluster, checked by a SASL login.",
    ),
    click.option(
        "--password-file",
        type=_FILE,
        help="Require a user and password of this htpasswd file (bcrypt).",
    ),
    click.option(
        "--token-keys",
        metavar="FILE|URL",
        help="Require a bearer token signed by a key of this JWKS or OIDC configuration.",
    ),
    click.option("--token-issuer", default="", help="The issuer of bearer tokens."),
    click.option("--token-audience", default="", help="The audience of bearer tokens."),
    click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        show_default=True,
        help="The least important log lines to write.",
    ),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="The form of log lines.",
    ),
)


class _Tls(NamedTuple):
    certificate: Path | None
    key: Path | None
    client_ca: Path | None


class _Token(NamedTuple):
    keys: str
    issuer: str
    audience: str


def http_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options to a command; it gets them as `options`, beside log level and form."""

    @wraps(command)
    def run(**values: Any) -> int:
        tls = _Tls(*(values.pop(f"tls_{name}") for name in _Tls._fields))
        token = _Token(*(values.pop(f"token_{name}") or "" for name in _Token._fields))
        return command(
            options=_options(tls, token, values.pop("auth") or "", values.pop("password_file")),
            **values,
        )

    for option in reversed(_OPTIONS):
        run = option(run)
    return run


def _options(tls: _Tls, token: _Token, auth: str, password_file: Path | None) -> HttpOptions:
    from barnabas.http import BearerSettings, HttpOptions, HttpTls

    certificate, key = tls.certificate, tls.key
    if (certificate is None) != (key is None):
        raise CliError("--tls-certificate and --tls-key belong together", _USAGE)
    try:
        return HttpOptions(
            tls=HttpTls(certificate, key, client_ca_file=tls.client_ca)
            if certificate is not None and key is not None
            else None,
            bearer=BearerSettings(*token) if token.keys else None,
            auth=auth,
            password_file=password_file,
        )
    except ConfigError as error:
        raise CliError(error.message, _USAGE) from None
