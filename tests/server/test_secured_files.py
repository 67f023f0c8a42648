"""The authority and the certificate of a secured node, whose start is killed at any step."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from barnabas.config import ConfigError
from barnabas.security.certificate_authority import has_names
from barnabas.server.node.secured_files import NODES_SUBJECT, SecuredFiles

NAMES = ("localhost", "127.0.0.1")


class Killed(BaseException):
    """The process ends here."""


def killed_at(step: int, monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> bool:
    """Do the work until its `step`-th change of a directory; return False when it has fewer."""
    left = step

    def counted(change: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            nonlocal left
            if not left:
                raise Killed
            left -= 1
            return change(*args, **options)

        return run

    with monkeypatch.context() as patched:
        for owner, name in ((os, "open"), (os, "replace"), (os, "fsync"), (Path, "unlink")):
            patched.setattr(owner, name, counted(getattr(owner, name)))
        try:
            work()
        except Killed:
            return True
    return False


def is_issued(files: SecuredFiles) -> bool:
    """Return True when the authority that clients have has issued all certificates."""
    authority = x509.load_pem_x509_certificate(files.authority.read_bytes())
    try:
        for path in (files.node_key, files.nodes_key):
            issued = x509.load_pem_x509_certificate(path.read_bytes())
            issued.verify_directly_issued_by(authority)
    except Exception:
        return False
    return True


def test_start_after_a_kill_at_any_step_has_a_certificate_of_its_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    killed = True
    while killed:
        files = SecuredFiles(tmp_path / str(steps))
        files.prepare_group_certificates(NAMES)
        files.authority.unlink()  # the documented way to a new authority
        killed = killed_at(steps, monkeypatch, partial(files.prepare_group_certificates, NAMES))
        files.prepare_group_certificates(NAMES)
        assert is_issued(files), steps
        steps += 1
    assert steps > 12


def test_certificate_between_nodes_is_one_of_servers_and_of_clients(tmp_path: Path) -> None:
    files = SecuredFiles(tmp_path)
    files.prepare_group_certificates(["kafka.example.org", *NAMES])
    found = {
        path.name: x509.load_pem_x509_certificate(path.read_bytes())
        for path in (files.node_key, files.nodes_key)
    }
    assert {name: each.subject.rfc4514_string() for name, each in found.items()} == {
        "node.pem": "CN=kafka.example.org",
        "nodes.pem": f"CN={NODES_SUBJECT}",
    }
    usages = found["nodes.pem"].extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usages) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert has_names(files.nodes_key.read_text(), NAMES)
    assert not has_names(files.nodes_key.read_text(), ["kafka.example.org"])


def test_damaged_authority_is_an_error_that_names_the_files(tmp_path: Path) -> None:
    files = SecuredFiles(tmp_path)
    files.prepare_certificate(NAMES)
    files.authority.write_text("damaged")
    files.node_key.unlink()
    with pytest.raises(ConfigError, match=r"remove ca\.pem, ca-key\.pem and node\.pem"):
        files.prepare_certificate(NAMES)
