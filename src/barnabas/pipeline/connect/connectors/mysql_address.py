"""Addresses of MariaDB and MySQL: the driver's arguments, with TLS as JDBC addresses ask for it.

`sslMode` has the words of both JDBC drivers. Certificates are files in PEM format, by the names
that MariaDB's Java drivers give them.
"""

import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import SplitResult, unquote

from barnabas.pipeline.connect.connectors.database_access import (
    MYSQL_PREFIXES,
    DatabaseSettings,
    checked_address,
    listed,
)
from barnabas.pipeline.data.connect_errors import ConnectError

_PORT: Final = 3306
_MS_PER_S: Final = 1_000
_PARAMETERS: Final = (
    "user",
    "password",
    "sslMode",
    "serverSslCert",
    "clientSslCert",
    "clientSslKey",
    "connectTimeout",
)
_NO_TLS: Final = ("disabled", "disable")
_IF_POSSIBLE: Final = "preferred"
_UNCHECKED: Final = ("required", "trust")
_CHECKED: Final = ("verify-ca",)
_CHECKED_WITH_HOST: Final = ("verify-identity", "verify-full")
_MODES: Final = (*_NO_TLS, _IF_POSSIBLE, *_UNCHECKED, *_CHECKED, *_CHECKED_WITH_HOST)


def driver_arguments(settings: DatabaseSettings) -> dict[str, Any]:
    """Return the arguments that open a connection. Raises ConnectError."""
    parts, given = _parts(settings.url)
    user = settings.user if settings.user is not None else given.get("user")
    password = settings.password if settings.password is not None else given.get("password", "")
    host, port = _host_and_port(parts)
    arguments: dict[str, Any] = {
        "host": host,
        "port": port,
        "user": user,
        "password": password.encode(),
        "database": unquote(parts.path.strip("/")) or None,
        **_tls(given),
    }
    if "connectTimeout" in given:
        arguments["connect_timeout"] = _timeout_s(given["connectTimeout"])
    return arguments


def check_host(url: str) -> None:
    """Raise ConnectError for an address that does not name one host, or has other parameters.

    The files of its certificates need not be on this machine.
    """
    _host_and_port(_parts(url)[0])


def _parts(url: str) -> tuple[SplitResult, dict[str, str]]:
    prefix = next(each for each in MYSQL_PREFIXES if url.startswith(each))
    return checked_address(url, prefix, _PARAMETERS)


def _host_and_port(parts: SplitResult) -> tuple[str, int]:
    try:
        port = parts.port or _PORT
    except ValueError:
        port = 0
    host = parts.hostname or "localhost"
    if not port or "," in host:
        raise ConnectError(
            f"connection.url: {parts.netloc} must be one host, with a port or without: host:3306"
        )
    return host, port


def _timeout_s(text: str) -> float:
    if not text.isdecimal() or int(text) == 0:
        raise ConnectError(f"connection.url: connectTimeout={text} is not a number of milliseconds")
    return int(text) / _MS_PER_S


def _tls(given: Mapping[str, str]) -> dict[str, Any]:
    mode = given.get("sslMode", _IF_POSSIBLE).lower().replace("_", "-")
    if mode not in _MODES:
        raise ConnectError(
            f"connection.url: sslMode={given['sslMode']} is not known: use one of {listed(_MODES)}"
        )
    is_checked = mode in (*_CHECKED, *_CHECKED_WITH_HOST)
    certificate, key = given.get("clientSslCert"), given.get("clientSslKey")
    if "serverSslCert" in given and not is_checked:
        raise ConnectError(
            f"connection.url: serverSslCert is not used with sslMode={mode}: set "
            "sslMode=verify-ca or sslMode=verify-full"
        )
    if mode in (*_NO_TLS, _IF_POSSIBLE):
        if certificate or key:
            raise ConnectError(
                f"connection.url: clientSslCert and clientSslKey need TLS, and sslMode={mode} does "
                "not: set sslMode=trust, sslMode=verify-ca or sslMode=verify-full"
            )
        return {"ssl_disabled": True} if mode in _NO_TLS else {}
    try:
        context = ssl.create_default_context(cafile=given.get("serverSslCert"))
        if certificate:
            context.load_cert_chain(certificate, key)
    except OSError as error:
        raise ConnectError(
            f"connection.url: the certificates of serverSslCert, clientSslCert or clientSslKey "
            f"cannot be read: {error}"
        ) from error
    # The certificates that MySQL generates for itself are not strictly as X.509 wants them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = mode in _CHECKED_WITH_HOST
    context.verify_mode = ssl.CERT_REQUIRED if is_checked else ssl.CERT_NONE
    return {"ssl": context}
