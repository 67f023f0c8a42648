"""`barnabas certs`: a certificate authority, and certificates for nodes and clients."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from barnabas.cli.command_errors import CliError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barnabas.security.certificate_authority import CertificateAuthority

_CA, _CA_KEY = "ca.pem", "ca-key.pem"
_CA_DAYS = 3650


class _Issued(NamedTuple):
    """A file to write: its name, its text, and for whom it is."""

    file: str
    text: str
    note: str


@click.command()
@click.argument("nodes", nargs=-1, metavar="[NODE[,NAME...]]...")
@click.option(
    "--client",
    "clients",
    multiple=True,
    metavar="NAME",
    help="Make a certificate for a client, which is the principal User:CN=NAME; repeatable.",
)
@click.option(
    "--out",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("certs"),
    show_default=True,
    help="The directory to write the files to.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 36500),
    default=365,
    show_default=True,
    help="How long the certificates of nodes and clients are valid.",
)
def certs(nodes: tuple[str, ...], clients: tuple[str, ...], directory: Path, days: int) -> None:
    """Make a certificate authority, and certificates for nodes and clients.

    Each argument is a node: its DNS name or IP address, and after commas its other ones. When the
    directory has an authority, it signs the new certificates. No file is overwritten.
    """
    if not nodes and not clients:
        raise click.UsageError("Name at least one node, as localhost,127.0.0.1, or a --client.")
    if find_spec("cryptography") is None:
        raise CliError("certs needs the package cryptography: pip install 'barnabas[tls]'")
    now, lifetime = datetime.now(UTC), timedelta(days=days)
    authority, is_new = _authority(directory, now, max(days, _CA_DAYS))
    issued = list(_issued(authority, nodes, clients, now, lifetime))
    _refuse_existing(directory, issued)
    _write(directory, authority if is_new else None, issued)


def _authority(directory: Path, now: datetime, days: int) -> tuple[CertificateAuthority, bool]:
    """Return the authority of a directory, or a new one, and True when it is new."""
    from barnabas.security.certificate_authority import CertificateAuthority

    certificate, key = directory / _CA, directory / _CA_KEY
    if not certificate.exists() and not key.exists():
        name = f"barnabas {now:%Y-%m-%d}"
        return CertificateAuthority.create(name, now, timedelta(days=days)), True
    for path in (certificate, key):
        if not path.exists():
            raise CliError(
                f"{path} does not exist: put it back to sign with the authority of {directory}, or "
                "give another --out for a new one"
            )
    try:
        return CertificateAuthority.load(key.read_text(), certificate.read_text()), False
    except (ValueError, TypeError) as error:
        raise CliError(f"{key} and {certificate} are not an authority: {error}") from None


def _issued(
    authority: CertificateAuthority,
    nodes: Sequence[str],
    clients: Sequence[str],
    now: datetime,
    lifetime: timedelta,
) -> Iterator[_Issued]:
    """Yield each certificate to write. Raises CliError for an invalid name."""
    from barnabas.key_stores.stores import first_certificate
    from barnabas.security.certificates import read_certificate
    from barnabas.security.distinguished_names import distinguished_name

    try:
        for node in nodes:
            names = [name.strip() for name in node.split(",")]
            made = authority.issue_server(names, now, lifetime)
            note = f"key and certificate for {', '.join(names)}: only that node gets it"
            yield _Issued(_file_name(names[0]), made.store, f"{note} (ssl.keystore.location)")
        for name in clients:
            made = authority.issue_client(name, now, lifetime)
            subject = read_certificate(first_certificate(made.certificate)).subject
            note = f"key and certificate of the client User:{distinguished_name(subject)}"
            yield _Issued(_file_name(name), made.store, f"{note}: only that client gets it")
    except ValueError as error:
        raise CliError(f"Invalid name: {error}") from None


def _file_name(name: str) -> str:
    """Return the name of the file for a certificate."""
    return f"{name.replace('*', '_').replace('/', '_')}.pem"


def _refuse_existing(directory: Path, issued: Sequence[_Issued]) -> None:
    """Raise CliError when a file would be overwritten, or written twice."""
    files = [_CA, _CA_KEY]
    for each in issued:
        if each.file in files:
            raise CliError(f"two certificates would be {directory / each.file}: choose other names")
        files.append(each.file)
        if (directory / each.file).exists():
            raise CliError(
                f"{directory / each.file} exists and is not overwritten: move it away to renew it"
            )


def _write(
    directory: Path, authority: CertificateAuthority | None, issued: Sequence[_Issued]
) -> None:
    """Write the files, and print for whom each is."""
    from barnabas.private_files import PUBLIC_MODE, write_new_file

    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if authority is not None:
        write_new_file(directory / _CA_KEY, authority.key)
        write_new_file(directory / _CA, authority.certificate, PUBLIC_MODE)
    for each in issued:
        write_new_file(directory / each.file, each.text)
    notes = [
        (_CA, "the authority: every node and client gets it (ssl.truststore.location, "
         "ssl.ca.location)"),
        (_CA_KEY, "the authority's key: no node or client gets it; it signs further certificates"),
        *((each.file, each.note) for each in issued),
    ]  # fmt: skip
    width = max(len(str(directory / file)) for file, _ in notes)
    for file, note in notes:
        click.echo(f"{directory / file!s:<{width}}  {note}")
